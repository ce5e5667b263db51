//! Reads the results that answers are made of. What is large is read once there is room for it on its way to the client, so
//! that many who ask at once for a large result do not all have it in memory, and before anything is noted of a call's
//! having been answered. It must not know how a generation writes a result.

use taskbridge_sdk::Output;

use super::Bridge;
use super::jsonrpc::Error;
use super::outlet::Outlet;
use super::room;
use crate::tasks::store::{Found, StoreError};
use crate::tasks::task::{Task, TaskId};

/// What is kept in no more bytes than this takes no room: in an answer it is written more than once, and with escapes.
const SMALL: usize = room::SMALL / 4;

/// The code of an error for what finds no room: that of HTTP, for which JSON-RPC has none.
const NO_ROOM: i32 = 503;

/// Why a result is not read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too much is on its way.
    #[error("there is no room for the result of task {0}")]
    NoRoom(TaskId),
}

impl Unread {
    /// What a client is told of it.
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

/// The result that a task ended with, for what goes out next by this way; `None` if it ended without one.
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
