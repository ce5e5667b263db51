//! Validation of questions and answers: the same rules for every engine and every kind of client. Pure. It
//! must not know who is asked, or how.
//!
//! The texts made here never contain a value of an answer, because they are shown and logged.

mod form;
mod secret;
mod shapes;

use serde_json::Map;
use taskbridge_sdk::{Answer, Ask, Question};

/// Checks that a question can be asked.
///
/// # Errors
/// The reason, written for the author of the job.
pub fn check(question: &Question) -> Result<(), String> {
    match &question.ask {
        Ask::Form(schema) => form::check(schema),
        Ask::Url(url) => check_url(url),
        Ask::Sampling(request) => shapes::check_sampling(request),
        Ask::Roots => Ok(()),
    }
}

/// Returns the answer as the job receives it. A form gets the defaults of fields that were left out, and
/// loses unrequested fields. The answer to a URL has no content. A sampling result and roots lose `_meta`.
///
/// # Errors
/// The reason why the answer is invalid, written for the person who gave it.
pub fn normalize_answer(question: &Question, answer: Answer) -> Result<Answer, String> {
    let Answer::Accept(content) = answer else { return Ok(answer) };
    let content = match &question.ask {
        Ask::Form(schema) => form::fill(schema, content)?,
        Ask::Url(_) => Map::new(),
        Ask::Sampling(_) => shapes::validate_sampling_result(content)?,
        Ask::Roots => shapes::validate_roots(content)?,
    };
    Ok(Answer::Accept(content))
}

/// Accepts only `https`, and `http` to this machine: on others, someone could read the traffic or impersonate
/// the page.
fn check_url(url: &str) -> Result<(), String> {
    shapes::check_uri(url).map_err(|()| format!("its url {url:?} is not a valid URL"))?;
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("its url has a user name or a password before the host: remove it".to_owned());
    }
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match scheme.to_ascii_lowercase().as_str() {
        _ if host.is_empty() => Err(format!("its url {url:?} has no host")),
        "https" => Ok(()),
        "http" if is_loopback => Ok(()),
        _ => Err(format!(
            "its url {url:?} must begin with https:// (http:// is only for pages on this machine)"
        )),
    }
}

#[cfg(test)]
mod tests;
