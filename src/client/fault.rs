//! [`Fault`]: why a request has no result, named by what the client does about it.

use reqwest::StatusCode;
use taskbridge_sdk::innermost;

use crate::mcp::jsonrpc;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The network. Whether the request arrived is not known, unless `unsent`.
    #[error("{why}")]
    Network {
        /// What happened.
        why: String,
        /// True if no connection came about: then nothing was sent.
        unsent: bool,
    },
    /// An HTTP status without an answer to the request.
    #[error("{}", in_words(*.status, .message))]
    Status {
        /// The status.
        status: StatusCode,
        /// What the server says of it.
        message: String,
    },
    /// The session is over: begin another.
    #[error("the server has ended the session: {0}")]
    NoSession(String),
    /// A JSON-RPC error.
    #[error("{}", .0.message)]
    Refused(jsonrpc::Error),
    /// What came is not MCP.
    #[error("{0}")]
    NotMcp(String),
}

impl Fault {
    /// True if the same request may go well later.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Network { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status)
            }
            Self::NoSession(_) | Self::Refused(_) | Self::NotMcp(_) => false,
        }
    }
}

impl From<reqwest::Error> for Fault {
    fn from(error: reqwest::Error) -> Self {
        let unsent = error.is_connect() || error.is_builder();
        let why =
            if error.is_timeout() { "the server does not answer".to_owned() } else { innermost(&error) };
        Self::Network { why, unsent }
    }
}

fn in_words(status: StatusCode, message: &str) -> String {
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    match status {
        StatusCode::UNAUTHORIZED => format!("the server does not let you in{said}"),
        StatusCode::NOT_FOUND => {
            format!("there is no MCP endpoint at this address{said}; taskbridge's ends in /mcp")
        }
        _ => format!("the server answered with HTTP status {}{said}", status.as_u16()),
    }
}
