//! The messages of the benchmark, and what it looks for in their answers. Written and searched as text: a client
//! that takes its time would hide the server's.

use super::Result;

/// A job that outlives the benchmark: its task is live as long as anybody measures.
pub(crate) const LONG: u64 = 3_600_000;

/// Opens a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{},"cancel":{}}},"clientInfo":{"name":"bench","version":"1"}}}"#;

/// Completes it.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A call as a task.
pub(crate) fn create(id: u64, delay_ms: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"sleep_job","arguments":{{"delay_ms":{delay_ms}}},"task":{{"ttl":7200000}}}}}}"#
    )
}

/// A poll.
pub(crate) fn get(id: u64, task: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/get","params":{{"taskId":"{task}"}}}}"#)
}

/// A request for the result, which waits for it.
pub(crate) fn result(id: u64, task: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/result","params":{{"taskId":"{task}"}}}}"#)
}

/// The task that an answer names.
pub(crate) fn task_id(answer: &str) -> Result<&str> {
    let (_, rest) = answer.split_once(r#""taskId":""#).ok_or_else(|| format!("no task in {answer}"))?;
    Ok(rest.split_once('"').ok_or("a task id without an end")?.0)
}

/// Refuses an answer that is an error.
pub(crate) fn check(answer: &str) -> Result<()> {
    if answer.contains(r#""result":"#) && !answer.contains(r#""isError":true"#) {
        return Ok(());
    }
    Err(format!("the server answers {answer}").into())
}
