//! The effects of planted bugs between a process and its store. Without a bug, everything passes unchanged.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_core::tasks::store::{
    Change, Group, Holder, InsertResult, NewTask, Result, ServedBackend, SlotLimit, Store,
};
use taskbridge_core::tasks::task::{
    Job, OnExpiry, Outcome, Owner, QuestionSource, QuestionStatus, Task, TaskId, TaskState,
};
use taskbridge_sdk::{JobKey, Output, Timestamp};

use super::bugs::Bug;
use super::calls::OWNERS;
use super::connection::REFERENCE_ARG;

/// State of the planted bug that the processes of a world share.
#[derive(Default)]
pub(super) struct SharedBugState {
    /// The first watcher of each group.
    first_watchers: Mutex<HashMap<Group, Holder>>,
    /// The output that was stored last.
    last_output: Mutex<Option<Output>>,
    writes: AtomicU64,
}

/// The bug planted in one process, and its state.
pub(super) struct PlantedBug {
    pub(super) bug: Option<Bug>,
    process: String,
    shared_state: Arc<SharedBugState>,
    file: PathBuf,
    /// Rows whose inserts were acknowledged but not written yet.
    unwritten: Mutex<Vec<NewTask>>,
    /// Rows as a client of this process first read them.
    first_seen: Mutex<HashMap<TaskId, Task>>,
    /// Rows to which this process granted slots.
    rows_with_slots: Mutex<Vec<TaskId>>,
}

impl PlantedBug {
    pub(super) fn new(
        bug: Option<Bug>,
        process: String,
        shared_state: Arc<SharedBugState>,
        file: &Path,
    ) -> Self {
        Self {
            bug,
            process,
            shared_state,
            file: file.to_owned(),
            unwritten: Mutex::default(),
            first_seen: Mutex::default(),
            rows_with_slots: Mutex::default(),
        }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn take_unwritten(&self) -> Vec<NewTask> {
        std::mem::take(&mut *self.unwritten.lock())
    }

    pub(super) fn ack_unwritten(&self, new: NewTask) -> InsertResult {
        let created = Task { version: 1, ..new.task.clone() };
        self.unwritten.lock().push(new);
        InsertResult::Created(created)
    }

    /// Returns the row to insert.
    pub(super) async fn new_task(&self, store: &dyn Store, mut new: NewTask) -> NewTask {
        if self.is(Bug::OnceIgnored) {
            new.idempotency_key = None;
        }
        if let (true, Some(idempotency_key)) = (self.is(Bug::OncePerProcess), &mut new.idempotency_key) {
            idempotency_key.scope = format!("{} at {}", idempotency_key.scope, self.process);
        }
        match self.bug {
            Some(Bug::OnceForAll) => new
                .idempotency_key
                .iter_mut()
                .for_each(|idempotency_key| idempotency_key.scope = "all".to_owned()),
            Some(Bug::KeyFreedEarly) if new.idempotency_key.is_some() => self.free_keys(store).await,
            Some(Bug::MostKeptIgnored) => new.quota = None,
            Some(Bug::AttachToUnequal) => {
                new.attach.iter_mut().for_each(|attach| attach.digest = "any".to_owned());
                new.task.undelivered.iter_mut().for_each(|one| one.digest = "any".to_owned());
            }
            Some(Bug::ConsentSkipped) if new.task.state == TaskState::InputRequired => {
                (new.task.state, new.task.due_at) = (TaskState::Working, Some(new.task.created_at));
                new.task.questions.clear();
            }
            _ => {}
        }
        if let Job::Pending { spec, .. } | Job::Starting { spec, .. } = &mut new.task.job {
            match self.bug {
                Some(Bug::ReferenceMixedUp) if spec.arguments.get(REFERENCE_ARG).is_some() => {
                    spec.arguments[REFERENCE_ARG] = "1.another".into();
                }
                Some(Bug::SealedForgotten) => spec.sealed = None,
                _ => {}
            }
        }
        new.limits = self.limits(store, &new.task.id, new.limits).await;
        new
    }

    /// Returns the row to insert after the reply to the first insert was lost.
    pub(super) fn repeated_insert(&self, new: &NewTask) -> Option<NewTask> {
        let mut new = new.clone();
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&new.task.id.as_str().as_bytes()[..8]);
        new.task.key = JobKey::from_bytes(bytes);
        new.task.id = TaskId::from_wire(format!("again-{}", new.task.id.as_str()));
        self.is(Bug::LostReplyIsNotWritten).then_some(new)
    }

