//! The engine calls of actions: each function makes at most one call and returns its result as an event. It
//! must not write a row.

use std::sync::Arc;

use taskbridge_sdk::{Answer, Backend, Error, JobSpec, Result, Started, Subject, Taken};

use crate::tasks::machine::{Event, Failure};
use crate::tasks::reconciler::Core;
use crate::tasks::task::{Job, QuestionStatus, Spec, Task, TaskQuestion};

impl Core {
    /// Starts the job. If our own checks refuse the start and an earlier attempt may have reached the engine,
    /// searches for the job instead.
    pub(super) async fn start(&self, task: &Task, may_exist: bool) -> Event {
        let Job::Starting { spec, attempts, .. } = &task.job else { return Event::Nothing };
        let attempt = *attempts;
        let sent = match self.job(task, spec, may_exist) {
            Ok(job) => {
                let late = if may_exist { Error::unavailable } else { Error::uncertain };
                self.call(task, late, |backend| async move { backend.start(&job).await }).await
            }
            // Our own refusal is no evidence about a job that an earlier attempt may have started.
            Err(refusal) if may_exist => match self.look_for(task, spec).await {
                Ok(Some(started)) => Ok(started),
                Ok(None) => Err(Error::uncertain(refusal.to_string())),
                Err(error) => Err(error),
            },
            Err(refusal) => Err(refusal),
        };
        match sent {
            Ok(started) => self.started(task, started).await,
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be started");
                Event::StartFailed { attempt, may_exist, failure: Failure::from(&error) }
            }
        }
    }

    pub(super) async fn find(&self, task: &Task) -> Event {
        let Job::Starting { spec, .. } = &task.job else { return Event::Nothing };
        match self.look_for(task, spec).await {
            Ok(Some(started)) => self.started(task, started).await,
            Ok(None) => Event::NotFound,
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be looked for");
                Event::FindFailed(Failure::from(&error))
            }
        }
    }

    /// Searches for the job by its key. The sensitive arguments are not needed, so nothing is unsealed.
    async fn look_for(&self, task: &Task, spec: &Spec) -> Result<Option<Started>> {
        let job = JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: spec.arguments.clone(),
            files: Vec::new(),
            may_exist: true,
            trace: None,
            on_behalf_of: task.origin.on_behalf_of.clone(),
        };
        self.call(task, Error::unavailable, |backend| async move { backend.find(&job).await }).await
    }

    pub(super) async fn poll(&self, task: &Task) -> Event {
        let Job::Open { handle, started_at, .. } = &task.job else { return Event::Nothing };
        let (began, list_lag) = (self.ledger.now(), self.engines.list_lag(&task.backend));
        let subject = Subject { handle: handle.clone(), watched: true, age: began.since(*started_at) };
        let seen =
            self.call(task, Error::unavailable, |backend| async move { backend.observe(handle).await });
        match subject.confirm(self.engines.start_lag(&task.backend), seen.await) {
            Ok(seen) => Event::Observed { seen: self.judged(&task.tool, seen).await, began, list_lag },
            Err(error) => Event::LookFailed(Failure::from(&error)),
        }
    }

    pub(super) async fn cancel(&self, task: &Task) -> Event {
        let Some(handle) = task.handle() else { return Event::Nothing };
        let other = task.cancel.as_ref().and_then(|cancel| cancel.on_behalf_of.as_ref());
        let whom = other.or(task.origin.on_behalf_of.as_ref());
        let asked = self
            .call(task, Error::unavailable, |backend| async move { backend.cancel_for(handle, whom).await });
        match asked.await {
            Ok(()) => Event::CancelTaken { start_lag: self.engines.start_lag(&task.backend) },
            Err(error) => {
                self.tell_operator(task, &error, "a job could not be cancelled");
                Event::CancelFailed(Failure::from(&error))
            }
        }
    }

    pub(super) async fn answer(&self, task: &Task, key: &str) -> Event {
        let asked = task.questions.iter().find(|asked| asked.key == key);
        let (Some(handle), Some(asked)) = (task.handle(), asked) else { return Event::Nothing };
        let QuestionStatus::Answered { answer, .. } = &asked.status else { return Event::Nothing };
        let key = key.to_owned();
        match self.hand_over(task, handle, asked, answer).await {
            Ok(Taken::Accepted) => Event::AnswerTaken { key },
            Ok(Taken::TooLate) => Event::AnswerTooLate { key },
            Ok(Taken::NotAllowed) => Event::AnswerNotAllowed { key },
            Err(error) => {
                self.tell_operator(task, &error, "an answer could not be handed over");
                Event::AnswerFailed { key, failure: Failure::from(&error) }
            }
        }
    }

    async fn hand_over(
        &self,
        task: &Task,
        handle: &taskbridge_sdk::JobHandle,
        asked: &TaskQuestion,
        answer: &Answer,
    ) -> Result<Taken> {
        let by = asked.answered_as.as_ref().or(task.origin.on_behalf_of.as_ref());
        let question = &asked.question.id;
        self.call(task, Error::unavailable, |backend| async move {
            match backend.questions() {
                Some(questions) => questions.answer_for(handle, question, answer, by).await,
                // The backend was replaced by one whose jobs cannot be answered.
                None => Ok(Taken::TooLate),
            }
        })
        .await
    }

    /// Makes one call to the task's engine, which times out after half a lease, and records whether the
    /// engine answered. The caller must have a call permit.
    async fn call<T, F>(
        &self,
        task: &Task,
        late: fn(String) -> Error,
        make: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = self.engines.call(&task.backend, self.settings.lease / 2, late, make).await;
        self.engines.note(&task.backend, answer.as_ref().err());
        answer
    }

    fn job(&self, task: &Task, spec: &Spec, may_exist: bool) -> Result<JobSpec> {
        let opened = self.ledger.tools.open(spec)?;
        Ok(JobSpec {
            key: task.key.clone(),
            target: spec.target.clone(),
            arguments: opened.arguments,
            files: opened.files,
            may_exist,
            trace: task.origin.trace.clone(),
            on_behalf_of: task.origin.on_behalf_of.clone(),
        })
    }

    /// Logs errors that only the operator can fix at error level, and others at debug level.
    fn tell_operator(&self, task: &Task, error: &Error, what: &str) {
        use taskbridge_sdk::ErrorKind::{Config, Denied};
        if matches!(error.kind(), Denied | Config) {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, cause, "{what}");
        } else {
            tracing::debug!(task = ?task.id, tool = task.tool, backend = task.backend, kind = %error.kind(), %error, "{what}");
        }
    }
}
