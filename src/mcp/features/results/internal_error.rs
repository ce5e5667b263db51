//! [`internal_error`]: the answer to a request that failed inside the server. It must not show the cause to
//! the client: the cause is in the operator's log, and the client gets a reference to that entry.

use crate::clock::{self, System};
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR};
use crate::tasks::store::StoreError;

/// Logs an internal error under a random name. Returns an error that gives the client only this name. For an
/// unreadable row, that error also states that other tasks are not affected.
pub fn internal_error(error: &(dyn std::error::Error + 'static)) -> Error {
    let name: [u8; 5] = clock::random(&System);
    let name = data_encoding::BASE32_NOPAD.encode(&name).to_ascii_lowercase();
    tracing::error!(fault = name, error = %error, "internal error");
    let detail = match error.downcast_ref() {
        Some(StoreError::Unreadable(_)) => {
            "the server's record of this cannot be read. Other tasks are not affected, and asking again will not \
             help: the operator has to mend it, and "
        }
        _ => "",
    };
    let message = format!("internal error: {detail}the server's log says more under fault={name}");
    Error::new(INTERNAL_ERROR, message)
}

/// As [`internal_error`], for an error of the store.
pub fn store_error(error: StoreError) -> Error {
    internal_error(&error)
}
