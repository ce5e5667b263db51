//! Tool calls: the row is committed first, then the reconciler acts on it. This module must not call an
//! engine.

mod handover;
mod request;

use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::{JobKey, Question};

use self::handover::HandoverGuard;
pub use self::request::{BlockingCall, Call, CallError, CallResult, WhenFull};
use super::{LimitExceeded, Service};
use crate::clock;
use crate::tasks::audit::{AuditEvent, AuditedOperation};
use crate::tasks::machine::{self, Event};
use crate::tasks::notices;
use crate::tasks::store::{AttachRequest, Holder, InsertResult, Lease, NewTask, Quota, StoreError};
use crate::tasks::task::slots::is_owner_slot;
use crate::tasks::task::{Job, QuestionSource, Task, TaskId, TaskQuestion, TaskState, Undelivered};
use crate::tasks::task_writer::Commit;

impl Service {
    /// Creates a task for a call, or finds the task that the call created before.
    ///
    /// On success the row is committed, and a reconciler will act on it.
    ///
    /// # Errors
    /// See [`CallError`].
    #[tracing::instrument(target = "spans", level = "trace", name = "verb", skip_all, fields(verb = "call", tool = call.tool))]
    pub async fn call(&self, mut call: Call) -> Result<CallResult, CallError> {
        if let Err(refusal) = self.check_connected(&call.backend, &call.tool) {
            return self.existing_task(call, refusal).await;
        }
        self.resolve_references(&mut call).await?;
        let operation = AuditedOperation::Call { tool: &call.tool, arguments: &call.spec.arguments };
        self.writer.audit.announce(operation).await?;
        let must_wait = call.confirm.is_some() || !call.spec.unresolved.is_empty();
        let pending = self.row(&call);
        // A row that the reconciler can act on at once is inserted with a lease, so that a start needs no
        // second write. If its backend has no free `CallPermit`, or only other servers have connected it, the
        // row is inserted as due and claimed like any other.
        let permit = if must_wait { None } else { self.outbox.committed_starts.try_reserve().ok() };
        let permit = permit.map(|permit| (permit, self.outbox.engines.try_acquire_permit(&call.backend)));
        let is_leased = permit.as_ref().is_some_and(|(_, call_permit)| call_permit.is_some());
        let handover = permit.map(|permit| self.handover_guard(permit, &pending, &call));
        let row = handover.as_ref().map_or_else(|| pending.clone(), |handover| handover.row.clone());
        let lease = is_leased.then(|| (self.holder.clone(), self.lease));
        let inserted = self.insert(&call, row, lease).await;
        let handover = match (&inserted, handover) {
            (Ok(InsertResult::Created(_)), handover) => handover,
            // The row may have been written all the same. The orphan handling finds out, and knows that no
            // start was sent.
            (Err(StoreError::Unavailable(_)), Some(handover)) if handover.has_call_permit() => {
                drop(handover);
                None
            }
            (_, handover) => {
                handover.into_iter().for_each(HandoverGuard::give_up);
                None
            }
        };
        match inserted? {
            InsertResult::NoSlot { slot: Some(slot) } if is_owner_slot(&slot) => {
                let limits = self.writer.tools.limits(std::slice::from_ref(&slot));
                let most = limits.first().map_or(0, |limit| limit.limit);
                Err(LimitExceeded::of_slot(&slot, most, &call.tool).into())
            }
            InsertResult::NoSlot { slot } if call.when_full == WhenFull::Refuse => {
                Err(LimitExceeded::Full { tool: call.tool, slot }.into())
            }
            InsertResult::NoSlot { .. } => {
                let queued = machine::next(&pending, Event::NoSlot, pending.created_at).task;
                let inserted = self.insert(&call, queued, None).await?;
                self.call_result(&call, inserted, None)
            }
            inserted => self.call_result(&call, inserted, handover),
        }
    }

