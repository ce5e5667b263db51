//! The messages of the benchmark, and the relevant parts of their responses. They are written and searched
//! as text, because a slow client would hide the server's speed.

use super::Result;

/// A family of revisions with one wire shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// 2025-11-25: a session, and `tasks/result`.
    V2025,
    /// 2026-07-28: every request is self-contained, and `tasks/get` returns the result.
    V2026,
}

impl Generation {
    /// Both generations.
    pub(crate) const ALL: [Self; 2] = [Self::V2025, Self::V2026];

    /// Returns the revision.
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::V2025 => "2025-11-25",
            Self::V2026 => "2026-07-28",
        }
    }
}

/// A request, with the fields that 2026-07-28 repeats in headers.
pub(crate) struct Request {
    pub(crate) generation: Generation,
    pub(crate) method: &'static str,
    pub(crate) name: String,
    pub(crate) body: String,
}

/// The metadata of every request of 2026-07-28.
const ABOUT: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

/// The duration of a job that outlives the benchmark, in milliseconds: its task stays live during any
/// measurement.
pub(crate) const LONG: u64 = 3_600_000;

/// The duration of a job that ends while its client waits for it, in milliseconds.
pub(crate) const SHORT: u64 = 20;

/// Opens a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{},"cancel":{}}},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// Completes the opening.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns a call that creates a task.
pub(crate) fn create(generation: Generation, id: u64, delay_ms: u64) -> Request {
    let as_task = match generation {
        Generation::V2025 => r#""task":{"ttl":7200000}"#,
        Generation::V2026 => ABOUT,
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"sleep_job","arguments":{{"delay_ms":{delay_ms}}},{as_task}}}}}"#
    );
    Request { generation, method: "tools/call", name: "sleep_job".to_owned(), body }
}

/// Returns a poll.
pub(crate) fn get(generation: Generation, id: u64, task: &str) -> Request {
    of_task(generation, id, "tasks/get", task)
}

/// Returns a request that waits for the result. 2026-07-28 has none.
pub(crate) fn result(id: u64, task: &str) -> Request {
    of_task(Generation::V2025, id, "tasks/result", task)
}

fn of_task(generation: Generation, id: u64, method: &'static str, task: &str) -> Request {
    let about = match generation {
        Generation::V2025 => String::new(),
        Generation::V2026 => format!(",{ABOUT}"),
    };
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"taskId":"{task}"{about}}}}}"#);
    Request { generation, method, name: task.to_owned(), body }
}

/// Returns the id of the task in a response.
pub(crate) fn task_id(answer: &str) -> Result<&str> {
    let (_, rest) = answer.split_once(r#""taskId":""#).ok_or_else(|| format!("no task in {answer}"))?;
    Ok(rest.split_once('"').ok_or("a task id without an end")?.0)
}

/// Reports whether a response to a poll of 2026-07-28 contains the result.
pub(crate) fn is_completed(answer: &str) -> bool {
    answer.contains(r#""status":"completed""#)
}

/// Fails if the response is an error.
pub(crate) fn check(answer: &str) -> Result<()> {
    if answer.contains(r#""result":"#) && !answer.contains(r#""isError":true"#) {
        return Ok(());
    }
    Err(format!("the server answers {answer}").into())
}
