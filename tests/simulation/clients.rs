//! The clients of a world: they call, wait, cancel, answer and poll, on any process, and record the
//! responses. An operator retries and abandons tasks. It must not check anything but what a client can see.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge_core::tasks::machine::{CancelMode, Event};
use taskbridge_core::tasks::service::{AnswerError, CallResult, CancelResult, Service};
use taskbridge_core::tasks::store::Lease;
use taskbridge_core::tasks::task::{Owner, QuestionSource, TaskId, TaskQuestion};
use taskbridge_sdk::Answer;

use super::calls::{CALL_WAIT, OWNERS, PlannedCall};
use super::connection::{REFERENCE_ARG, REFERENCED_KEY_ARG};
use super::record::{Ack, Expected, Promise};
use super::world::World;

impl World {
    /// Calls a tool as a client, and records the task id if the client receives one.
    pub(super) fn call(&mut self, at: usize) {
        self.calls += 1;
        let Some(service) = self.service(at) else { return };
        let mut planned = self.any_call();
        let refers_to_other_owner = self.add_reference(&mut planned);
        // Some callers disconnect, and some of those while the row is being written.
        let timeout_ms = if self.rng.one_in(6) { self.rng.below(20) } else { 60_000 };
        let (record, leases, called_at) =
            (Arc::clone(&self.record), Arc::clone(&self.leases), self.clock.now());
        #[allow(clippy::disallowed_methods, reason = "clients are tasks of the simulation")]
        tokio::spawn(async move {
            let response = service.call(planned.call.clone());
            let response = tokio::time::timeout(Duration::from_millis(timeout_ms), response).await;
            if let Ok(Ok(call_result)) = response {
                if refers_to_other_owner {
                    leases.report("a call that refers to another owner's task was accepted".to_owned());
                }
                record.lock().promises.push(Promise::of(call_result.into_task().id, &planned, called_at));
            }
        });
    }

    /// Makes some calls refer to a task. Returns true if that task has another owner.
    fn add_reference(&self, planned: &mut PlannedCall) -> bool {
        if planned.call.idempotency_key.is_some() || !self.rng.one_in(6) {
            return false;
        }
        let Some(Promise { id, owner, .. }) = self.any_promise() else { return false };
        let record = self.record.lock();
        let Some(snapshot) = record.snapshots.get(&id) else { return false };
        let call = &mut planned.call;
        if snapshot.task.backend != call.backend {
            return false;
        }
        call.spec.arguments[REFERENCED_KEY_ARG] = snapshot.task.key.as_str().into();
        call.references.push((REFERENCE_ARG.to_owned(), id));
        owner != call.owner
    }

    /// Makes a plain call: it gets a new task, or attaches to the task of an equal call that disconnected.
    pub(super) fn call_and_wait(&mut self, at: usize) {
        self.calls += 1;
        let Some(service) = self.service(at) else { return };
        let planned = self.plain_call();
        let timeout = CALL_WAIT.min(Duration::from_millis(1 + self.rng.below(20_000)));
        // After a step of the store's clock, a waiting call can count as disconnected, and its task has two
        // callers.
        let steps = self.plan.steps;
        let (record, leases, clock) =
            (Arc::clone(&self.record), Arc::clone(&self.leases), Arc::clone(&self.clock));
        #[allow(clippy::disallowed_methods, reason = "clients are tasks of the simulation")]
        tokio::spawn(async move {
            let (owner, called_at) = (planned.call.owner.clone(), clock.now());
            let cancels =
                planned.call.blocking.as_ref().is_some_and(|blocking_call| blocking_call.cancel_on_abandon);
            let Ok(call_result) = service.call(planned.call.clone()).await else { return };
            let is_attached = matches!(call_result, CallResult::Attached(_));
            let task = call_result.into_task();
            let id = task.id.clone();
            if is_attached && record.lock().delivered.get(&id).is_some_and(|at| *at < called_at) {
                leases.report(format!("the result of {id:?} was delivered twice"));
            }
            let promise = Promise::of(id.clone(), &planned, called_at);
            record.lock().promises.push(Promise { cancelled: cancels && steps, ..promise });
            let guard = service.guard_call(&task, cancels);
            let wait_result = service.wait(&owner, &id, Some(timeout), |task| task.has_ended()).await;
            let ended = matches!(&wait_result, Ok(Some(view)) if view.task.has_ended());
            if let Ok(Some(view)) = wait_result {
                record.lock().record_read(&view.task);
            }
            if !ended {
                // It disconnects, which stops the job with `on_abandon = "cancel"`.
                record.lock().update_promises(&id, |promise| promise.cancelled |= cancels);
            } else if guard.mark_delivered().await.is_ok() {
                record.lock().delivered.insert(id, clock.now());
            }
        });
    }

