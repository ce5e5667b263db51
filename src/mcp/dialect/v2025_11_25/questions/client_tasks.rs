//! Tasks that the client created for questions of this server ("the client's tasks"). They are polled while
//! the question is open, fetched once they have an answer, and cancelled once the answer is no longer needed.
//! They are stored in the session's row, so that any stream of the session continues with them, in any
//! process. This file sends the requests; [`super::responses`] handles the responses.

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::{Answer, Timestamp};

use super::{MAX_ATTEMPTS, MessageKind, MessageSubject, QuestionSender, message, visit};
use crate::mcp::Bridge;
use crate::mcp::session::token::Session;
use crate::seal::Purpose;
use crate::sessions::{ClientTaskRecord, ClientTaskStatus, QuestionMessage, SessionChange};
use crate::tasks::service::{Actor, AnswerError};
use crate::tasks::store::StoreError;
use crate::tasks::task::{QuestionStatus, Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two polls of a client's task, whatever interval its client requests.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time between two polls, unless the client requests a longer interval. Also the time between two
/// requests for a result.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Divisor of a task's age: the poll interval is at least the age divided by this, up to `MAX_POLL_INTERVAL`.
const AGE_DIVISOR: u32 = 20;

/// What a stream knows of the tasks of its session's client.
pub(super) struct ClientTasks {
    /// Restricts it to the client's tasks for this one task.
    only: Option<TaskId>,
    pub(super) records: Vec<ClientTaskRecord>,
    /// True if a stream of the session listens in any process, by the session's row.
    is_listened: bool,
    requests: HashMap<QuestionMessage, ClientTaskRequests>,
    /// Change hints for the tasks that asked the questions.
    task_changes: ChangeSubscription,
}

/// What this stream has sent about one of the client's tasks.
#[derive(Clone, Copy, Default)]
struct ClientTaskRequests {
    polled_at: Option<Timestamp>,
    fetched_at: Option<Timestamp>,
    fetches: u32,
    cancelled: bool,
}

impl ClientTasks {
    pub(super) fn new(bridge: &Bridge, only: Option<&TaskId>) -> Self {
        let task_changes = bridge.context.service.follow([]);
        Self {
            only: only.cloned(),
            records: Vec::new(),
            is_listened: false,
            requests: HashMap::new(),
            task_changes,
        }
    }

    /// Replaces the known tasks of the client. Returns the messages whose task is no longer in the session's
    /// row.
    fn take(&mut self, records: Vec<ClientTaskRecord>) -> Vec<QuestionMessage> {
        let previous = std::mem::replace(&mut self.records, records);
        let (remaining, removed): (Vec<QuestionMessage>, Vec<QuestionMessage>) = previous
            .into_iter()
            .map(|record| record.of)
            .partition(|question| self.records.iter().any(|record| record.of == *question));
        for question in &removed {
            self.requests.remove(question);
            if !remaining.iter().any(|other| other.task == question.task) {
                self.task_changes.remove_task(&question.task);
            }
        }
        for record in &self.records {
            self.task_changes.add_task(&record.of.task);
        }
        removed
    }

    fn requests_for(&mut self, question: &QuestionMessage) -> &mut ClientTaskRequests {
        self.requests.entry(question.clone()).or_default()
    }
}

impl QuestionSender<'_> {
    /// Polls, fetches or cancels each of the client's tasks that is due. Returns when the next is due, if no
    /// hint comes first.
    ///
    /// # Errors
    /// If the store fails.
    pub(in crate::mcp::dialect::v2025_11_25) async fn collect(
        &mut self,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.refresh().await?;
        let records =
            self.client_tasks.as_ref().map_or_else(Vec::new, |client_tasks| client_tasks.records.clone());
        let mut next: Option<Timestamp> = None;
        for record in records {
            let now = self.bridge.context.clock.now();
            let due = if self.manages_client_tasks() {
                self.process_client_task(&record, now).await?
            } else {
                Some(now + poll_interval(&record, now))
            };
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    }

    /// Waits for a change hint about a task that asked one of the questions.
    pub(in crate::mcp::dialect::v2025_11_25) async fn wait_for_hint(&mut self) {
        match &mut self.client_tasks {
            Some(client_tasks) => drop(client_tasks.task_changes.next().await),
            None => std::future::pending().await,
        }
    }

    /// Reloads the client's tasks.
    pub(super) async fn refresh(&mut self) -> Result<(), StoreError> {
        let Some(client_tasks) = &mut self.client_tasks else { return Ok(()) };
        let settings = self.bridge.sessions.store.settings(&self.session.nonce).await?.unwrap_or_default();
        let mut records = settings.held;
        client_tasks.is_listened = settings.streams.active_listener(self.bridge.context.clock.now()) > 0;
        if let Some(only) = &client_tasks.only {
            records.retain(|record| record.of.task == *only);
        }
        for question in client_tasks.take(records) {
            self.finish_client_task(question).await?;
        }
        Ok(())
    }

    /// Returns true if a client's task exists for this question, so that it must not be asked again here.
    pub(super) fn has_client_task(&self, task: &TaskId, key: &str) -> bool {
        let mut records = self.client_tasks.iter().flat_map(|client_tasks| &client_tasks.records);
        records.any(|record| record.of.task == *task && record.of.key == key)
    }

    /// Returns true if the task has a client's task whose answer is no longer needed, and which was not
    /// cancelled here.
    pub(super) fn has_unneeded_client_task(&self, task: &Task) -> bool {
        let Some(client_tasks) = self.client_tasks.as_ref().filter(|_| self.manages_client_tasks()) else {
            return false;
        };
        client_tasks.records.iter().any(|held| {
            held.of.task == task.id
                && !is_open(task, &held.of.key)
                && client_tasks.requests.get(&held.of).is_none_or(|requests| !requests.cancelled)
        })
    }

    /// Returns true if this stream manages the client's tasks. The session's listening stream does, in
    /// whatever process it is open. If there is none, a stream that waits for a task does. While one opens or
    /// closes, both may: then the client's task is polled twice, and nothing else happens.
    fn manages_client_tasks(&self) -> bool {
        let Some(ClientTasks { only: Some(_), is_listened, .. }) = &self.client_tasks else { return true };
        !(*is_listened || self.bridge.sessions.stream_election.is_listened(&self.session.nonce))
    }

    async fn process_client_task(
        &mut self,
        record: &ClientTaskRecord,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let ClientTaskRecord { of: question, stage, .. } = record;
        let view = self.bridge.context.service.get(&self.actor, &question.task).await?;
        let task = view.map(|view| view.task);
        let is_needed = task.as_ref().is_some_and(|task| is_open(task, &question.key));
        match stage {
            ClientTaskStatus::Cancelled if is_needed => {
                // The process that received the cancellation stopped before it had written everything.
                dismiss(self.bridge, &self.actor, self.session, question).await?;
                Ok(None)
            }
            ClientTaskStatus::Ended | ClientTaskStatus::Cancelled if !is_needed => {
                delete_client_task(self.bridge, self.session, question).await?;
                Ok(None)
            }
            ClientTaskStatus::Working | ClientTaskStatus::InputRequired if !is_needed => {
                self.cancel(record, task.as_ref()).await?;
                Ok(None)
            }
            ClientTaskStatus::Ended | ClientTaskStatus::Cancelled => Ok(self.fetch(record, now).await),
            ClientTaskStatus::InputRequired => {
                // The client's task cannot go on without this request. It is answered when that task has
                // ended.
                if self.requests_about(question).fetches == 0 {
                    self.fetch(record, now).await;
                }
                Ok(Some(self.poll_status(record, now).await))
            }
            ClientTaskStatus::Working => Ok(Some(self.poll_status(record, now).await)),
        }
    }

    /// Requests the status of a client's task, if due. Returns when it is due again.
    async fn poll_status(&mut self, record: &ClientTaskRecord, now: Timestamp) -> Timestamp {
        let interval = poll_interval(record, now);
        let due = self.requests_about(&record.of).polled_at.unwrap_or(record.since) + interval;
        if due > now {
            return due;
        }
        self.update_requests(&record.of, |requests| requests.polled_at = Some(now));
        self.send_request(record, MessageKind::Status, "tasks/get").await;
        now + interval
    }

    /// Requests the result of a client's task, if due. Sends at most `MAX_ATTEMPTS` requests,
    /// `MAX_POLL_INTERVAL` apart. Returns when it is due again.
    async fn fetch(&mut self, record: &ClientTaskRecord, now: Timestamp) -> Option<Timestamp> {
        let ClientTaskRequests { fetched_at, fetches, .. } = self.requests_about(&record.of);
        if fetches == MAX_ATTEMPTS {
            return None;
        }
        if let Some(due) = fetched_at.map(|last| last + MAX_POLL_INTERVAL).filter(|due| *due > now) {
            return Some(due);
        }
        self.update_requests(&record.of, |requests| {
            requests.fetched_at = Some(now);
            requests.fetches += 1;
        });
        self.send_request(record, MessageKind::Result, "tasks/result").await;
        Some(now + MAX_POLL_INTERVAL)
    }

    /// Cancels a client's task whose answer is no longer needed. The record of the task is deleted once the
    /// client has responded. Until then, each new stream repeats the request. If the client cannot cancel
    /// tasks, the record is deleted at once.
    async fn cancel(&mut self, record: &ClientTaskRecord, task: Option<&Task>) -> Result<(), StoreError> {
        if self.requests_about(&record.of).cancelled {
            return Ok(());
        }
        self.update_requests(&record.of, |requests| requests.cancelled = true);
        if let Some((id, key)) = task.and_then(|task| visit(task, &record.of.key)) {
            self.send_message(message::complete(&self.bridge.context.seal, &id, &key)).await;
        }
        if !self.session.client.cancels_tasks {
            return delete_client_task(self.bridge, self.session, &record.of).await;
        }
        self.send_request(record, MessageKind::Cancel, "tasks/cancel").await;
        Ok(())
    }

    async fn send_request(&mut self, record: &ClientTaskRecord, kind: MessageKind, method: &'static str) {
        let id = self
            .bridge
            .context
            .seal
            .seal(Purpose::Question, &MessageSubject { of: record.of.clone(), what: kind });
        self.send_message(message::about(&id, method, &record.id)).await;
    }

    fn requests_about(&self, question: &QuestionMessage) -> ClientTaskRequests {
        self.client_tasks
            .as_ref()
            .and_then(|client_tasks| client_tasks.requests.get(question))
            .copied()
            .unwrap_or_default()
    }

    fn update_requests(&mut self, question: &QuestionMessage, update: impl FnOnce(&mut ClientTaskRequests)) {
        if let Some(client_tasks) = &mut self.client_tasks {
            update(client_tasks.requests_for(question));
        }
    }

    /// Handles a client's task that has delivered its answer, or is gone without one. If the question is
    /// still open, this stream can ask it once more. After an answer that did not fit, it can ask at most
    /// `MAX_ATTEMPTS - 1` times more.
    async fn finish_client_task(&mut self, question: QuestionMessage) -> Result<(), StoreError> {
        if !self.manages_client_tasks() {
            return Ok(());
        }
        let Some(view) = self.bridge.context.service.get(&self.actor, &question.task).await? else {
            return Ok(());
        };
        let Some(task_question) =
            view.task.questions.iter().find(|task_question| task_question.key == question.key)
        else {
            return Ok(());
        };
        if task_question.status == QuestionStatus::Open {
            self.deliveries.read(&*self.bridge.sessions.deliveries, &question.task, true).await?;
            let last_delivery = self.deliveries.newest(&view.task, task_question);
            let was_invalid = last_delivery.is_some_and(|delivery| delivery.problem.is_some());
            let min_count = if was_invalid { 1 } else { MAX_ATTEMPTS - 1 };
            let attempts = self.ask_counts.entry((question.task, question.key)).or_default();
            *attempts = min_count.max(*attempts);
        } else {
            self.visits.extend(visit(&view.task, &question.key));
        }
        Ok(())
    }
}

/// Returns the time between two polls: as requested by the client, and longer for older tasks without an
/// answer.
fn poll_interval(record: &ClientTaskRecord, now: Timestamp) -> Duration {
    let backoff = (now.since(record.since) / AGE_DIVISOR).min(MAX_POLL_INTERVAL);
    record.every.max(backoff).max(MIN_POLL_INTERVAL)
}

fn is_open(task: &Task, key: &str) -> bool {
    task.open_questions().any(|task_question| task_question.key == key)
}

/// Handles the cancellation of a client's task at the client: the question is closed without a choice.
///
/// # Errors
/// If the store fails.
pub(super) async fn dismiss(
    bridge: &Bridge,
    by: &dyn Actor,
    session: &Session,
    question: &QuestionMessage,
) -> Result<(), StoreError> {
    match bridge.context.service.answer(by, &question.task, &question.key, Answer::Cancel).await {
        Err(AnswerError::Store(error)) => Err(error),
        _ => delete_client_task(bridge, session, question).await,
    }
}

/// Deletes the record of a client's task.
///
/// # Errors
/// If the store fails.
pub(super) async fn delete_client_task(
    bridge: &Bridge,
    session: &Session,
    question: &QuestionMessage,
) -> Result<(), StoreError> {
    store_change(bridge, session, SessionChange::RemoveClientTask(question.clone())).await.map(drop)
}

/// Stores a setting about a client's tasks, and notifies the session's streams. Returns false if the session
/// may store no more of them, or has ended.
///
/// # Errors
/// If the store fails.
pub(super) async fn store_change(
    bridge: &Bridge,
    session: &Session,
    setting: SessionChange,
) -> Result<bool, StoreError> {
    let stored = bridge.sessions.store.set(&session.nonce, setting, session.expires).await?;
    bridge.context.service.channel_changed(&session.nonce);
    Ok(stored.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's own interval is respected, within bounds that grow with the age of its task.
    #[test]
    fn client_task_polling_slows_down() {
        let record = |requested| ClientTaskRecord {
            of: QuestionMessage { task: TaskId::from_wire("t"), key: "q1".to_owned(), n: 1 },
            id: TaskId::from_wire("theirs"),
            since: Timestamp::from_millis(0),
            stage: ClientTaskStatus::Working,
            every: Duration::from_millis(requested),
        };
        for (requested, age, expected) in [
            (0, 0, 250),
            (1_000, 0, 1_000),
            (1_000, 20_000, 1_000),
            (1_000, 60_000, 3_000),
            (1_000, 86_400_000, 30_000),
            (3_600_000, 86_400_000, 3_600_000),
        ] {
            let interval = poll_interval(&record(requested), Timestamp::from_millis(age));
            assert_eq!(interval, Duration::from_millis(expected), "{requested} {age}");
        }
    }
}
