//! What every generation shares on the wire: JSON-RPC, revisions, types, parameters, cursors, and limits of a
//! message. It must not know a method's meaning.

pub mod cursor;
pub mod limits;
pub mod params;
pub mod types;

pub use taskbridge_wire::{COMPANION_TOOLS, IDEMPOTENCY_KEY, LINK, USUAL_DURATION, jsonrpc, revision};
