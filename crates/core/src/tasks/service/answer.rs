//! Answers to questions, and the confirmation that a question is still open. It must not send anything.

use taskbridge_sdk::Answer;

use super::{Actor, Service, TaskOperation};
use crate::tasks::asking;
use crate::tasks::audit::{AuditEvent, AuditedOperation};
use crate::tasks::machine::{Answerer, Event};
use crate::tasks::store::{Lease, Result, StoreError};
use crate::tasks::task::{QuestionStatus, Task, TaskId};
use crate::tasks::task_writer::Commit;

/// Why an answer was rejected.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The caller has no such task, or the row has no such question (any more).
    #[error("no such question")]
    NotFound,
    /// The caller may read the task but not answer its questions. The text is written for the caller.
    #[error("{0}")]
    Refused(String),
    /// The question is closed: it was answered, or the task no longer needs an answer. Nothing was changed.
    #[error("the question is no longer open")]
    Closed,
    /// The answer does not fit the question. The text is written for the person who answered.
    #[error("the answer does not fit the question: {0}")]
    Invalid(String),
    /// The store is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// Answers a question of a task. The first valid answer is final. The job receives it with the defaults
    /// of the form fields that were left out.
    ///
    /// # Errors
    /// See [`AnswerError`]; except after [`AnswerError::Store`], this answer had no effect.
    #[tracing::instrument(target = "spans", level = "trace", name = "verb", skip_all, fields(verb = "answer", task = ?id))]
    pub async fn answer(
        &self,
        by: &dyn Actor,
        id: &TaskId,
        key: &str,
        answer: Answer,
    ) -> Result<Task, AnswerError> {
        let mut task = self.find(by, id).await?.ok_or(AnswerError::NotFound)?;
        let person = self.permits(by, TaskOperation::Answer, &task).map_err(AnswerError::Refused)?;
        let answerer = Answerer { owner: by.owner().clone(), person };
        let mut is_announced = false;
        loop {
            let task_question = task
                .questions
                .iter()
                .find(|task_question| task_question.key == key)
                .ok_or(AnswerError::NotFound)?;
            if task_question.status != QuestionStatus::Open {
                return Err(AnswerError::Closed);
            }
            let answer = asking::normalize_answer(&task_question.question, answer.clone())
                .map_err(AnswerError::Invalid)?;
            // It is announced only while the question is open, and once. If another answer wins the race
            // after that, the announcement remains in the audit log.
            if !is_announced {
                self.writer.audit.announce(AuditedOperation::Answer(id)).await?;
                is_announced = true;
            }
            let event = Event::Answered { key: key.to_owned(), answer, by: answerer.clone() };
            match self.writer.commit(&task, event, Lease::Keep).await? {
                Commit::Done(after) => {
                    self.writer.audit.record(AuditEvent::Answered { task: &after, question: key });
                    return Ok(after);
                }
                Commit::Conflict | Commit::NoSlot(_) => {
                    task = self.find(by, id).await?.ok_or(AnswerError::NotFound)?;
                }
            }
        }
    }

    /// Confirms that a question is still open, right before it is sent to a client. The `first` message about
    /// it is recorded in the history.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn confirm_open(&self, id: &TaskId, key: &str, first: bool) -> Result<bool> {
        let mut row = self.writer.read(id).await?;
        if first && let Some(task) = row {
            let event = Event::QuestionSent { key: key.to_owned() };
            row = self.writer.apply(task, event, Lease::Keep).await?;
        }
        Ok(row.is_some_and(|task| task.open_questions().any(|question| question.key == key)))
    }
}
