//! [`Reply`]: a reply as expressions see it. It must not know what it answers.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};
use taskbridge_sdk::{count_values, from_json};

use crate::driver::net;
use crate::language::{Scope, URL};

/// Most values that the JSON of a reply may have: parsed, each takes up to a hundred times its text.
const MAX_VALUES: usize = 500_000;

/// A complete reply.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Headers whose values are text, with names in lower case.
    pub(crate) headers: Map<String, Value>,
    /// Body, if it is JSON.
    pub(crate) body: Option<Value>,
    /// Body as text.
    pub(crate) text: String,
    /// Whether the body is a page for people: that of a proxy, and not of the engine.
    pub(crate) is_page: bool,
    /// How long the engine asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// Address of the reply.
    pub(crate) url: String,
}

impl Reply {
    /// Reads a reply.
    ///
    /// # Errors
    /// If its JSON has too many values.
    pub(crate) fn read(reply: &net::Reply) -> Result<Self, String> {
        Self::new(reply.status, &reply.headers, &reply.body, reply.url.as_str())
    }

    /// Creates a reply from its parts.
    ///
    /// # Errors
    /// As for [`Reply::read`].
    pub(crate) fn new(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        url: &str,
    ) -> Result<Self, String> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let content_type = header(header::CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let is_page = content_type.starts_with("text/html") || content_type.starts_with("application/xhtml");
        let may_be_json = !is_page && !content_type.starts_with("application/octet-stream");
        let body_json = match may_be_json && !body.is_empty() {
            true if count_values(body) > MAX_VALUES => {
                return Err(format!("its JSON has more than {MAX_VALUES} values"));
            }
            true => from_json(body).ok(),
            false => None,
        };
        let names = headers.keys().map(|name| name.as_str());
        let all =
            names.filter_map(|name| Some((name.to_owned(), Value::from(headers.get(name)?.to_str().ok()?))));
        Ok(Self {
            status: status.as_u16(),
            headers: all.collect(),
            body: body_json,
            text: String::from_utf8_lossy(body).into_owned(),
            is_page,
            retry_after: header(header::RETRY_AFTER).and_then(retry_after),
            url: url.to_owned(),
        })
    }

    /// Returns a scope with the reply.
    pub(crate) fn scope(&self, scope: Scope) -> Scope {
        let scope = scope
            .with("status", self.status)
            .with("headers", &self.headers)
            .with("text", &self.text)
            .with(URL, &self.url);
        match &self.body {
            Some(body) => scope.with("body", body),
            None => scope.without("body"),
        }
    }

    /// Returns the reply as a value of `more`.
    pub(crate) fn value(&self) -> Value {
        let mut value = Map::new();
        value.insert("status".to_owned(), self.status.into());
        value.insert("headers".to_owned(), self.headers.clone().into());
        value.insert("text".to_owned(), self.text.as_str().into());
        value.extend(self.body.clone().map(|body| ("body".to_owned(), body)));
        Value::Object(value)
    }

    /// Returns whether the status is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the reply says that there is nothing. A page of a proxy says nothing about the engine.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.status, 404 | 410) && !self.is_page
    }

    /// Returns the target of a link with `rel="next"`.
    pub(crate) fn next_link(&self) -> Option<String> {
        let header = self.headers.get("link")?.as_str()?;
        header.split(',').find_map(|link| {
            let (target, parameters) = link.split_once(';')?;
            let is_next = parameters.split(';').any(|parameter| {
                matches!(parameter.trim().to_ascii_lowercase().as_str(), "rel=\"next\"" | "rel=next")
            });
            let target = target.trim().strip_prefix('<')?.strip_suffix('>')?;
            is_next.then(|| target.to_owned())
        })
    }
}

/// Reads `Retry-After`: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Duration::try_from(at.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}
