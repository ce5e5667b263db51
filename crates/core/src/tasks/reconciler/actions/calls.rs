//! The engine calls of actions: each function makes at most one call and returns its result as an event. It
//! must not write a row.

use std::sync::Arc;

use taskbridge_sdk::{Answer, AnswerOutcome, Backend, Error, JobSpec, Result, Started, Timestamp};

use crate::tasks::machine::{Event, Failure};
use crate::tasks::reconciler::Core;
use crate::tasks::task::{Job, QuestionStatus, Spec, Task, TaskQuestion};

impl Core {
    /// Starts the job. If our own checks refuse the start and an earlier attempt may have reached the engine,
    /// searches for the job instead.
    pub(super) async fn start(&self, task: &Task, may_exist: bool) -> Event {
        let Job::Starting { spec, attempts, .. } = &task.job else { return Event::Nothing };
        let attempt = *attempts;
        let result = match self.job_spec(task, spec, may_exist) {
            Ok(_) if may_exist && self.may_have_lost_key(task) => match self.find_job(task, spec).await {
                Ok(Some(started)) => Ok(started),
                Ok(None) => Err(Error::uncertain(
                    "the engine may have forgotten the key of this job, so its start is not repeated, and no \
                     job was found",
                )),
                Err(error) => Err(error),
            },
            Ok(job) => {
                let timeout_error = if may_exist { Error::unavailable } else { Error::uncertain };
                self.call(task, timeout_error, |backend| async move { backend.start(&job).await }).await
            }
            // Our own refusal is no evidence about a job that an earlier attempt may have started.
            Err(refusal) if may_exist => match self.find_job(task, spec).await {
                Ok(Some(started)) => Ok(started),
                Ok(None) => Err(Error::uncertain(refusal.to_string())),
                Err(error) => Err(error),
            },
            Err(refusal) => Err(refusal),
        };
        match result {
            Ok(started) => self.started(task, started).await,
            Err(error) => {
                self.log_failure(task, &error, "job cannot be started");
                Event::StartFailed { attempt, may_exist, failure: Failure::from(&error) }
            }
        }
    }

    /// Returns true if the engine may start a second job under the key of this task, because the key is too
    /// old ([`Backend::key_lifetime`]). A call that begins now arrives within its timeout.
    fn may_have_lost_key(&self, task: &Task) -> bool {
        let age = self.writer.now().since(first_attempt_at(task)) + self.settings.lease / 2;
        self.engines.key_lifetime(&task.backend).is_some_and(|lifetime| age >= lifetime)
    }

    pub(super) async fn find(&self, task: &Task) -> Event {
        let Job::Starting { spec, .. } = &task.job else { return Event::Nothing };
        match self.find_job(task, spec).await {
            Ok(Some(started)) => self.started(task, started).await,
            Ok(None) => Event::NotFound,
            Err(error) => {
                self.log_failure(task, &error, "search for a job failed");
                Event::FindFailed(Failure::from(&error))
            }
        }
    }

