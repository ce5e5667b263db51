//! Reads results for answers. A large result is read only once memory for sending it is reserved, so that
//! many requests for large results do not exhaust memory. That happens before the call is recorded as
//! answered. It must not know how a generation writes a result.

use taskbridge_sdk::Output;

use super::Bridge;
use super::jsonrpc::Error;
use super::outlet::Outlet;
use super::room;
use crate::tasks::store::{Found, StoreError};
use crate::tasks::task::{Task, TaskId};

/// Maximum size of a stored result that needs no reservation. It is a quarter of the usual limit, because an
/// answer contains a result more than once, and escaped.
const SMALL: usize = room::SMALL / 4;

/// Error code for an exhausted memory budget. It is that of HTTP, since JSON-RPC has none.
const NO_ROOM: i32 = 503;

/// Why a result was not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The memory budget is exhausted.
    #[error("there is no room for the result of task {0}")]
    NoRoom(TaskId),
}

impl Unread {
    /// Returns the error for a client.
    pub fn told(&self, bridge: &Bridge) -> Error {
        match self {
            Self::Store(error) => bridge.fault(error),
            Self::NoRoom(id) => Error::new(
                NO_ROOM,
                format!(
                    "task {id} has ended, and its result is larger than there is room for now: too much is on its way between \
                     you and this server, or between others and it. Read what was answered, and then ask again: nothing is \
                     started a second time"
                ),
            ),
        }
    }
}

/// Reads the result that a task ended with; `None` if it ended without one. `outlet` reserves memory for a
/// large result.
///
/// # Errors
/// See [`Unread`].
pub async fn read(bridge: &Bridge, task: &Task, outlet: &dyn Outlet) -> Result<Option<Output>, Unread> {
    match bridge.service.output_within(task, SMALL).await? {
        Found::Nothing => Ok(None),
        Found::Whole(output) => Ok(Some(output)),
        Found::Longer(bytes) if outlet.room(bytes) => Ok(bridge.service.output(task).await?),
        Found::Longer(_) => Err(Unread::NoRoom(task.id.clone())),
    }
}
