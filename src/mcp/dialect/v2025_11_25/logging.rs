//! `logging/setLevel`, and the log messages of tasks as `notifications/message`.
//! [`crate::mcp::session::log_cursor`] decides which messages a task has; this module only drops those below
//! the session's level.

use serde_json::{Map, Value, json};

use super::{SessionCall, to_wire};
use crate::mcp::session::log_cursor::{DEFAULT_LEVEL, LogMessage};
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::Outcome;
use crate::mcp::wire::params;
use crate::sessions::SessionChange;
use crate::tasks::store::StoreError;
use crate::tasks::task::TaskId;

/// `logging/setLevel`: sets the level for the rest of the session, in every process that serves it.
pub(super) async fn set_level(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let level = params::level("level", params.get("level"))?;
    call.set(SessionChange::Level(level)).await?;
    Ok(Value::Object(Map::new()))
}

/// Sends log messages of a task, except those below the session's level. `related` is the id of the task, if
/// the client knows the task.
///
/// # Errors
/// If the store fails.
pub(super) async fn send_log_messages(
    call: &SessionCall<'_>,
    messages: Vec<LogMessage>,
    related: Option<&TaskId>,
    sink: &dyn MessageSink,
) -> Result<(), StoreError> {
    if messages.is_empty() {
        return Ok(());
    }
    let settings = call.bridge.sessions.store.settings(&call.session.nonce).await?;
    let min_level = settings.and_then(|settings| settings.level).unwrap_or(DEFAULT_LEVEL);
    for LogMessage { level, logger, data } in
        messages.into_iter().filter(|message| message.level >= min_level)
    {
        let mut params = json!({ "level": level, "logger": logger, "data": data });
        if let Some(task) = related {
            params["_meta"] = to_wire::related_meta(task);
        }
        sink.send(to_wire::notification("notifications/message", params)).await;
    }
    Ok(())
}
