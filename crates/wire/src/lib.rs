//! What the server and the client of `taskbridge call` share of the wire: [`jsonrpc`] envelopes, the
//! [`revision`]s of MCP, and names of taskbridge's extensions. It must not know a method's meaning.

pub mod jsonrpc;
pub mod revision;

/// Key of a call's idempotency key in `_meta`.
pub const IDEMPOTENCY_KEY: &str = "io.taskbridge/idempotency-key";

/// Names of the server's own tools, which replace the protocol's requests about tasks for clients without
/// them.
pub const COMPANION_TOOLS: [&str; 5] = ["task_wait", "task_cancel", "task_answer", "task_list", "task_logs"];
