//! [`SendError`]: why a request has no complete reply, and whether it may have been sent. It must not decide
//! what that means for a job.

use std::fmt;

use http::StatusCode;
use taskbridge_sdk::{find_cause, root_cause};

use super::resolver::ForbiddenAddress;

/// Failed request. No message contains a credential, a header's value, or the query of an address.
#[derive(Clone, Debug)]
pub(crate) enum SendError {
    /// No byte of the request was sent: no address, refused connection, failed TLS handshake.
    NotSent(String),
    /// Our own rules refuse the address, or that of a redirect. Nothing was sent to it.
    Forbidden(String),
    /// The request may have been received and processed: a timeout, a reset, an incomplete reply.
    Uncertain(String),
    /// A reply arrived, and its body is larger than `max_reply`.
    TooLarge {
        #[allow(dead_code, reason = "the tests of the limits read it")]
        status: StatusCode,
        /// Size of the body if the reply states it, in bytes.
        size: Option<u64>,
        message: String,
    },
}

impl SendError {
    /// Classifies an error of the HTTP library. `host` is the host of the request.
    pub(super) fn classify(host: &str, error: &reqwest::Error) -> Self {
        if let Some(forbidden) = find_cause::<ForbiddenAddress>(error) {
            return Self::Forbidden(forbidden.to_string());
        }
        let cause = root_cause(error);
        if error.is_builder() {
            return Self::Forbidden(format!("the request to {host} is not valid: {cause}"));
        }
        // DNS, TCP and TLS: the connection exists before the first byte of a request.
        if error.is_connect() {
            return Self::NotSent(format!("{host} cannot be reached: {cause}"));
        }
        Self::Uncertain(match error.is_timeout() {
            true => format!("{host} did not answer in time"),
            false => format!("the connection to {host} was lost: {cause}"),
        })
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotSent(message)
        | Self::Forbidden(message)
        | Self::Uncertain(message)
        | Self::TooLarge { message, .. }) = self;
        f.write_str(message)
    }
}
