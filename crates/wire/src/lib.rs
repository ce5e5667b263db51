//! What the server and the client of `taskbridge call` share of the wire: [`jsonrpc`] envelopes and the
//! [`revision`]s of MCP. It must not know a method's meaning.

pub mod jsonrpc;
pub mod revision;
