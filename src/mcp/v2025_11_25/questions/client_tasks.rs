//! Tasks that the client created for questions of this server ("the client's tasks"). They are polled while
//! the question is open, fetched once they have an answer, and cancelled once the answer is no longer needed.
//! They are stored in the session's row, so that any stream of the session continues with them, in any
//! process. This file sends the requests; [`super::responses`] handles the responses.

use std::collections::HashMap;
use std::time::Duration;

use taskbridge_sdk::{Answer, Timestamp};

use super::{MOST_TIMES, MessageKind, MessageSubject, QuestionSender, message, visit};
use crate::mcp::Bridge;
use crate::mcp::session::Session;
use crate::seal::Purpose;
use crate::tasks::service::{Actor, AnswerError};
use crate::tasks::store::{ClientTaskRecord, ClientTaskStatus, QuestionMessage, SessionChange, StoreError};
use crate::tasks::task::{QuestionStatus, Task, TaskId};
use crate::tasks::watch::ChangeSubscription;

/// Minimum time between two polls of a client's task, whatever interval its client requests.
const SHORTEST: Duration = Duration::from_millis(250);
/// Maximum time between two polls, unless the client requests a longer interval. Also the time between two
/// requests for a result.
const LONGEST: Duration = Duration::from_secs(30);
/// Divisor of a task's age: the poll interval is at least the age divided by this, up to `LONGEST`.
const LATENESS: u32 = 20;

/// What a stream knows of the tasks of its session's client.
pub(super) struct ClientTasks {
    /// Restricts it to the client's tasks for this one task.
    only: Option<TaskId>,
    pub(super) held: Vec<ClientTaskRecord>,
    /// True if a stream of the session listens in any process, by the session's row.
    is_listened: bool,
    sent: HashMap<QuestionMessage, ClientTaskRequests>,
    /// Change hints for the tasks that asked the questions.
    follows: ChangeSubscription,
}

/// What this stream has sent about one of the client's tasks.
#[derive(Clone, Copy, Default)]
struct ClientTaskRequests {
    looked_at: Option<Timestamp>,
    fetched_at: Option<Timestamp>,
    fetches: u32,
    cancelled: bool,
}

impl ClientTasks {
    pub(super) fn new(bridge: &Bridge, only: Option<&TaskId>) -> Self {
        let follows = bridge.service.follow([]);
        Self { only: only.cloned(), held: Vec::new(), is_listened: false, sent: HashMap::new(), follows }
    }

    /// Replaces the known client's tasks. Returns the messages whose client's task is no longer in the
    /// session's row.
    fn take(&mut self, held: Vec<ClientTaskRecord>) -> Vec<QuestionMessage> {
        let before = std::mem::replace(&mut self.held, held);
        let (still, gone): (Vec<QuestionMessage>, Vec<QuestionMessage>) = before
            .into_iter()
            .map(|held| held.of)
            .partition(|of| self.held.iter().any(|held| held.of == *of));
        for of in &gone {
            self.sent.remove(of);
            if !still.iter().any(|other| other.task == of.task) {
                self.follows.remove_task(&of.task);
            }
        }
        for held in &self.held {
            self.follows.add_task(&held.of.task);
        }
        gone
    }

    fn has_sent(&mut self, of: &QuestionMessage) -> &mut ClientTaskRequests {
        self.sent.entry(of.clone()).or_default()
    }
}

