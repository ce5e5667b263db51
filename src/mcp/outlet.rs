//! [`Outlet`]: where a handler sends what goes to the client before its answer. The transport behind it decides how
//! (an event of the request's own stream, a line on stdout); a handler must not know.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jsonrpc::Id;
use super::offers::Edition;
use crate::tasks::task::TaskId;

/// A way to the client that is open while a request is being answered, or while a GET stream is listened to.
#[async_trait]
pub trait Outlet: Send + Sync {
    /// Sends one JSON-RPC message (a notification, or a request of ours). Returns false once the way is closed; then
    /// nobody will read any more, and the handler is about to be dropped.
    async fn send(&self, message: Value) -> bool;

    /// Says how this request can be taken up again on a new connection. Called before the first `send`; without it
    /// the stream cannot be resumed.
    fn resumable(&self, resume: Resume);

    /// Says that the client listens here for long, to what may be little. Called before the first `send`.
    fn lasts(&self) {}

    /// Takes room for so many bytes of what goes out next, a message or the answer. False if there is not enough of it: then too
    /// much is on its way already.
    fn room(&self, _bytes: usize) -> bool {
        true
    }

    /// True if everything that goes to the client takes this way, and not this request's messages alone.
    fn is_shared(&self) -> bool;

    /// True once the client has taken the request up on a newer stream, and this one is about to be dropped.
    fn gave_way(&self) -> bool;
}

/// How a stream is taken up again: enough to derive what is still outstanding on it. It travels, sealed, in every
/// event id of the stream, and comes back as `Last-Event-ID`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// A request that waits for a task, answered as that request would have been.
    Wait {
        /// The id of the request that is still to be answered.
        id: Id,
        /// The task.
        task: TaskId,
        /// For a plain call: when it began, in milliseconds since the epoch.
        began: Option<i64>,
        /// For a plain call: until when it waits before it answers with a handle, in milliseconds since the epoch.
        /// Absent for `tasks/result`, which waits for as long as it takes.
        until: Option<i64>,
        /// For a plain call: the token that its progress is reported under.
        progress_token: Option<Value>,
    },
    /// The GET stream of a session.
    Listen {
        /// The edition of the lists that the client knows or was told of.
        lists: Option<Edition>,
    },
}