    /// Checks that calls of a tool can be started here.
    ///
    /// # Errors
    /// `Unconnected` if its backend could not be connected. A backend that only other servers connect is no
    /// error.
    pub fn check_connected(&self, backend: &str, tool: &str) -> Result<(), CallError> {
        match self.outbox.engines.refusal(backend) {
            Some(reason) => {
                Err(CallError::Unconnected { backend: backend.to_owned(), tool: tool.to_owned(), reason })
            }
            None => Ok(()),
        }
    }

    /// Returns the task of an equal call where a new task is refused: under its idempotency key, or of a
    /// client that disconnected.
    async fn existing_task(&self, mut call: Call, refusal: CallError) -> Result<CallResult, CallError> {
        // A store looks for that task first, and inserts none beyond the quota.
        call.quota = Some(Quota { rows: 0, bytes: 0 });
        match self.insert(&call, self.row(&call), None).await? {
            InsertResult::TooMany => Err(refusal),
            inserted => self.call_result(&call, inserted, None),
        }
    }

    /// Replaces the tasks in the arguments by the handles of their jobs. If such a task has no job yet, the
    /// parameter is recorded as unresolved.
    async fn resolve_references(&self, call: &mut Call) -> Result<(), CallError> {
        for (parameter, id) in &call.references {
            let reference_error = |why: String| CallError::Reference { parameter: parameter.clone(), why };
            let task = self.writer.store.get(id, Some((&call.owner).into())).await?;
            if task.is_none() {
                self.writer.audit.record(AuditEvent::NotFound { owner: &call.owner, id });
            }
            let task =
                task.ok_or_else(|| reference_error(format!("there is no task {id}, or it has expired")))?;
            if task.backend != call.backend {
                let (backend, tool) = (&task.backend, &call.tool);
                return Err(reference_error(format!(
                    "task {id} runs on `{backend}`, and {tool} does not: name another task"
                )));
            }
            match task.handle() {
                Some(handle) => call.spec.arguments[parameter] = Value::from(handle.as_str()),
                None if task.has_ended() => {
                    return Err(reference_error(format!(
                        "task {id} ended before it was started: name another task"
                    )));
                }
                None => {
                    call.spec.unresolved.insert(parameter.clone(), id.clone());
                }
            }
        }
        Ok(())
    }

    /// Inserts a new row, or attaches to the abandoned task of an equal call.
    async fn insert(
        &self,
        call: &Call,
        task: Task,
        lease: Option<(Holder, Duration)>,
    ) -> Result<InsertResult, StoreError> {
        let new = self.new_task(call, task, lease);
        let has_notices = !new.notices.is_empty();
        let inserted = match &call.blocking {
            Some(blocking) => self.insert_or_attach(new, blocking.timeout).await,
            None => self.writer.store.insert(new).await,
        };
        if has_notices {
            self.writer.nudge.notices_pending.send_replace(());
        }
        inserted
    }

    fn new_task(&self, call: &Call, task: Task, lease: Option<(Holder, Duration)>) -> NewTask {
        let limits = self.writer.tools.limits(&task.slots);
        // Queues are per owner and served round-robin, so a call that may wait queues behind the rows of all
        // owners. A call that may not wait is exempt: a limit of their owners may block the rows ahead.
        let may_queue = call.when_full == WhenFull::Queue;
        let queue_behind =
            task.slots.iter().filter(|slot| may_queue && !is_owner_slot(slot)).cloned().collect();
        let attach = call.blocking.as_ref().map(|blocking| AttachRequest {
            digest: blocking.digest.clone(),
            within: blocking.attach_within,
        });
        NewTask {
            identity: self.outbox.engines.identity(&call.backend),
            limits,
            queue_behind,
            quota: call.quota,
            idempotency_key: call.idempotency_key.clone(),
            attach,
            lease,
            transition: self.writer.history_recorder.creation(&task),
            notices: notices::notices_for_change(None, &task, &*self.writer.receivers),
            task,
        }
    }

