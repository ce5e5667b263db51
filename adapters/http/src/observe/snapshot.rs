//! [`Snapshot`]: what a reply says of a job's state. Pure.

use std::time::Duration;

use taskbridge_sdk::{Error, ErrorKind, Result};

use crate::config::{Config, Observe, State};
use crate::driver::error::reply_error;
use crate::driver::reply::Reply;
use crate::language::{Expression, Scope, plain_text};

/// What is known of a job after a poll.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    pub(crate) state: State,
    /// The engine's word for the state.
    pub(crate) word: String,
    /// The handle, the reply and those of `more`.
    pub(crate) scope: Scope,
    pub(crate) table: &'a Observe,
    pub(crate) retry_after: Option<Duration>,
}

/// Returns the first table whose `if` holds.
///
/// # Errors
/// If there is none.
pub(crate) fn observe_table<'a>(config: &'a Config, scope: &Scope) -> Result<&'a Observe, String> {
    for table in config.observe.iter() {
        match &table.condition {
            Some(condition) if !condition.is_true(scope)? => {}
            _ => return Ok(table),
        }
    }
    Err("no table of `observe` is for this job: its `if` is false".to_owned())
}

/// The engine's word for a state.
#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// Whether the config does not have it.
    pub(crate) is_unknown: bool,
}

/// Returns the state in a reply. `None` if the engine does not know the job.
///
/// # Errors
/// What a reply without a state means.
pub(crate) fn state_of(
    config: &Config,
    table: &Observe,
    reply: &Reply,
    scope: &Scope,
) -> Result<Option<(State, Word)>> {
    let reply_scope = reply.scope(scope.clone());
    let is_gone = match &table.gone {
        Some(gone) => gone.is_true(&reply_scope).map_err(unreadable)?,
        None => reply.is_absent(),
    };
    if is_gone {
        return Ok(None);
    }
    if !reply.is_success() || reply.is_page {
        return Err(reply_error(config, "observe", reply, scope, ErrorKind::Unavailable));
    }
    let (state, word) = state_word(table, &table.state, &reply_scope).map_err(unreadable)?;
    let is_ours = || table.cancelled.as_ref().map_or(Ok(false), |cancelled| cancelled.is_true(&reply_scope));
    Ok(match state {
        State::Gone => None,
        State::Failed if is_ours().map_err(unreadable)? => Some((State::Cancelled, word)),
        state => Some((state, word)),
    })
}

/// Returns the state that an expression names.
///
/// # Errors
/// If it has no value: a reply without a state is no state.
pub(crate) fn state_word(
    table: &Observe,
    expression: &Expression,
    scope: &Scope,
) -> Result<(State, Word), String> {
    let value = expression.some(scope)?;
    let value = value.ok_or_else(|| format!("`{}` has no value in the reply", expression.source()))?;
    let text = plain_text(&value);
    let known = table.states.get(&text).copied().or_else(|| State::parse(&text));
    Ok((known.unwrap_or(table.unknown), Word { text, is_unknown: known.is_none() }))
}

fn unreadable(message: String) -> Error {
    Error::unavailable(format!("the reply cannot be read: {message}"))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;

    /// The table that opens `mod.rs` has every state, and what it says is what the code does.
    #[test]
    fn state_table_matches_code() {
        let observe = |cancelled: &str| -> Observe {
            serde_json::from_value(json!({
                "path": "/x", "state": "body.s", "states": {"OK": "succeeded", "BAD": "failed"}, "cancelled": cancelled,
            }))
            .unwrap()
        };
        let config: Config = serde_json::from_value(json!({
            "base": "http://127.0.0.1:9", "observe": {"path": "/x", "state": "body.s"},
            "start": {"path": "/x", "once": "none", "handle": {"id": "body.id"}},
        }))
        .unwrap();
        let state = |word: &str, cancelled: &str| {
            let body = json!({"s": word}).to_string();
            let reply =
                Reply::new(StatusCode::OK, &HeaderMap::new(), body.as_bytes(), "http://127.0.0.1:9/x")
                    .unwrap();
            let found = state_of(&config, &observe(cancelled), &reply, &Scope::default()).unwrap();
            found.map(|(state, word)| (state, word.is_unknown))
        };
        let table = include_str!("mod.rs");
        for (word, expected) in [
            ("queued", State::Queued),
            ("running", State::Running),
            ("asks", State::Asks),
            ("succeeded", State::Succeeded),
            ("failed", State::Failed),
            ("cancelled", State::Cancelled),
        ] {
            assert_eq!(state(word, "false"), Some((expected, false)), "{word}");
            assert!(table.contains(&format!("| `{word}` |")), "{word} is not in the table");
        }
        assert_eq!(state("OK", "true"), Some((State::Succeeded, false)));
        assert_eq!(state("BAD", "true"), Some((State::Cancelled, false)));
        assert_eq!(state("gone", "false"), None);
        assert_eq!(state("NEW", "false"), Some((State::Running, true)));
    }
}
