//! What a stream has sent of each task, and the messages about its status and progress. It must not decide
//! which stream sends.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::super::to_wire;
use super::ActiveStream;
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::tools::handle;
use crate::mcp::features::tools::handle::VisibleStatus;
use crate::mcp::session::progress_token;
use crate::mcp::session::stream_election::SentStatus;
use crate::mcp::wire::types;
use crate::tasks::service::View;
use crate::tasks::task::{Task, TaskState};

impl ActiveStream<'_> {
    /// Initializes what was sent when a stream opens. The status of each task is sent again, since changes
    /// may have been missed. Progress counts as sent, because nothing may be reported twice under a progress
    /// token.
    pub(super) fn init_sent_statuses(&self, tasks: &[Task]) {
        self.candidate.with_sent_statuses(|statuses| {
            for task in tasks {
                let initial = VisibleStatus { state: TaskState::Working, message: None };
                statuses.entry(task.id.clone()).or_insert_with(|| SentStatus {
                    changed_at: task.created_at,
                    status_hash: status_hash(&initial),
                    progress: task.furthest,
                });
            }
        });
    }

    /// Returns what the session was last sent about a task, or else what the answer to the call reported.
    pub(super) fn last_sent(&self, task: &Task, status: &VisibleStatus) -> SentStatus {
        self.candidate
            .with_sent_statuses(|statuses| statuses.get(&task.id).copied())
            .unwrap_or_else(|| initial_status(task, status))
    }

    /// Returns true if there is news apart from log messages.
    pub(super) fn is_news(&self, task: &Task, status: &VisibleStatus) -> bool {
        let last_sent = self.last_sent(task, status);
        let has_progress =
            task.furthest.is_some_and(|furthest| last_sent.progress.is_none_or(|sent| furthest > sent));
        last_sent.status_hash != status_hash(status) || has_progress
    }

    pub(super) async fn notify_status(&self, view: &View, status: VisibleStatus) {
        let task = &view.task;
        let last_sent = self.last_sent(task, &status);
        let mut current = SentStatus {
            changed_at: task.changed_at,
            status_hash: status_hash(&status),
            progress: last_sent.progress,
        };
        if let (Some(token), Some(furthest), false) =
            (progress_token::of(&task.origin), task.furthest, task.has_ended())
            && last_sent.progress.is_none_or(|sent| furthest > sent)
        {
            current.progress = Some(furthest);
            self.store_sent_status(task, current);
            let total = task.progress.and_then(|progress| progress.total);
            let total = total.filter(|total| *total >= furthest);
            let mut progress = types::progress(token, furthest, total, status.message);
            progress["_meta"] = to_wire::related_meta(&task.id);
            self.sink.send(to_wire::notification("notifications/progress", progress)).await;
        }
        self.store_sent_status(task, current);
        if current.status_hash != last_sent.status_hash {
            let params = to_wire::task(&self.call.bridge.context, view, self.call.client_for(&view.task));
            self.sink.send(to_wire::notification("notifications/tasks/status", params)).await;
        }
    }

    pub(super) fn store_sent_status(&self, task: &Task, status: SentStatus) {
        self.candidate.with_sent_statuses(|statuses| match task.has_ended() {
            true => statuses.remove(&task.id),
            false => statuses.insert(task.id.clone(), status),
        });
        if task.has_ended() {
            self.candidate.record_end_sent(&task.id, task.created_at, status.status_hash);
        }
    }
}

/// Returns what the answer to the call reported about its task.
fn initial_status(task: &Task, status: &VisibleStatus) -> SentStatus {
    let message = status.message.clone().filter(|_| task.changed_at == task.created_at);
    let words = status_hash(&VisibleStatus { state: TaskState::Working, message });
    SentStatus { changed_at: task.created_at, status_hash: words, progress: None }
}

/// Returns a hash of a status, to detect whether it is new.
fn status_hash(status: &VisibleStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    handle::status_word(status.state).hash(&mut hasher);
    status.message.hash(&mut hasher);
    hasher.finish()
}
