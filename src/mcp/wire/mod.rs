//! What every generation shares on the wire: JSON-RPC, revisions, parameters, cursors, limits of a message,
//! and server-sent events. It must not know a method's meaning.

pub mod cursor;
pub mod jsonrpc;
pub mod limits;
pub mod params;
pub mod revision;
pub mod types;
