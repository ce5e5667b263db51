//! Translation of failed GitHub calls to errors of the sdk. [`meaning`] is the whole table. A message must
//! not contain a secret; GitHub never quotes a token.

use std::time::Duration;

use http::HeaderMap;
use octocrab::Error as Octocrab;
use taskbridge_sdk::{Error, Timestamp, find_cause, innermost, one_line};

use crate::wire::Refused;

/// How long to wait if GitHub reports a rate limit without a time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Failed call: the error for the caller, and the status from GitHub if it answered.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Option<u16>,
    pub(crate) error: Error,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Whether a call that may have taken effect can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The call only reads, or repeating it has no further effect.
    Safe,
    /// Repeating the call may start a second run.
    Unsafe,
}

/// Meaning of an error response from GitHub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Rejected,
    Denied,
    NotFound,
    /// The resource has moved, and the call had no effect.
    Moved,
    Limited(Duration),
    /// The call may have had an effect.
    Unknown,
}

/// Returns the meaning of a status, with its headers and message.
pub(crate) fn meaning(status: u16, headers: &HeaderMap, words: &str) -> Meaning {
    let words = words.to_ascii_lowercase();
    let limited = headers.contains_key("retry-after")
        || text(headers, "x-ratelimit-remaining") == Some("0")
        || words.contains("rate limit")
        || words.contains("abuse detection");
    match status {
        300..=399 => Meaning::Moved,
        429 => Meaning::Limited(retry_after(headers)),
        403 if limited => Meaning::Limited(retry_after(headers)),
        401 | 403 => Meaning::Denied,
        404 | 410 => Meaning::NotFound,
        400..=499 => Meaning::Rejected,
        // Whether the call took effect before the failure is unknown, whatever the status is.
        _ => Meaning::Unknown,
    }
}

/// Returns how long GitHub asks to wait: `retry-after`; else, if no request is left, the time until the limit
/// is reset, by GitHub's own clock; else `PATIENCE`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = |name| text(headers, name)?.trim().parse::<u64>().ok();
    if let Some(seconds) = seconds("retry-after") {
        return Duration::from_secs(seconds);
    }
    let spent = text(headers, "x-ratelimit-remaining") == Some("0");
    match (spent, seconds("x-ratelimit-reset"), date(headers)) {
        (true, Some(reset), Some(now)) => {
            let reset =
                Timestamp::from_millis(i64::try_from(reset).unwrap_or(i64::MAX / 1000).saturating_mul(1000));
            reset.since(now).max(Duration::from_secs(1))
        }
        _ => PATIENCE,
    }
}

