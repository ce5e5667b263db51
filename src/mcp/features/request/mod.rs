//! [`RequestExt`]: what the features do with a request of any generation: its caller, its task, and the
//! records about the delivery of a result. It must not know a generation.

pub mod audit_context;
pub mod spans;

use crate::mcp::features::authorization::CallerContext;
use crate::mcp::features::companions::{Companion, ToolOffer};
use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::Error;
use crate::mcp::wire::params;
use crate::tasks::service::{CallGuard, View};
use crate::tasks::task::{Owner, Task, TaskId};

/// A request of any generation.
pub trait RequestExt: Dialect {
    /// Returns the owner of what the caller starts.
    fn owner(&self) -> &Owner {
        &self.principal().owner
    }

    /// Returns the caller as the actor of task operations.
    fn actor(&self) -> CallerContext<'_> {
        CallerContext::new(self.context(), self.principal())
    }

    /// Returns the client's capabilities for this task: barred if the caller may not answer its questions.
    fn client_for(&self, task: &Task) -> ClientCapabilities {
        self.actor().answers(task, self.client())
    }

    /// Returns true if the caller is offered this companion tool.
    fn is_offered(&self, companion: Companion) -> bool {
        companion.is_offered(self.context(), self.principal(), self.tool_offer())
    }

    /// Returns true if the model of the caller's client is offered this companion tool. Others are for the
    /// view.
    fn is_offered_to_model(&self, companion: Companion) -> bool {
        let offer = ToolOffer { views: false, ..self.tool_offer() };
        companion.is_offered(self.context(), self.principal(), offer)
    }

    /// Returns what selects the companion tools of this client.
    fn tool_offer(&self) -> ToolOffer {
        ToolOffer { companions: self.offers_companions(), views: self.client().views }
    }

    /// Returns the error for a task that is unknown, has expired or is not visible to the caller.
    fn task_not_found(&self, id: &TaskId) -> Error {
        self.context().not_found(self.owner(), id);
        params::invalid("Failed to retrieve task: Task not found")
    }

    /// Reads a task of the caller.
    ///
    /// # Errors
    /// If there is no such task, or the store fails.
    fn find_task(&self, id: &TaskId) -> impl Future<Output = Result<View, Error>> + Send {
        async move {
            let view = self.context().service.get(&self.actor(), id).await.map_err(store_error)?;
            view.ok_or_else(|| self.task_not_found(id))
        }
    }

    /// Records that a plain call got its answer. If that fails, an equal call may get the answer too.
    fn note_answered(&self, guard: CallGuard) -> impl Future<Output = ()> + Send {
        async move {
            if let Err(error) = guard.mark_delivered().await {
                tracing::warn!(%error, "the delivery of a call's answer cannot be recorded");
            }
        }
    }

    /// Records that the client of a plain call was asked to retry. If that fails now, the reconciler repeats
    /// it.
    fn note_retry(&self, guard: CallGuard) -> impl Future<Output = ()> + Send {
        async move {
            if let Err(error) = guard.release().await {
                tracing::warn!(%error, "the release of a call for a retry cannot be recorded");
            }
        }
    }

    /// Records that the owner has the result of an earlier call of theirs that ended unanswered, if there was
    /// one. Another caller who may see the task does not count: the owner repeats the call, and gets the
    /// result.
    fn note_delivered(&self, task: &Task) -> impl Future<Output = ()> + Send {
        async move {
            if task.undelivered.is_some() && task.owner == *self.owner() {
                self.note_answered(self.context().service.guard_call(task, false)).await;
            }
        }
    }
}

impl<T: Dialect + ?Sized> RequestExt for T {}