    /// Inserts the row, or attaches to an abandoned task. Attaching writes the row, so that a late event of
    /// the earlier call does not apply and no third call attaches.
    async fn insert_or_attach(&self, new: NewTask, timeout: Duration) -> Result<InsertResult, StoreError> {
        loop {
            let task = match self.writer.store.insert(new.clone()).await? {
                InsertResult::Abandoned(task) => task,
                inserted => return Ok(inserted),
            };
            let attached = Event::CallAttached { until: self.writer.now() + timeout };
            if let Commit::Done(task) = self.writer.commit(&task, attached, Lease::Keep).await? {
                return Ok(InsertResult::Abandoned(task));
            }
        }
    }

    fn call_result(
        &self,
        call: &Call,
        inserted: InsertResult,
        handover: Option<HandoverGuard<'_>>,
    ) -> Result<CallResult, CallError> {
        match inserted {
            InsertResult::Created(task) => {
                self.writer.audit.record(AuditEvent::Created(&task));
                self.writer.watch.changed(&task);
                let is_leased = handover.as_ref().is_some_and(HandoverGuard::has_call_permit);
                if let Some(handover) = handover {
                    handover.hand_over(task.clone());
                }
                match is_leased {
                    true => {}
                    false if task.is_queued() => self.writer.nudge.slot.notify_one(),
                    false => self.writer.nudge.due_at(task.due_at.unwrap_or(task.created_at)),
                }
                Ok(CallResult::Created(task))
            }
            InsertResult::Existing { task, same: true } => Ok(CallResult::Existing(task)),
            InsertResult::Existing { same: false, .. } => Err(CallError::KeyReused {
                key: call.idempotency_key.as_ref().map_or_else(String::new, |o| o.key.clone()),
            }),
            InsertResult::Abandoned(task) => Ok(CallResult::Attached(task)),
            // A queued row takes no slot, so the store cannot have found a full one.
            InsertResult::NoSlot { slot } => {
                Err(LimitExceeded::Full { tool: call.tool.clone(), slot }.into())
            }
            InsertResult::TooMany => {
                Err(LimitExceeded::Kept { most: call.quota.map_or(0, |quota| quota.rows) }.into())
            }
            InsertResult::TooLarge { stored_bytes } => Err(LimitExceeded::Bytes {
                kept: stored_bytes,
                most: call.quota.map_or(0, |quota| quota.bytes),
            }
            .into()),
        }
    }

    /// Builds the row of a call, with nothing sent yet.
    fn row(&self, call: &Call) -> Task {
        let now = self.writer.now();
        let confirm = |question: &Question| {
            TaskQuestion::new("q1".to_owned(), question.clone(), QuestionSource::Confirm, now)
        };
        let questions = call.confirm.iter().map(confirm);
        let task = Task {
            id: TaskId::from_bytes(clock::random(&*self.entropy)),
            owner: call.owner.clone(),
            tool: call.tool.clone(),
            backend: call.backend.clone(),
            key: JobKey::from_bytes(clock::random(&*self.entropy)),
            origin: call.origin.clone(),
            terms: call.terms.clone(),
            slots: call.slots.clone(),
            kept_arguments: call.kept_arguments.clone(),
            variant: call.variant,
            refers_to: call.references.iter().map(|(_, id)| id.clone()).collect(),
            refused_when_full: call.when_full == WhenFull::Refuse,
            created_at: now,
            changed_at: now,
            ended_at: None,
            state: if call.confirm.is_some() { TaskState::InputRequired } else { TaskState::Working },
            message: None,
            progress: None,
            furthest: None,
            link: None,
            files_bytes: 0,
            notes: Vec::new(),
            printed: None,
            watched_until: None,
            job: Job::Pending { spec: call.spec.clone(), queued: false, attempts: 0, not_before: now },
            cancel: None,
            questions: questions.collect(),
            trouble: None,
            overdue: None,
            missing: None,
            look_at: None,
            result_read_at: None,
            undelivered: call.blocking.as_ref().map(|blocking| Undelivered {
                digest: blocking.digest.clone(),
                waiting_until: now + blocking.timeout,
            }),
            due_at: None,
            version: 0,
        };
        machine::with_due_time(task)
    }
}
