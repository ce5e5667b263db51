//! Translation of failed GitHub calls to errors of the sdk. [`classify`] is the whole table. A message must
//! not contain a secret; GitHub never quotes a token.

use std::time::Duration;

use http::HeaderMap;
use octocrab::Error as Octocrab;
use taskbridge_sdk::{Error, Timestamp, find_cause, one_line, root_cause};

use crate::driver::wire::ErrorResponse;

/// How long to wait if GitHub reports a rate limit without a time.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);

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
pub(crate) enum RetrySafety {
    /// The call only reads, or repeating it has no further effect.
    Safe,
    /// Repeating the call may start a second run.
    Unsafe,
}

/// Meaning of an error response from GitHub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
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
pub(crate) fn classify(status: u16, headers: &HeaderMap, message: &str) -> ErrorClass {
    let message = message.to_ascii_lowercase();
    let is_rate_limited = headers.contains_key("retry-after")
        || header_text(headers, "x-ratelimit-remaining") == Some("0")
        || message.contains("rate limit")
        || message.contains("abuse detection");
    match status {
        300..=399 => ErrorClass::Moved,
        429 => ErrorClass::Limited(retry_after(headers)),
        403 if is_rate_limited => ErrorClass::Limited(retry_after(headers)),
        401 | 403 => ErrorClass::Denied,
        404 | 410 => ErrorClass::NotFound,
        400..=499 => ErrorClass::Rejected,
        // Whether the call took effect before the failure is unknown, whatever the status is.
        _ => ErrorClass::Unknown,
    }
}

/// Returns how long GitHub asks to wait: `retry-after`; else, if no request is left, the time until the limit
/// is reset, by GitHub's own clock; else `DEFAULT_RETRY_AFTER`.
pub(crate) fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = |name| header_text(headers, name)?.trim().parse::<u64>().ok();
    if let Some(seconds) = seconds("retry-after") {
        return Duration::from_secs(seconds);
    }
    let is_exhausted = header_text(headers, "x-ratelimit-remaining") == Some("0");
    match (is_exhausted, seconds("x-ratelimit-reset"), header_date(headers)) {
        (true, Some(reset), Some(now)) => {
            let reset =
                Timestamp::from_millis(i64::try_from(reset).unwrap_or(i64::MAX / 1000).saturating_mul(1000));
            reset.since(now).max(Duration::from_secs(1))
        }
        _ => DEFAULT_RETRY_AFTER,
    }
}

pub(crate) fn header_date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(header_text(headers, "date")?).ok()?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()))
}

pub(crate) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Failure {
    /// Translates an error response.
    pub(crate) fn from_response(
        label: &str,
        retry_safety: RetrySafety,
        status: u16,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let github_message = serde_json::from_slice::<ErrorResponse>(body).unwrap_or_default().message;
        let message = match one_line(&github_message).as_str() {
            "" => format!("{label}: GitHub answers with the status {status}"),
            github_message => format!("{label}: {github_message}"),
        };
        let error = match classify(status, headers, &github_message) {
            ErrorClass::Rejected => Error::rejected(message),
            ErrorClass::Denied if status == 401 => Error::denied(format!(
                "{label}: GitHub does not accept the token: check whether it expired or was revoked"
            )),
            ErrorClass::Denied => {
                Error::denied(match header_text(headers, "x-accepted-github-permissions") {
                    Some(permissions) => {
                        format!("{message}; give the token the permission {}", one_line(permissions))
                    }
                    None => message,
                })
            }
            ErrorClass::NotFound => Error::config(format!(
                "{message}: it does not exist, or the token may not see it; correct the name, or give the token access"
            )),
            ErrorClass::Moved => Error::config(format!(
                "{message}: GitHub redirects to a URL that is not followed: check `api` and `repository`"
            )),
            ErrorClass::Limited(after) => Error::limited(Some(after), message),
            ErrorClass::Unknown => unknown_outcome(retry_safety, message),
        };
        Self { status: Some(status), error }
    }

    /// Translates a failure without a response.
    pub(crate) fn from_client_error(label: &str, retry_safety: RetrySafety, error: Octocrab) -> Self {
        // The calls themselves return raw responses, so this error is about the token of an installation.
        if let Octocrab::GitHub { source, .. } = &error {
            let message =
                format!("{label}: GitHub refuses a token for the App: {}", one_line(&source.message));
            let error = match source.status_code.as_u16() {
                500.. => Error::unavailable(message),
                _ => Error::denied(format!("{message}: check the App's id, key and installation")),
            };
            return Self { status: None, error };
        }
        let is_connect = find_cause::<reqwest::Error>(&error).is_some_and(reqwest::Error::is_connect);
        let cause = root_cause(&error);
        let sdk_error = match &error {
            Octocrab::JWT { .. } => {
                Error::config(format!("{label}: the App's private key cannot be used: {cause}"))
            }
            _ if is_connect => Error::unavailable(format!("{label}: GitHub cannot be reached: {cause}")),
            _ => unknown_outcome(retry_safety, format!("{label}: the connection failed: {cause}")),
        };
        Self { status: None, error: sdk_error.caused_by(error) }
    }

    /// Returns the error of a call that timed out.
    pub(crate) fn from_timeout(label: &str, retry_safety: RetrySafety) -> Self {
        Self { status: None, error: unknown_outcome(retry_safety, format!("{label}: timed out")) }
    }

    /// Returns true if GitHub answered with this status.
    pub(crate) fn has_status(&self, status: u16) -> bool {
        self.status == Some(status)
    }
}

/// Returns the error of a call that may have taken effect.
pub(crate) fn unknown_outcome(retry_safety: RetrySafety, message: String) -> Error {
    match retry_safety {
        RetrySafety::Safe => Error::unavailable(message),
        RetrySafety::Unsafe => Error::uncertain(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::ErrorKind;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn failure_for(status: u16, pairs: &[(&'static str, &str)], message: &str) -> Failure {
        let body = serde_json::json!({"message": message}).to_string();
        Failure::from_response("dispatch", RetrySafety::Unsafe, status, &headers(pairs), body.as_bytes())
    }

    #[test]
    fn each_answer_means_one_thing() {
        let limited = |seconds| ErrorKind::Limited { after: Some(Duration::from_secs(seconds)) };
        for (status, pairs, message, kind) in [
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
            assert_eq!(failure_for(status, pairs, message).error.kind(), kind, "{status} {message}");
        }
        let safe = Failure::from_response("poll", RetrySafety::Safe, 502, &HeaderMap::new(), b"<html>");
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
        assert_eq!(retry_after(&headers(&pairs[..2])), DEFAULT_RETRY_AFTER, "without a date");
        assert_eq!(
            retry_after(&headers(&pairs[1..])),
            DEFAULT_RETRY_AFTER,
            "the reset time counts only for a spent limit"
        );
    }
}
