//! Optional abilities of this backend: it can answer questions of jobs, and read their logs and artifacts.

use std::time::Duration;

use taskbridge_sdk::{
    Answer, AnswerOutcome, ArtifactData, Artifacts, JobHandle, LogRequest, LogText, Logs, Questions, Result,
    async_trait,
};

use crate::backend::Local;
use crate::observe::poll;
use crate::questions;
use crate::result::artifacts;
use crate::store::job_dir::JobDir;

#[async_trait]
impl Questions for Local {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let (question, answer) = (question.to_owned(), answer.clone());
        let write_answer = move |dir: &JobDir| questions::answer(dir, &question, &answer);
        Ok(self.with_job_dir(handle, write_answer).await?.unwrap_or(AnswerOutcome::TooLate))
    }

    fn list_lag(&self) -> Duration {
        questions::LIST_LAG
    }
}

#[async_trait]
impl Logs for Local {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let (request, max_bytes) = (request.clone(), self.setup.config.max_output_bytes.get());
        Ok(self
            .with_job_dir(handle, move |dir| poll::tail(dir, &request, max_bytes))
            .await?
            .unwrap_or_default())
    }
}

#[async_trait]
impl Artifacts for Local {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let name = name.to_owned();
        let read = move |dir: &JobDir| Ok(artifacts::read(&dir.provided_path("artifacts"), &name, max_bytes));
        self.with_job_dir(handle, read).await?.unwrap_or(Ok(None))
    }
}
