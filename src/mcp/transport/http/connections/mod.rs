//! TCP and TLS connections below HTTP: accepting, counting, timeouts, idle eviction, and streams that leave
//! the HTTP library. It must not know MCP.

pub(super) mod capacity;
pub(super) mod connection;
pub(super) mod detached_stream;
pub(super) mod forwarded;
pub(super) mod head_scanner;
pub(super) mod idle;
pub(super) mod limits;
pub(super) mod listener;
pub(super) mod per_address;
pub(super) mod scheduler;
pub(super) mod socket;
pub(super) mod timeouts;
pub(super) mod tls;
