//! The deliveries of questions: what a stream knows of them, its claims, and the state of what it has in
//! flight. It must not decide which question is sent.

use std::collections::{BTreeMap, HashMap};

use super::{InFlightQuestion, LEASE, QuestionSender, QuestionState};
use crate::mcp::session::deliveries::QuestionClaim;
use crate::sessions::deliveries::{newest, recorded};
use crate::sessions::{Deliveries, Delivery};
use crate::tasks::store::StoreError;
use crate::tasks::task::{QuestionStatus, Task, TaskId, TaskQuestion};

/// The deliveries that a stream knows, by task, as it has read or written them last.
#[derive(Default)]
pub(super) struct KnownDeliveries(HashMap<TaskId, BTreeMap<String, Delivery>>);

impl KnownDeliveries {
    /// Reads the deliveries of a task, if the stream needs them; otherwise they are no longer known. Returns
    /// true if they differ from what was known.
    ///
    /// # Errors
    /// If the store fails.
    pub(super) async fn read(
        &mut self,
        store: &dyn Deliveries,
        task: &TaskId,
        is_needed: bool,
    ) -> Result<bool, StoreError> {
        if !is_needed {
            return Ok(self.0.remove(task).is_some());
        }
        let deliveries = store.deliveries(task).await?;
        let is_same = self.0.get(task) == Some(&deliveries);
        self.0.insert(task.clone(), deliveries);
        Ok(!is_same)
    }

    /// Adds what the stream has written itself.
    pub(super) fn insert(&mut self, task: &TaskId, key: &str, delivery: Delivery) {
        self.0.entry(task.clone()).or_default().insert(key.to_owned(), delivery);
    }

    /// Returns the newest known delivery of a question.
    pub(super) fn newest(&self, task: &Task, question: &TaskQuestion) -> Option<Delivery> {
        let stored = self.0.get(&task.id).and_then(|deliveries| deliveries.get(&question.key));
        newest(recorded(question), stored.cloned())
    }

    /// Returns true if the deliveries of any task are known.
    pub(super) fn is_used(&self) -> bool {
        !self.0.is_empty()
    }
}

impl QuestionSender<'_> {
    /// Returns true if a change of a delivery, of which the row says nothing, may concern this stream.
    pub(in crate::mcp::dialect::v2025_11_25) fn follows_deliveries(&self) -> bool {
        self.deliveries.is_used()
    }

    /// Reads the deliveries of the task again, if a question of it is in flight, or the client can be asked
    /// one. Returns true if they have changed.
    pub(super) async fn read_deliveries(&mut self, task: &Task) -> Result<bool, StoreError> {
        let client = self.actor.answers(task, self.session.client);
        let is_needed = self.in_flight.iter().any(|question| question.guard.claim().task == task.id)
            || task.open_questions().any(|task_question| client.can_ask(&task_question.question.ask));
        self.deliveries.read(&*self.bridge.sessions.deliveries, &task.id, is_needed).await
    }

    /// Claims a question and sends it. Returns false if the question was not claimed.
    pub(super) async fn ask(
        &mut self,
        task: &Task,
        task_question: &TaskQuestion,
    ) -> Result<bool, StoreError> {
        let (context, sessions) = (&self.bridge.context, &self.bridge.sessions);
        let seen = self.deliveries.newest(task, task_question);
        let claimed = sessions.claim_question(&context.service, (task, task_question), seen, LEASE).await?;
        let Some((guard, delivery)) = claimed else { return Ok(false) };
        let is_first = delivery.n == 1;
        self.deliveries.insert(&task.id, &task_question.key, delivery);
        // The row may have been read before an answer came.
        if context.service.confirm_open(&task.id, &task_question.key, is_first).await? {
            self.send(guard, task).await;
        }
        Ok(true)
    }

    /// Returns the state of a question in flight.
    pub(super) fn state(&self, question: &InFlightQuestion, task: &Task) -> QuestionState {
        let QuestionClaim { question: TaskQuestion { key, .. }, n, .. } = question.guard.claim();
        let Some(task_question) = task.questions.iter().find(|task_question| task_question.key == *key)
        else {
            return QuestionState::Withdrawn;
        };
        // An answer ends the message that carries the question, on whatever way it came.
        let is_done = |delivery: Delivery| delivery.n > *n || (delivery.n == *n && delivery.over);
        if task_question.answered_by.is_some()
            || self.deliveries.newest(task, task_question).is_some_and(is_done)
        {
            QuestionState::Done
        } else if task_question.status == QuestionStatus::Open {
            QuestionState::StillOpen
        } else {
            QuestionState::Withdrawn
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::{Question, Timestamp};

    use super::*;
    use crate::tasks::task::QuestionSource;

    /// A replica of an older version may have sent the question, and writes that into the task's row.
    #[test]
    fn delivery_in_row_counts() {
        let start = Timestamp::from_millis(1_000);
        let mut task = crate::store::suite::task(0, start);
        let ask = Question::form("x", "x?", json!({"type": "object", "properties": {}}));
        let mut question = TaskQuestion::new("q1".to_owned(), ask, QuestionSource::Job, start);
        question.front_end.insert("delivery".to_owned(), json!({"n": 2, "until": start}));
        task.questions.push(question.clone());
        let n = |known: &KnownDeliveries| known.newest(&task, &question).map(|delivery| delivery.n);
        let mut known = KnownDeliveries::default();
        assert_eq!(n(&known), Some(2), "the table has none");
        for (stored, newest) in [(1, 2), (3, 3)] {
            let delivery = Delivery { n: stored, until: start, over: false, problem: None };
            known.insert(&task.id, "q1", delivery);
            assert_eq!(n(&known), Some(newest));
        }
    }
}
