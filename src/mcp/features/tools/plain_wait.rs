//! A request that waits for a task within the time budget of a plain call, and its answer. If its client
//! disconnects, the call counts as abandoned, unless a newer stream continues it.

use serde_json::Value;
use taskbridge_sdk::{Output, Timestamp};

use super::progress::ProgressParams;
use super::wait::{WaitOptions, wait};
use crate::mcp::features::dialect::Dialect;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::results;
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::session::log_cursor::LogCursor;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::wire::jsonrpc::{Error, Id, Outcome};
use crate::tasks::service::{CallGuard, View};
use crate::tasks::task::TaskId;

/// A request that waits for a task within the time budget of a plain call.
pub struct PlainWait {
    /// The task.
    pub task: TaskId,
    /// When the call began.
    pub started_at: Timestamp,
    /// When it is answered with a handle.
    pub deadline: Timestamp,
    /// True if another stream may have reported progress before.
    pub is_resumed: bool,
    /// Progress token, if progress is reported.
    pub progress_token: Option<Value>,
    /// First line of the answer.
    pub preface: Option<String>,
    /// Log messages up to this time count as sent.
    pub logs_since: Timestamp,
    /// Digest of the call, by which a repeated call is recognized.
    pub fingerprint: String,
}

impl PlainWait {
    /// Returns a wait that begins now and has the whole time budget. It reports no progress, and only new log
    /// messages.
    pub(super) fn begin(request: &dyn Dialect, task: TaskId, fingerprint: String) -> Self {
        let started_at = request.context().clock.now();
        Self {
            task,
            started_at,
            deadline: started_at + request.context().settings().call_budget,
            is_resumed: false,
            progress_token: None,
            preface: None,
            logs_since: started_at,
            fingerprint,
        }
    }

    /// Sets on the stream how the wait can be resumed.
    pub(super) fn make_resumable(&self, request: &dyn Dialect, id: &Id, sink: &dyn MessageSink) {
        if request.resumes_streams() {
            sink.set_resume(Resume::Wait {
                id: id.clone(),
                task: self.task.clone(),
                began: Some(self.started_at.as_millis()),
                until: Some(self.deadline.as_millis()),
                progress_token: self.progress_token.clone(),
            });
        }
    }

    /// Waits, then answers with the result, with the job's questions, or with a handle.
    ///
    /// # Errors
    /// The error to answer with.
    pub async fn run(
        self,
        request: &dyn Dialect,
        guard: Option<CallGuard>,
        sink: &dyn MessageSink,
    ) -> Outcome {
        let guard = guard.map(|guard| PlainWaitGuard { guard: Some(guard), sink });
        let (view, output) = match self.wait_and_read(request, sink).await {
            Ok(result) => result,
            Err(error) => {
                if let Some(guard) = guard {
                    request.note_retry(guard.take()).await;
                }
                return Err(error);
            }
        };
        if request.is_input_required(&view.task) {
            // The client comes back with the answers, or repeats the call and finds the task that way.
            if let Some(guard) = guard {
                guard.take().keep_job();
            }
            return Ok(request.input_required(&self.fingerprint, &view.task));
        }
        match guard {
            Some(guard) => request.note_answered(guard.take()).await,
            None => request.note_delivered(&view.task).await,
        }
        super::answer(request, &view, output, self.preface.as_deref())
    }

    /// Waits, then reads what the answer needs.
    async fn wait_and_read(
        &self,
        request: &dyn Dialect,
        sink: &dyn MessageSink,
    ) -> Result<(View, Option<Output>), Error> {
        let progress = self.progress_token.clone().map(|token| ProgressParams {
            token,
            started_at: self.started_at,
            resumed: self.is_resumed,
        });
        let log_cursor = Some(LogCursor::for_request(self.logs_since));
        let options = WaitOptions { deadline: Some(self.deadline), progress, log_cursor };
        let view = wait(request, &self.task, options, sink).await.map_err(store_error)?;
        let view = view.ok_or_else(|| request.task_not_found(&self.task))?;
        let output = match view.task.has_ended() {
            true => results::read(request, &view.task, sink).await?,
            false => None,
        };
        Ok((view, output))
    }
}

/// Guard of a plain call while its stream is open. If a newer stream of the same call replaces this one, the
/// client has not abandoned the call.
struct PlainWaitGuard<'a> {
    guard: Option<CallGuard>,
    sink: &'a dyn MessageSink,
}

impl PlainWaitGuard<'_> {
    fn take(mut self) -> CallGuard {
        self.guard.take().expect("the guard is taken once")
    }
}

impl Drop for PlainWaitGuard<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take()
            && self.sink.is_superseded()
        {
            guard.keep_job();
        }
    }
}
