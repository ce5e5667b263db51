//! Optional abilities of this backend: it can answer questions of jobs, and read their logs and artifacts.

use std::time::Duration;

use taskbridge_sdk::{
    Answer, ArtifactData, Artifacts, JobHandle, LogRequest, LogText, Logs, Questions, Result, Taken,
    async_trait,
};

use crate::backend::Local;
use crate::job_dir::JobDir;
use crate::{artifacts, observe, questions};

#[async_trait]
impl Questions for Local {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        let (question, answer) = (question.to_owned(), answer.clone());
        let hand_over = move |dir: &JobDir| questions::answer(dir, &question, &answer);
        Ok(self.within(handle, hand_over).await?.unwrap_or(Taken::TooLate))
    }

    fn list_lag(&self) -> Duration {
        questions::LIST_LAG
    }
}

#[async_trait]
impl Logs for Local {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let (request, kept) = (request.clone(), self.setup.config.max_output_bytes.get());
        Ok(self.within(handle, move |dir| observe::tail(dir, &request, kept)).await?.unwrap_or_default())
    }
}

#[async_trait]
impl Artifacts for Local {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let name = name.to_owned();
        let read = move |dir: &JobDir| Ok(artifacts::read(&dir.provided_path("artifacts"), &name, max_bytes));
        self.within(handle, read).await?.unwrap_or(Ok(None))
    }
}