impl QuestionSender<'_> {
    /// Polls, fetches or cancels each of the client's tasks that is due. Returns when the next is due, if no
    /// hint comes first.
    ///
    /// # Errors
    /// If the store fails.
    pub(in crate::mcp::v2025_11_25) async fn collect(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.refresh().await?;
        let held = self.holdings.as_ref().map_or_else(Vec::new, |holdings| holdings.held.clone());
        let mut next: Option<Timestamp> = None;
        for held in held {
            let now = self.bridge.clock.now();
            let due =
                if self.collects() { self.see_to(&held, now).await? } else { Some(now + pace(&held, now)) };
            next = next.into_iter().chain(due).min();
        }
        Ok(next)
    }

    /// Waits for a change hint about a task that asked one of the questions.
    pub(in crate::mcp::v2025_11_25) async fn hint(&mut self) {
        match &mut self.holdings {
            Some(holdings) => drop(holdings.follows.next().await),
            None => std::future::pending().await,
        }
    }

    /// Reloads the client's tasks.
    pub(super) async fn refresh(&mut self) -> Result<(), StoreError> {
        let Some(holdings) = &mut self.holdings else { return Ok(()) };
        let settings = self.bridge.store.settings(&self.session.nonce).await?.unwrap_or_default();
        let mut held = settings.held;
        holdings.is_listened = settings.streams.speaker(self.bridge.clock.now()) > 0;
        if let Some(only) = &holdings.only {
            held.retain(|held| held.of.task == *only);
        }
        for of in holdings.take(held) {
            self.finish_client_task(of).await?;
        }
        Ok(())
    }

    /// Returns true if a client's task exists for this question, so that it must not be asked again here.
    pub(super) fn is_held(&self, task: &TaskId, key: &str) -> bool {
        let mut held = self.holdings.iter().flat_map(|holdings| &holdings.held);
        held.any(|held| held.of.task == *task && held.of.key == key)
    }

    /// Returns true if the task has a client's task whose answer is no longer needed, and which was not
    /// cancelled here.
    pub(super) fn holds_in_vain(&self, task: &Task) -> bool {
        let Some(holdings) = self.holdings.as_ref().filter(|_| self.collects()) else { return false };
        holdings.held.iter().any(|held| {
            held.of.task == task.id
                && !is_open(task, &held.of.key)
                && holdings.sent.get(&held.of).is_none_or(|sent| !sent.cancelled)
        })
    }

    /// Returns true if this stream manages the client's tasks. The session's listening stream does, in
    /// whatever process it is open. If there is none, a stream that waits for a task does. While one opens or
    /// closes, both may: then the client's task is polled twice, and nothing else happens.
    fn collects(&self) -> bool {
        let Some(ClientTasks { only: Some(_), is_listened, .. }) = &self.holdings else { return true };
        !(*is_listened || self.bridge.speakers.is_listened(&self.session.nonce))
    }

    async fn see_to(
        &mut self,
        held: &ClientTaskRecord,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let ClientTaskRecord { of, stage, .. } = held;
        let view = self.bridge.service.get(&self.actor, &of.task).await?;
        let task = view.map(|view| view.task);
        let wanted = task.as_ref().is_some_and(|task| is_open(task, &of.key));
        match stage {
            ClientTaskStatus::Cancelled if wanted => {
                // The process that received the cancellation stopped before it had written everything.
                dismiss(self.bridge, &self.actor, self.session, of).await?;
                Ok(None)
            }
            ClientTaskStatus::Ended | ClientTaskStatus::Cancelled if !wanted => {
                delete_client_task(self.bridge, self.session, of).await?;
                Ok(None)
            }
            ClientTaskStatus::Working | ClientTaskStatus::InputRequired if !wanted => {
                self.cancel(held, task.as_ref()).await?;
                Ok(None)
            }
            ClientTaskStatus::Ended | ClientTaskStatus::Cancelled => Ok(self.fetch(held, now).await),
            ClientTaskStatus::InputRequired => {
                // The client's task cannot go on without this request. It is answered when that task has
                // ended.
                if self.sent_about(of).fetches == 0 {
                    self.fetch(held, now).await;
                }
                Ok(Some(self.poll_status(held, now).await))
            }
            ClientTaskStatus::Working => Ok(Some(self.poll_status(held, now).await)),
        }
    }

    /// Requests the status of a client's task, if due. Returns when it is due again.
    async fn poll_status(&mut self, held: &ClientTaskRecord, now: Timestamp) -> Timestamp {
        let pace = pace(held, now);
        let due = self.sent_about(&held.of).looked_at.unwrap_or(held.since) + pace;
        if due > now {
            return due;
        }
        self.has_sent(&held.of, |sent| sent.looked_at = Some(now));
        self.ask_about(held, MessageKind::Status, "tasks/get").await;
        now + pace
    }

    /// Requests the result of a client's task, if due. Sends at most `MOST_TIMES` requests, `LONGEST` apart.
    /// Returns when it is due again.
    async fn fetch(&mut self, held: &ClientTaskRecord, now: Timestamp) -> Option<Timestamp> {
        let ClientTaskRequests { fetched_at, fetches, .. } = self.sent_about(&held.of);
        if fetches == MOST_TIMES {
            return None;
        }
        if let Some(due) = fetched_at.map(|last| last + LONGEST).filter(|due| *due > now) {
            return Some(due);
        }
        self.has_sent(&held.of, |sent| {
            sent.fetched_at = Some(now);
            sent.fetches += 1;
        });
        self.ask_about(held, MessageKind::Result, "tasks/result").await;
        Some(now + LONGEST)
    }

    /// Cancels a client's task whose answer is no longer needed. The record of the task is deleted once the
    /// client has responded. Until then, each new stream repeats the request. If the client cannot cancel
    /// tasks, the record is deleted at once.
    async fn cancel(&mut self, held: &ClientTaskRecord, task: Option<&Task>) -> Result<(), StoreError> {
        if self.sent_about(&held.of).cancelled {
            return Ok(());
        }
        self.has_sent(&held.of, |sent| sent.cancelled = true);
        if let Some((id, key)) = task.and_then(|task| visit(task, &held.of.key)) {
            self.say(message::complete(&self.bridge.seal, &id, &key)).await;
        }
        if !self.session.client.cancels_tasks {
            return delete_client_task(self.bridge, self.session, &held.of).await;
        }
        self.ask_about(held, MessageKind::Cancel, "tasks/cancel").await;
        Ok(())
    }

    async fn ask_about(&mut self, held: &ClientTaskRecord, what: MessageKind, method: &'static str) {
        let id = self.bridge.seal.seal(Purpose::Question, &MessageSubject { of: held.of.clone(), what });
        self.say(message::about(&id, method, &held.id)).await;
    }

    fn sent_about(&self, of: &QuestionMessage) -> ClientTaskRequests {
        self.holdings.as_ref().and_then(|holdings| holdings.sent.get(of)).copied().unwrap_or_default()
    }

    fn has_sent(&mut self, of: &QuestionMessage, note: impl FnOnce(&mut ClientTaskRequests)) {
        if let Some(holdings) = &mut self.holdings {
            note(holdings.has_sent(of));
        }
    }

    /// Handles a client's task that has delivered its answer, or is gone without one. If the question is
    /// still open, this stream can ask it once more. After an answer that did not fit, it can ask at most
    /// `MOST_TIMES - 1` times more.
    async fn finish_client_task(&mut self, of: QuestionMessage) -> Result<(), StoreError> {
        if !self.collects() {
            return Ok(());
        }
        let Some(view) = self.bridge.service.get(&self.actor, &of.task).await? else { return Ok(()) };
        let Some(asked) = view.task.questions.iter().find(|asked| asked.key == of.key) else { return Ok(()) };
        if asked.status == QuestionStatus::Open {
            let did_not_fit = asked.delivery.as_ref().is_some_and(|delivery| delivery.problem.is_some());
            let at_least = if did_not_fit { 1 } else { MOST_TIMES - 1 };
            let times = self.asked.entry((of.task, of.key)).or_default();
            *times = at_least.max(*times);
        } else {
            self.visits.extend(visit(&view.task, &of.key));
        }
        Ok(())
    }
}