    /// Returns the result for a refused row, which the bug queues instead.
    pub(super) async fn queue_refused(
        &self,
        store: &dyn Store,
        inserted: Result<InsertResult>,
        refused: Option<NewTask>,
    ) -> Result<InsertResult> {
        match (&inserted, refused) {
            (Ok(InsertResult::NoSlot { .. }), Some(mut new)) => {
                if let Job::Starting { spec, .. } = &new.task.job {
                    let (spec, not_before) = (spec.clone(), new.task.created_at);
                    new.task.job = Job::Pending { spec, queued: true, attempts: 0, not_before };
                }
                if let Job::Pending { queued, .. } = &mut new.task.job {
                    *queued = true;
                }
                (new.limits, new.queue_behind, new.lease) = (Vec::new(), Vec::new(), None);
                store.insert(new).await
            }
            _ => inserted,
        }
    }

    /// Returns the limits of the slots that a row requests.
    pub(super) async fn limits(
        &self,
        store: &dyn Store,
        id: &TaskId,
        limits: Vec<SlotLimit>,
    ) -> Vec<SlotLimit> {
        if self.is(Bug::SlotsPerProcess) && !limits.is_empty() {
            let rows_with_slots = self.rows_with_slots.lock().clone();
            for row_id in rows_with_slots {
                if store.get(&row_id, None).await.is_ok_and(|row| row.is_some_and(|row| row.holds_slots())) {
                    return limits;
                }
            }
            self.rows_with_slots.lock().push(id.clone());
        }
        if self.is(Bug::SlotsIgnored) || self.is(Bug::SlotsPerProcess) { Vec::new() } else { limits }
    }

    /// Returns the row that a client reads.
    pub(super) fn read_row(&self, task: Option<Task>, owner: Option<&Owner>) -> Option<Task> {
        let (mut task, _) = (task?, owner.is_some());
        if self.is(Bug::AnswerOverridden) {
            for question in task.questions.iter_mut().filter(|question| question.asker == QuestionSource::Job)
            {
                if matches!(question.status, QuestionStatus::Answered { .. }) {
                    question.status = QuestionStatus::Open;
                }
            }
        }
        if !self.is(Bug::StaleRead) || owner.is_none() {
            return Some(task);
        }
        Some(self.first_seen.lock().entry(task.id.clone()).or_insert(task).clone())
    }

    /// Returns the row to write over the previous one.
    pub(super) fn row_to_write(&self, task: &Task, previous: Option<&Task>) -> Task {
        let mut task = task.clone();
        match self.bug {
            Some(Bug::CancelRequestForgotten)
                if task.cancel.as_ref().map(|request| request.at) == task.ended_at =>
            {
                task.cancel = None;
            }
            Some(Bug::DueTimeForgotten) if matches!(task.job, Job::Pending { .. }) => task.due_at = None,
            Some(Bug::HandleForgotten) if matches!(task.job, Job::Open { .. }) => {
                task.job = Job::Closed { handle: None };
                task.due_at = None;
            }
            Some(Bug::OutcomeOverwritten) if matches!(task.job, Job::Closed { handle: Some(_) }) => {
                if let TaskState::Ended(Outcome::Cancelled) = task.state {
                    task.state = TaskState::Ended(Outcome::Succeeded);
                }
            }
            Some(Bug::CancelStopsDeadline) if task.cancel.is_some() => {
                task.terms.max_runtime = Duration::from_secs(1_000_000_000);
            }
            Some(Bug::AttachToDelivered) if task.undelivered.is_none() => {
                task.undelivered = previous.and_then(|previous| previous.undelivered.clone());
                if let Some(undelivered) = &mut task.undelivered {
                    undelivered.waiting_until = task.changed_at;
                }
            }
            Some(Bug::BackoffOfADay) if task.trouble.is_some() && !task.has_ended() => {
                task.due_at = task.due_at.map(|at| at + Duration::from_secs(86_400));
            }
            _ => {}
        }
        if let (true, Job::Open { started_at, .. }) = (self.is(Bug::DeadlineFromCall), &mut task.job) {
            *started_at = task.created_at;
        }
        task
    }

    /// Returns the output to store with a write.
    pub(super) fn output(&self, output: Option<&Output>) -> Option<Output> {
        if !self.is(Bug::OutputSwapped) {
            return output.cloned();
        }
        let last = self.shared_state.last_output.lock().replace(output?.clone());
        last.or_else(|| output.cloned())
    }

    /// Reports whether to skip a write but treat it as committed.
    pub(super) fn loses_write(&self) -> bool {
        self.is(Bug::WriteLost) && self.shared_state.writes.fetch_add(1, Ordering::Relaxed) % 20 == 19
    }

