//! What the server and the client of `taskbridge call` share of the wire: [`jsonrpc`] envelopes, the
//! [`revision`]s of MCP, and names of taskbridge's extensions. It must not know a method's meaning.

pub mod jsonrpc;
pub mod revision;

/// Key of a call's idempotency key in `_meta`.
pub const IDEMPOTENCY_KEY: &str = "io.taskbridge/idempotency-key";

/// Key of the address of a task's job in the engine's own pages, in `_meta`.
pub const LINK: &str = "io.taskbridge/link";

/// Key of the usual duration of a task's tool, in `_meta` of `tasks/get`: `medianMs` and `p90Ms` in
/// milliseconds, `jobs` (number of jobs that it is from), `text`, and, while the job runs, `estimate` (text) and
/// `expectedEnd` (RFC 3339; absent if the job runs longer than usual).
pub const USUAL_DURATION: &str = "io.taskbridge/usual-duration";

/// Names of the server's own tools, which replace the protocol's requests about tasks for clients without
/// them.
pub const COMPANION_TOOLS: [&str; 6] =
    ["task_wait", "task_cancel", "task_answer", "task_list", "task_logs", "task_view"];
