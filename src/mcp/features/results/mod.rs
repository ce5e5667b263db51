//! Reads results for answers. A large result is read only once memory for sending it is reserved, so that
//! many requests for large results do not exhaust memory. That happens before the call is recorded as
//! answered. It must not know how a generation writes a result.

pub mod internal_error;

use taskbridge_sdk::Output;

use crate::limits::memory_budget;
use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::Error;
use crate::tasks::store::{BoundedOutput, StoreError};
use crate::tasks::task::{Task, TaskId};
use internal_error::store_error;

/// Maximum size of a stored result that needs no reservation. It is a quarter of the usual limit, because an
/// answer contains a result more than once, and escaped.
const SMALL_RESULT: usize = memory_budget::SMALL / 4;

/// Error code for an exhausted memory budget. It is that of HTTP, since JSON-RPC has none.
const MEMORY_EXHAUSTED: i32 = 503;

/// Why a result was not read.
#[derive(Debug, thiserror::Error)]
pub enum ResultReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The memory budget is exhausted.
    #[error("there is no room for the result of task {0}")]
    MemoryExhausted(TaskId),
}

impl From<ResultReadError> for Error {
    fn from(error: ResultReadError) -> Self {
        match error {
            ResultReadError::Store(error) => store_error(error),
            ResultReadError::MemoryExhausted(id) => Error::new(
                MEMORY_EXHAUSTED,
                format!(
                    "task {id} has ended, and its result is larger than there is room for now: too much is on its way between \
                     you and this server, or between others and it. Read what was answered, and then ask again: nothing is \
                     started a second time"
                ),
            ),
        }
    }
}

/// Reads the result that a task ended with, for an answer: it is recorded as read. `None` if it ended without
/// one. `sink` reserves memory for a large result.
///
/// # Errors
/// See [`ResultReadError`].
pub async fn read(
    request: &dyn Dialect,
    task: &Task,
    sink: &dyn MessageSink,
) -> Result<Option<Output>, ResultReadError> {
    let context = request.context();
    let output = match context.service.output_within(task, SMALL_RESULT).await? {
        BoundedOutput::Missing => None,
        BoundedOutput::Complete(output) => Some(output),
        BoundedOutput::TooLarge(bytes) if sink.reserve(bytes) => context.service.output(task).await?,
        BoundedOutput::TooLarge(_) => return Err(ResultReadError::MemoryExhausted(task.id.clone())),
    };
    // That an undelivered result is delivered is recorded by what answers the call.
    if task.undelivered.is_none() {
        context.service.note_result_read(task, request.owner());
    }
    Ok(output)
}