/// Returns the time between two polls: as requested by the client, and longer for older tasks without an
/// answer.
fn pace(held: &ClientTaskRecord, now: Timestamp) -> Duration {
    let patience = (now.since(held.since) / LATENESS).min(LONGEST);
    held.every.max(patience).max(SHORTEST)
}

fn is_open(task: &Task, key: &str) -> bool {
    task.open_questions().any(|asked| asked.key == key)
}

/// Handles the cancellation of a client's task at the client: the question is closed without a choice.
///
/// # Errors
/// If the store fails.
pub(super) async fn dismiss(
    bridge: &Bridge,
    by: &dyn Actor,
    session: &Session,
    of: &QuestionMessage,
) -> Result<(), StoreError> {
    match bridge.service.answer(by, &of.task, &of.key, Answer::Cancel).await {
        Err(AnswerError::Store(error)) => Err(error),
        _ => delete_client_task(bridge, session, of).await,
    }
}

/// Deletes the record of a client's task.
///
/// # Errors
/// If the store fails.
pub(super) async fn delete_client_task(
    bridge: &Bridge,
    session: &Session,
    of: &QuestionMessage,
) -> Result<(), StoreError> {
    note(bridge, session, SessionChange::LetGo(of.clone())).await.map(drop)
}

/// Stores a setting about a client's tasks, and notifies the session's streams. Returns false if the session
/// may store no more of them, or has ended.
///
/// # Errors
/// If the store fails.
pub(super) async fn note(
    bridge: &Bridge,
    session: &Session,
    setting: SessionChange,
) -> Result<bool, StoreError> {
    let noted = bridge.store.set(&session.nonce, setting, session.expires).await?;
    bridge.service.session_changed(&session.nonce);
    Ok(noted.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's own interval is respected, within bounds that grow with the age of its task.
    #[test]
    fn client_task_polling_slows_down() {
        let held = |every| ClientTaskRecord {
            of: QuestionMessage { task: TaskId::from_wire("t"), key: "q1".to_owned(), n: 1 },
            id: TaskId::from_wire("theirs"),
            since: Timestamp::from_millis(0),
            stage: ClientTaskStatus::Working,
            every: Duration::from_millis(every),
        };
        for (every, age, expected) in [
            (0, 0, 250),
            (1_000, 0, 1_000),
            (1_000, 20_000, 1_000),
            (1_000, 60_000, 3_000),
            (1_000, 86_400_000, 30_000),
            (3_600_000, 86_400_000, 3_600_000),
        ] {
            let pace = pace(&held(every), Timestamp::from_millis(age));
            assert_eq!(pace, Duration::from_millis(expected), "{every} {age}");
        }
    }
}