    /// Returns the row as claimed.
    pub(super) fn claimed_row(&self, mut task: Task, now: Timestamp) -> Task {
        if let (true, Job::Starting { spec, attempts, not_before, .. }) =
            (self.is(Bug::TakeoverStartsAnew), &task.job)
        {
            let (spec, attempts, not_before) = (spec.clone(), *attempts, *not_before);
            task.job = Job::Pending { spec, queued: false, attempts, not_before };
        }
        if let (true, Job::Open { handle, started_at, .. }) = (self.is(Bug::DeadlineWithoutPoll), &task.job)
            && !task.has_ended()
            && *started_at + task.terms.max_runtime <= now
            && task.terms.on_expiry == OnExpiry::Abandon
        {
            task.job = Job::Closed { handle: Some(handle.clone()) };
            task.state = TaskState::Ended(Outcome::Broken);
            task.message = Some("ran longer than max_runtime (as somebody thinks)".to_owned());
            (task.ended_at, task.due_at) = (Some(now), None);
        }
        task
    }

    /// Returns the real lease of a claimed row.
    pub(super) fn lease(&self, lease: Duration) -> Duration {
        match self.bug {
            Some(Bug::LeaseOfNoLength) => Duration::ZERO,
            Some(Bug::SlowTakenForDead) => lease / 3,
            _ => lease,
        }
    }

    /// Returns the groups that a process gets to watch.
    pub(super) fn groups(&self, holder: &Holder, mut groups: Vec<Group>) -> Vec<Group> {
        if self.is(Bug::GroupNeverTakenOver) {
            let mut first = self.shared_state.first_watchers.lock();
            groups.retain(|group| first.entry(group.clone()).or_insert_with(|| holder.clone()) == holder);
        }
        groups
    }

    /// Deletes rows beyond the expired ones.
    pub(super) async fn purge(&self, store: &dyn Store) {
        let Ok(now) = store.now().await else { return };
        let should_delete: fn(&Task, Timestamp) -> bool = match self.bug {
            Some(Bug::PurgeUnended) => {
                |task, now| task.created_at + task.terms.ttl <= now && !task.has_ended()
            }
            Some(Bug::PurgeOpen) => {
                return self
                    .execute("DELETE FROM tasks WHERE closed = 0 AND expires_at <= ?1", now.as_millis());
            }
            _ => return,
        };
        for task in all_rows(store).await.iter().filter(|task| should_delete(task, now)) {
            self.execute("DELETE FROM tasks WHERE id = ?1", task.id.as_str());
        }
    }

    /// Runs whenever a process queries for the next due rows.
    pub(super) async fn on_next_due(&self, store: &dyn Store, served: &[ServedBackend]) {
        match self.bug {
            Some(Bug::PurgeInLeap) => {
                if let Ok(now) = store.now().await {
                    let _ = store.purge(now, 500).await;
                }
            }
            Some(Bug::RowsOfOthersEnded) => {
                for task in all_rows(store).await {
                    let is_served = served.iter().any(|served| served.backend == task.backend);
                    if is_served || !matches!(task.job, Job::Pending { .. }) {
                        continue;
                    }
                    let state = TaskState::Ended(Outcome::Broken);
                    let message = Some("its backend is not in the config any more".to_owned());
                    let (job, ended_at) = (Job::Closed { handle: None }, Some(task.changed_at));
                    write(store, &Task { state, message, job, ended_at, due_at: None, ..task }).await;
                }
            }
            _ => {}
        }
    }

    /// Frees the idempotency keys of ended tasks.
    async fn free_keys(&self, store: &dyn Store) {
        for task in all_rows(store).await.iter().filter(|task| task.has_ended()) {
            self.execute("DELETE FROM once WHERE task = ?1", task.id.as_str());
        }
    }

    fn execute(&self, statement: &str, value: impl rusqlite::ToSql) {
        let file = rusqlite::Connection::open(&self.file).expect("the file can be opened");
        file.execute(statement, [value]).expect("the file can be written");
    }
}

async fn all_rows(store: &dyn Store) -> Vec<Task> {
    let mut rows = Vec::new();
    for owner in OWNERS {
        rows.extend(store.list(&Owner::new(owner), None, 10_000).await.unwrap_or_default());
    }
    rows
}

async fn write(store: &dyn Store, task: &Task) {
    let Ok(now) = store.now().await else { return };
    let _ = store.update(Change::new(task, now)).await;
}
