//! Answers to questions, and claims on questions that a stream is about to send. It must not send anything.

use std::time::Duration;

use taskbridge_sdk::Answer;

use super::{Actor, Service, TaskOperation};
use crate::tasks::asking;
use crate::tasks::audit::{AuditEvent, AuditedOperation};
use crate::tasks::machine::{Answerer, Event};
use crate::tasks::store::{Lease, Result, StoreError};
use crate::tasks::task::{QuestionStatus, Task, TaskId, TaskQuestion};
use crate::tasks::task_writer::Commit;

/// A question that the caller has claimed for one of its streams.
#[derive(Clone, Debug)]
pub struct QuestionClaim {
    /// The task.
    pub task: TaskId,
    /// The question's key.
    pub key: String,
    /// The number of this message about the question.
    pub n: u32,
    /// The question.
    pub question: TaskQuestion,
}

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

    /// Claims the task's first open question that no open stream carries and that passes `accepts`, under the
    /// next message number. The stream counts as open for `lease`. The claim is committed on return, so only
    /// one stream carries a question at a time. Returns `None` if there is no such question.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn claim_question(
        &self,
        task: &Task,
        lease: Duration,
        accepts: impl Fn(&TaskQuestion) -> bool,
    ) -> Result<Option<QuestionClaim>> {
        let mut task = task.clone();
        loop {
            let now = self.writer.now();
            let unclaimed = task
                .open_questions()
                .find(|question| !question.has_open_delivery(now) && accepts(question))
                .cloned();
            let Some(question) = unclaimed else { return Ok(None) };
            let n = question.delivery.as_ref().map_or(0, |delivery| delivery.n) + 1;
            let event = Event::Delivering { key: question.key.clone(), n, until: now + lease };
            match self.writer.commit(&task, event, Lease::Keep).await? {
                Commit::Done(after) => {
                    return Ok(Some(QuestionClaim {
                        task: after.id,
                        key: question.key.clone(),
                        n,
                        question,
                    }));
                }
                Commit::Conflict | Commit::NoSlot(_) => match self.writer.read(&task.id).await? {
                    Some(current) => task = current,
                    None => return Ok(None),
                },
            }
        }
    }
}
