//! [`MessageSink`]: message sink of a handler, for what it sends to the client before its answer. The
//! transport decides how (an event on an HTTP stream, or a line on stdout); a handler must not know.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mcp::session::edition::Edition;
use crate::mcp::wire::jsonrpc::Id;
use crate::tasks::task::TaskId;

/// Message sink to the client, open while a request is answered or while a GET stream is open.
#[async_trait]
pub trait MessageSink: Send + Sync {
    /// Sends one JSON-RPC message (a notification, or a request of this server). Returns false once the sink
    /// is closed. Then nothing is read any more, and the handler is about to be dropped.
    async fn send(&self, message: Value) -> bool;

    /// Sets how the stream can be resumed on a new connection. The first call must come before the first
    /// `send`; without it the stream cannot be resumed. A later call applies to the events after it.
    fn set_resume(&self, resume: Resume);

    /// Marks the stream as long-lived, with few messages. Called before the first `send`.
    fn set_long_lived(&self) {}

    /// Reserves memory of this size for the next message or the answer. It replaces an unused reservation.
    /// Returns false if the memory budget is exhausted. A sink without a budget always returns true.
    fn reserve(&self, _bytes: usize) -> bool {
        true
    }

    /// Returns true if all messages to the client use this sink, and not only those of this request.
    fn is_shared(&self) -> bool;

    /// Returns true once the client has resumed the request on a newer stream. This one is then about to be
    /// dropped.
    fn is_superseded(&self) -> bool;
}

/// How a stream is resumed: enough to derive everything that is outstanding on it. It is sealed into every
/// event id of the stream, and comes back as `Last-Event-ID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// A request that waits for a task. It is answered as that request would have been.
    Wait {
        /// Id of the request that is still unanswered.
        id: Id,
        /// The task.
        task: TaskId,
        /// For a plain call: when it began, in milliseconds since the epoch.
        began: Option<i64>,
        /// For a plain call: its deadline, after which it answers with a handle, in milliseconds since the
        /// epoch. Absent for `tasks/result`, which waits without a limit.
        until: Option<i64>,
        /// For a plain call: its progress token.
        progress_token: Option<Value>,
    },
    /// The GET stream of a session.
    Listen {
        /// The edition of the lists that the client knows. `None` if that is unknown.
        lists: Option<Edition>,
    },
}
