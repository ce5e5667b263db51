//! Sends the log messages of a task as `notifications/message`, to the request that waits for it and set a
//! log level. [`crate::mcp::session::log_cursor`] decides which messages a task has; this module only drops those
//! below the request's level.

use super::{StatelessCall, to_wire, wire};
use crate::mcp::session::log_cursor::LogMessage;
use crate::mcp::session::message_sink::MessageSink;

/// Sends log messages on the stream of the request, or none if the request set no level.
pub(super) async fn send_log_messages(
    call: &StatelessCall<'_>,
    messages: Vec<LogMessage>,
    sink: &dyn MessageSink,
) {
    let Some(min_level) = call.caller.log_level else { return };
    for LogMessage { level, logger, data } in
        messages.into_iter().filter(|message| message.level >= min_level)
    {
        let params = wire::LoggingMessage { level, logger, data };
        sink.send(to_wire::notification("notifications/message", params)).await;
    }
}
