//! [`ServerCallError`]: the reason why a request has no result, classified by the client's reaction.

use reqwest::StatusCode;
use taskbridge_sdk::root_cause;
use taskbridge_wire::jsonrpc;

/// The reason why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerCallError {
    /// A network error. The request may have arrived, unless `unsent`.
    #[error("{why}")]
    Network {
        /// The cause.
        why: String,
        /// True if no connection was established: then nothing was sent.
        unsent: bool,
    },
    /// An HTTP status without an answer to the request.
    #[error("{}", in_words(*.status, .message))]
    Status {
        /// The status.
        status: StatusCode,
        /// The server's message.
        message: String,
    },
    /// The session has ended: a new one is needed.
    #[error("the server has ended the session: {0}")]
    SessionExpired(String),
    /// A JSON-RPC error.
    #[error("{}", .0.message)]
    JsonRpc(jsonrpc::Error),
    /// A response that is not MCP.
    #[error("{0}")]
    InvalidResponse(String),
}

impl ServerCallError {
    /// Returns true if a retry of the same request may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Network { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error()
                    || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status)
            }
            Self::SessionExpired(_) | Self::JsonRpc(_) | Self::InvalidResponse(_) => false,
        }
    }

    /// Returns true if the server may have processed the request, although no answer arrived.
    pub(super) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Network { unsent, .. } => !unsent,
            Self::Status { status, .. } => status.is_server_error(),
            Self::SessionExpired(_) | Self::JsonRpc(_) | Self::InvalidResponse(_) => false,
        }
    }
}

impl From<reqwest::Error> for ServerCallError {
    fn from(error: reqwest::Error) -> Self {
        let unsent = error.is_connect() || error.is_builder();
        let why =
            if error.is_timeout() { "the server does not answer".to_owned() } else { root_cause(&error) };
        Self::Network { why, unsent }
    }
}

fn in_words(status: StatusCode, message: &str) -> String {
    let details = if message.is_empty() { String::new() } else { format!(": {message}") };
    match status {
        StatusCode::UNAUTHORIZED => format!("authentication failed{details}"),
        StatusCode::NOT_FOUND => {
            format!("no MCP endpoint at this address{details}; that of taskbridge ends in /mcp")
        }
        _ => format!("the server answered with HTTP status {}{details}", status.as_u16()),
    }
}