    /// Cancels one of a client's tasks. Endless ones are cancelled first.
    pub(super) async fn cancel(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let endless = |promise: &&Promise| promise.expected == Expected::Endless && !promise.cancelled;
        let promise = self.record.lock().promises.iter().find(endless).cloned();
        let promise = promise.filter(|_| self.rng.one_in(2)).or_else(|| self.any_promise());
        let Some(Promise { id, owner, expected, .. }) = promise else { return };
        // A job that ignores cancels is never reported as cancelled.
        let requests_only = expected == Expected::Stubborn || self.rng.one_in(2);
        let mode = if requests_only { CancelMode::Request } else { CancelMode::Immediate };
        // Recorded even if the response is lost: the cancel may have been committed.
        self.record.lock().update_promises(&id, |promise| promise.cancelled = true);
        if let Some(Ok(CancelResult::Done(task) | CancelResult::AlreadyEnded(task))) =
            self.with_timeout(service.cancel(&owner, &id, mode)).await
        {
            self.record.lock().record_read(&task);
        }
    }

    /// Retries a task now or abandons it, as an operator.
    pub(super) async fn operate(&self, at: usize) {
        let Some(node) = self.serving(at) else { return };
        let (writer, service) = (node.writer.clone(), node.service.clone());
        let Some(Promise { id, owner, .. }) = self.any_promise() else { return };
        let Some(Ok(Some(view))) = self.with_timeout(service.get(&owner, &id)).await else { return };
        let gives_up = self.rng.one_in(6);
        if gives_up {
            self.record.lock().update_promises(&id, |promise| promise.given_up = true);
        }
        let event = if gives_up { Event::OutcomeUnknown } else { Event::RetryNow };
        let _ = self.with_timeout(writer.apply(view.task, event, Lease::Keep)).await;
    }

    /// Answers the questions of all tasks, two clients at a time, and tries to read tasks of other owners.
    pub(super) async fn answer(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let promises = self.record.lock().promises.clone();
        for Promise { id, owner, .. } in promises {
            if !self.record.lock().present.contains(&id) {
                continue;
            }
            let other = Owner::new(if owner.as_str() == OWNERS[0] { OWNERS[1] } else { OWNERS[0] });
            if let Some(Ok(Some(_))) = self.with_timeout(service.get(&other, &id)).await {
                self.record.lock().update_promises(&id, |promise| promise.expected = Expected::Private);
            }
            let recorded_outcome = |record: &super::record::Record| {
                record
                    .promises
                    .iter()
                    .find(|promise| promise.id == id)
                    .and_then(|promise| promise.terminal_outcome)
            };
            let previous_outcome = recorded_outcome(&self.record.lock());
            let Some(Ok(maybe_view)) = self.with_timeout(service.get(&owner, &id)).await else { continue };
            // An expired row is not found.
            let Some(view) = maybe_view else { continue };
            if previous_outcome.is_some() && view.task.outcome() != previous_outcome {
                self.record.lock().update_promises(&id, |promise| promise.expected = Expected::Unseen);
                continue;
            }
            self.record.lock().record_read(&view.task);
            if view.task.has_ended() {
                service.note_result_read(&view.task, &owner);
            }
            for question in view.task.open_questions() {
                tokio::join!(
                    self.answer_question(&service, &owner, &id, question),
                    self.answer_question(&service, &owner, &id, question)
                );
            }
        }
    }

    /// Answers the open questions of all rows, including those whose call never received its task id.
    pub(super) async fn answer_all(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let mut present: Vec<_> = self.record.lock().present.iter().cloned().collect();
        present.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        for id in present {
            let Some(task) = self.record.lock().snapshots.get(&id).map(|snapshot| snapshot.task.clone())
            else {
                continue;
            };
            for question in task.open_questions() {
                self.answer_question(&service, &task.owner, &id, question).await;
            }
        }
    }

    /// Answers one question as a client, with a unique number.
    async fn answer_question(&self, service: &Service, owner: &Owner, id: &TaskId, question: &TaskQuestion) {
        let n = self.rng.next() >> 12;
        let declines = question.asker == QuestionSource::Confirm && self.rng.one_in(3);
        let answer = match declines {
            true => Answer::Decline,
            false => Answer::Accept(json!({ "n": n }).as_object().cloned().unwrap_or_default()),
        };
        let result = self.with_timeout(service.answer(owner, id, &question.key, answer)).await;
        let ack = match result {
            Some(Ok(_)) => Ack::Confirmed,
            Some(Err(AnswerError::Store(_))) | None => Ack::Unknown,
            Some(Err(_)) => Ack::NotSent,
        };
        let mut record = self.record.lock();
        if question.asker == QuestionSource::Confirm {
            record.update_promises(id, |promise| {
                let stored_ack = if declines { &mut promise.declined } else { &mut promise.consented };
                *stored_ack = (*stored_ack).max(ack);
            });
        } else {
            record.answers.entry(id.clone()).or_default().push((n, ack));
        }
    }

    fn any_promise(&self) -> Option<Promise> {
        let promises = &self.record.lock().promises;
        (!promises.is_empty()).then(|| promises[self.rng.below(promises.len() as u64) as usize].clone())
    }

    pub(super) fn service(&self, at: usize) -> Option<Service> {
        Some(self.serving(at)?.service.clone())
    }

    /// Gives up a client's request after a while, because its process may be dead or frozen.
    async fn with_timeout<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(2), request).await.ok()
    }
}
