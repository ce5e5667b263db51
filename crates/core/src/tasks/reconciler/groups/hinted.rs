//! What a hint about a job means beyond a poll by this process: a row that another process polls becomes due,
//! and so does an answer that could not be sent. It must not call an engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use taskbridge_sdk::{JobHandle, Timestamp};
use tokio::time::Instant;

use super::super::Core;
use super::super::watched::WatchedGroups;
use crate::tasks::machine::{self, Event};
use crate::tasks::store::{Group, Lease};
use crate::tasks::task::TaskId;
use crate::tasks::task_writer::PollRequest;

/// The jobs of hints that came since the last ones were passed on.
#[derive(Default)]
pub(super) struct HintedJobs {
    /// Jobs of groups that this process does not watch: by group and handle, whether only this process
    /// received the hint. They are passed on once per tick, because that reads all open jobs of a group.
    foreign: BTreeMap<Group, HashMap<JobHandle, bool>>,
    /// Jobs that this process watches, and whose answers need a token.
    watched: HashSet<TaskId>,
    /// When the watched ones are passed on, if there are any.
    pub(super) watched_due: Option<Instant>,
}

impl Core {
    /// Keeps a hint, if it may mean more than a poll by this process.
    pub(super) fn keep_hint(&self, hinted: &mut HintedJobs, groups: &WatchedGroups, request: &PollRequest) {
        let (backend, handle, is_local) = match request {
            PollRequest::EngineHint(backend, handle) => (backend, handle, false),
            PollRequest::LocalHint(backend, handle) => (backend, handle, true),
            _ => return,
        };
        let needs_token = self.engines.needs_token(backend);
        if !is_local && !needs_token {
            return;
        }
        let group = Group { backend: backend.clone(), key: self.engines.group(backend, handle) };
        match groups.schedules.get(&group) {
            Some(schedule) if needs_token => hinted.watched.extend(schedule.task_of(handle).cloned()),
            Some(_) => return,
            None => {
                *hinted.foreign.entry(group).or_default().entry(handle.clone()).or_default() |= is_local;
                return;
            }
        }
        let shortest = self.settings.poll_intervals.shortest;
        hinted.watched_due.get_or_insert_with(|| Instant::now() + shortest);
    }

    /// Applies the hints about watched jobs to their rows. What cannot be read or written now is done on
    /// schedule.
    pub(super) async fn apply_watched_hints(&self, hinted: &mut HintedJobs) {
        hinted.watched_due = None;
        for id in std::mem::take(&mut hinted.watched) {
            self.apply_hint(&id, false).await;
        }
    }

    /// Applies the other hints to the rows of their jobs.
    pub(super) async fn forward_hints(&self, hinted: &mut HintedJobs) {
        for (group, handles) in std::mem::take(&mut hinted.foreign) {
            let identity = self.engines.identity(&group.backend);
            let since = Timestamp::from_millis(0);
            let Ok(jobs) = self.writer.store.open_jobs(&group, identity.as_deref(), since).await else {
                continue;
            };
            for job in jobs {
                if let Some(is_local) = handles.get(&job.handle) {
                    self.apply_hint(&job.id, *is_local).await;
                }
            }
        }
    }

    /// Makes a pending answer due: what its last attempt lacked, such as the token of a step, may have come
    /// with the hint. It came to this process, so this process claims rows without delay. With `polls`, also
    /// makes a poll due ([`Event::RetryNow`]): the process that claims the row polls its job.
    async fn apply_hint(&self, id: &TaskId, polls: bool) {
        let Ok(Some(task)) = self.writer.read(id).await else { return };
        let has_answer = machine::has_pending_answer(&task);
        if has_answer {
            self.engines.end_claim_delay(&task.backend);
        }
        let event = match polls {
            true => Event::RetryNow,
            false if has_answer => Event::AnswersDue,
            false => return,
        };
        let _ = self.writer.apply(task, event, Lease::Keep).await;
        // Without the delay, a row that was due before can be claimed.
        self.writer.nudge.due.notify_one();
    }
}