    /// Searches for the job by its key. The sensitive arguments are not needed, so nothing is unsealed.
    async fn find_job(&self, task: &Task, spec: &Spec) -> Result<Option<Started>> {
        let job = JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: spec.arguments.clone(),
            files: Vec::new(),
            may_exist: true,
            first_attempt_at: first_attempt_at(task),
            trace: None,
            on_behalf_of: task.origin.on_behalf_of.clone(),
        };
        self.call(task, Error::unavailable, |backend| async move { backend.find(&job).await }).await
    }

    pub(super) async fn poll(&self, task: &Task) -> Event {
        let Job::Open { handle, .. } = &task.job else { return Event::Nothing };
        let polled_at = self.writer.now();
        let observation =
            self.call(task, Error::unavailable, |backend| async move { backend.observe(handle).await });
        match observation.await {
            Ok(observation) => self.observed(task, observation, polled_at).await,
            Err(error) => Event::PollFailed(Failure::from(&error)),
        }
    }

    pub(super) async fn cancel(&self, task: &Task) -> Event {
        let Some(handle) = task.handle() else { return Event::Nothing };
        let requester = task.cancel.as_ref().and_then(|cancel| cancel.on_behalf_of.as_ref());
        let on_behalf_of = requester.or(task.origin.on_behalf_of.as_ref());
        let request = self.call(task, Error::unavailable, |backend| async move {
            backend.cancel_for(handle, on_behalf_of).await
        });
        match request.await {
            Ok(()) => Event::CancelTaken { start_lag: self.engines.start_lag(&task.backend) },
            Err(error) => {
                self.log_failure(task, &error, "job cannot be cancelled");
                Event::CancelFailed(Failure::from(&error))
            }
        }
    }

    pub(super) async fn answer(&self, task: &Task, key: &str) -> Event {
        let question = task.questions.iter().find(|question| question.key == key);
        let (Some(handle), Some(question)) = (task.handle(), question) else { return Event::Nothing };
        let QuestionStatus::Answered { answer, .. } = &question.status else { return Event::Nothing };
        let key = key.to_owned();
        match self.send_answer(task, handle, question, answer).await {
            Ok(AnswerOutcome::Accepted) => Event::AnswerTaken { key },
            Ok(AnswerOutcome::TooLate) => Event::AnswerTooLate { key },
            Ok(AnswerOutcome::NotAllowed) => Event::AnswerNotAllowed { key },
            Err(error) => {
                self.log_failure(task, &error, "answer cannot be sent to the job");
                Event::AnswerFailed { key, failure: Failure::from(&error) }
            }
        }
    }

    async fn send_answer(
        &self,
        task: &Task,
        handle: &taskbridge_sdk::JobHandle,
        task_question: &TaskQuestion,
        answer: &Answer,
    ) -> Result<AnswerOutcome> {
        let by = task_question.answered_as.as_ref().or(task.origin.on_behalf_of.as_ref());
        let question = &task_question.question.id;
        self.call(task, Error::unavailable, |backend| async move {
            match backend.abilities().questions {
                Some(questions) => questions.answer_for(handle, question, answer, by).await,
                // The backend was replaced by one whose jobs cannot be answered.
                None => Ok(AnswerOutcome::TooLate),
            }
        })
        .await
    }

    /// Makes one call to the task's engine, which times out after half a lease, and records whether the
    /// engine answered. The caller must have a call permit.
    async fn call<T, F>(
        &self,
        task: &Task,
        timeout_error: fn(String) -> Error,
        make: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = self.engines.call(&task.backend, self.settings.lease / 2, timeout_error, make).await;
        self.engines.record_action_result(&task.backend, answer.as_ref().err());
        answer
    }

    fn job_spec(&self, task: &Task, spec: &Spec, may_exist: bool) -> Result<JobSpec> {
        let opened = self.writer.tools.open(spec)?;
        Ok(JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: opened.arguments,
            files: opened.files,
            may_exist,
            first_attempt_at: first_attempt_at(task),
            trace: task.origin.trace.clone(),
            on_behalf_of: task.origin.on_behalf_of.clone(),
        })
    }

    /// Logs errors that only the operator can fix at error level, and others at debug level.
    fn log_failure(&self, task: &Task, error: &Error, what: &str) {
        use taskbridge_sdk::ErrorKind::{Config, Denied};
        if matches!(error.kind(), Denied | Config) {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, cause, "{what}");
        } else {
            tracing::debug!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, "{what}");
        }
    }
}

/// Returns when the first attempt was committed that may have reached the engine. Older rows do not record
/// it, and no attempt is earlier than the row.
fn first_attempt_at(task: &Task) -> Timestamp {
    match &task.job {
        Job::Starting { first_attempt_at: Some(at), .. } => *at,
        _ => task.created_at,
    }
}
