//! What planted bugs do at the border between a process and its store. Without one, everything passes as it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge::store::sqlite::SqliteStore;
use taskbridge::tasks::store::{Group, Holder, Inserted, NewTask, SlotLimit, TaskStore};
use taskbridge::tasks::task::{Job, Outcome, Owner, Task, TaskId, TaskState};
use taskbridge_sdk::JobKey;

use super::sabotage::Bug;

/// Which process watched each group first: shared by all.
pub(super) type FirstWatchers = Arc<Mutex<HashMap<Group, Holder>>>;

/// What is planted in one process, and what it needs to remember.
pub(super) struct Sabotage {
    pub(super) bug: Option<Bug>,
    process: String,
    first_watchers: FirstWatchers,
    /// What was told and not yet written.
    unwritten: Mutex<Vec<NewTask>>,
    /// Rows as a client of this process first saw them.
    first_seen: Mutex<HashMap<TaskId, Task>>,
    /// Rows that this process has let into slots.
    let_in: Mutex<Vec<TaskId>>,
}

impl Sabotage {
    pub(super) fn new(bug: Option<Bug>, process: String, first_watchers: FirstWatchers) -> Self {
        Self {
            bug,
            process,
            first_watchers,
            unwritten: Mutex::default(),
            first_seen: Mutex::default(),
            let_in: Mutex::default(),
        }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn take_unwritten(&self) -> Vec<NewTask> {
        std::mem::take(&mut *self.unwritten.lock())
    }

    pub(super) fn tell_unwritten(&self, new: NewTask) -> Inserted {
        let told = Task { version: 1, ..new.task.clone() };
        self.unwritten.lock().push(new);
        Inserted::Created(told)
    }

    /// A row to be added.
    pub(super) async fn new_task(&self, store: &SqliteStore, mut new: NewTask) -> NewTask {
        if self.is(Bug::OnceIgnored) {
            new.once = None;
        }
        if let (true, Some(once)) = (self.is(Bug::OncePerProcess), &mut new.once) {
            once.scope = format!("{} at {}", once.scope, self.process);
        }
        new.limits = self.limits(store, &new.task.id, new.limits).await;
        new
    }

    /// The row that is added where nobody heard whether the first was.
    pub(super) fn again(&self, new: &NewTask) -> Option<NewTask> {
        let mut new = new.clone();
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&new.task.id.as_str().as_bytes()[..8]);
        new.task.key = JobKey::from_bytes(bytes);
        new.task.id = TaskId::from_wire(format!("again-{}", new.task.id.as_str()));
        self.is(Bug::LostReplyIsNotWritten).then_some(new)
    }

    /// The limits of slots that a row wants to take.
    pub(super) async fn limits(
        &self,
        store: &SqliteStore,
        id: &TaskId,
        limits: Vec<SlotLimit>,
    ) -> Vec<SlotLimit> {
        if self.is(Bug::SlotsPerProcess) && !limits.is_empty() {
            let let_in = self.let_in.lock().clone();
            for own in let_in {
                if store.get(&own, None).await.is_ok_and(|row| row.is_some_and(|row| row.holds_slots())) {
                    return limits;
                }
            }
            self.let_in.lock().push(id.clone());
        }
        if self.is(Bug::SlotsIgnored) || self.is(Bug::SlotsPerProcess) { Vec::new() } else { limits }
    }

    /// A row that a client reads.
    pub(super) fn read(&self, task: Option<Task>, owner: Option<&Owner>) -> Option<Task> {
        if !self.is(Bug::StaleRead) || owner.is_none() {
            return task;
        }
        task.map(|task| self.first_seen.lock().entry(task.id.clone()).or_insert(task).clone())
    }

    /// A row that is written.
    pub(super) fn written(&self, task: &Task) -> Task {
        let mut task = task.clone();
        match self.bug {
            Some(Bug::WishForgotten) if task.cancel.as_ref().map(|wish| wish.at) == task.ended_at => {
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
            _ => {}
        }
        task
    }

    /// A row that was claimed.
    pub(super) fn claimed(&self, mut task: Task) -> Task {
        if let (true, Job::Starting { spec, attempts, not_before, .. }) =
            (self.is(Bug::TakeoverStartsAnew), &task.job)
        {
            let (spec, attempts, not_before) = (spec.clone(), *attempts, *not_before);
            task.job = Job::Pending { spec, queued: false, attempts, not_before };
        }
        task
    }

    /// How long a claimed row is really leased.
    pub(super) fn lease(&self, lease: Duration) -> Duration {
        match self.bug {
            Some(Bug::LeaseOfNoLength) => Duration::ZERO,
            Some(Bug::SlowTakenForDead) => lease / 3,
            _ => lease,
        }
    }

    /// The groups that a process gets to watch.
    pub(super) fn groups(&self, holder: &Holder, mut held: Vec<Group>) -> Vec<Group> {
        if self.is(Bug::GroupNeverTakenOver) {
            let mut first = self.first_watchers.lock();
            held.retain(|group| first.entry(group.clone()).or_insert_with(|| holder.clone()) == holder);
        }
        held
    }
}