pub(crate) fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(text(headers, "date")?).ok()?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()))
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Failure {
    /// Translates an error response.
    pub(crate) fn answered(
        what: &str,
        repeat: Repeat,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let words = serde_json::from_slice::<Refused>(body).unwrap_or_default().message;
        let said = match one_line(&words).as_str() {
            "" => format!("{what}: GitHub answers with the status {status}"),
            words => format!("{what}: {words}"),
        };
        let error = match meaning(status, headers, &words) {
            Meaning::Rejected => Error::rejected(said),
            Meaning::Denied if status == 401 => Error::denied(format!(
                "{what}: GitHub does not accept the token: look whether it has expired or was revoked"
            )),
            Meaning::Denied => Error::denied(match text(headers, "x-accepted-github-permissions") {
                Some(needed) => format!("{said}; give the token the permission {}", one_line(needed)),
                None => said,
            }),
            Meaning::NotFound => Error::config(format!(
                "{said}: it does not exist, or the token may not see it; correct the name, or give the token access"
            )),
            Meaning::Moved => Error::config(format!(
                "{said}: GitHub redirects this to where it is not followed: see whether `api` and `repository` are right"
            )),
            Meaning::Limited(after) => Error::limited(Some(after), said),
            Meaning::Unknown => unclear(repeat, said),
        };
        Self { status: Some(status), error }
    }

    /// Translates a failure without a response.
    pub(crate) fn unanswered(what: &str, repeat: Repeat, error: Octocrab) -> Self {
        // The calls themselves return raw responses, so this error is about the token of an installation.
        if let Octocrab::GitHub { source, .. } = &error {
            let said = format!("{what}: GitHub gives the App no token: {}", one_line(&source.message));
            let error = match source.status_code.as_u16() {
                500.. => Error::unavailable(said),
                _ => Error::denied(format!("{said}: look at the App's id, its key and its installation")),
            };
            return Self { status: None, error };
        }
        let unsent = find_cause::<reqwest::Error>(&error).is_some_and(reqwest::Error::is_connect);
        let why = innermost(&error);
        let made = match &error {
            Octocrab::JWT { .. } => {
                Error::config(format!("{what}: the App's private key cannot be used: {why}"))
            }
            _ if unsent => Error::unavailable(format!("{what}: GitHub cannot be reached: {why}")),
            _ => unclear(repeat, format!("{what}: the connection failed: {why}")),
        };
        Self { status: None, error: made.caused_by(error) }
    }

    /// Returns the error of a call that timed out.
    pub(crate) fn late(what: &str, repeat: Repeat) -> Self {
        Self { status: None, error: unclear(repeat, format!("{what}: no answer in time")) }
    }

    /// Returns true if GitHub answered with this status.
    pub(crate) fn is(&self, status: u16) -> bool {
        self.status == Some(status)
    }
}

/// Returns the error of a call that may have taken effect.
pub(crate) fn unclear(repeat: Repeat, message: String) -> Error {
    match repeat {
        Repeat::Safe => Error::unavailable(message),
        Repeat::Unsafe => Error::uncertain(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::ErrorKind;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn answered(status: u16, pairs: &[(&'static str, &str)], words: &str) -> Failure {
        let body = serde_json::json!({"message": words}).to_string();
        Failure::answered("dispatch", Repeat::Unsafe, status, &headers(pairs), body.as_bytes())
    }

    #[test]
    fn each_answer_means_one_thing() {
        let limited = |seconds| ErrorKind::Limited { after: Some(Duration::from_secs(seconds)) };
        for (status, pairs, words, kind) in [
            (422, &[][..], "No ref found for: x", ErrorKind::Rejected),
            (401, &[][..], "Bad credentials", ErrorKind::Denied),
            (403, &[][..], "Resource not accessible by integration", ErrorKind::Denied),
            (403, &[("retry-after", "7")][..], "secondary", limited(7)),
            (403, &[][..], "You have exceeded a secondary rate limit", limited(60)),
            (429, &[][..], "", limited(60)),
            (404, &[][..], "Not Found", ErrorKind::Config),
            (307, &[][..], "Temporary Redirect", ErrorKind::Config),
            (502, &[][..], "Server Error", ErrorKind::Uncertain),
            (503, &[][..], "", ErrorKind::Uncertain),
        ] {
            assert_eq!(answered(status, pairs, words).error.kind(), kind, "{status} {words}");
        }
        let safe = Failure::answered("look", Repeat::Safe, 502, &HeaderMap::new(), b"<html>");
        assert_eq!(safe.error.kind(), ErrorKind::Unavailable);
    }

    /// The wait for a spent rate limit is measured from the date of the response.
    #[test]
    fn rate_limit_wait_uses_github_clock() {
        let pairs = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1767225730"),
            ("date", "Thu, 01 Jan 2026 00:02:00 GMT"),
        ];
        assert_eq!(retry_after(&headers(&pairs)), Duration::from_secs(10));
        assert_eq!(retry_after(&headers(&pairs[..2])), PATIENCE, "without a date");
        assert_eq!(retry_after(&headers(&pairs[1..])), PATIENCE, "a limit that is not spent says nothing");
    }
}
