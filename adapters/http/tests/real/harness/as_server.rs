//! [`AsServer`]: a backend that is called as the server calls it. It must not know the engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taskbridge_sdk::{
    Abilities, Backend, GroupKey, JobHandle, JobSpec, JobState, Observation, Result, Started, Subject,
    async_trait,
};

/// Calls a backend as the server does: a new job is gone only after the start lag, and a cancellation is
/// repeated until the job has ended. Dagu lists a run after it accepted it, and forgets to stop one whose process
/// begins. Airflow may answer 500, because its database ends one of two transactions that wait for each other.
pub(crate) struct AsServer(pub(crate) Arc<dyn Backend>);

#[async_trait]
impl Backend for AsServer {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let started = self.0.start(job).await?;
        let deadline = Instant::now() + self.start_lag();
        while Instant::now() < deadline
            && self.0.observe(&started.handle).await.is_ok_and(|seen| seen.state == JobState::Gone)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(started)
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.0.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.0.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match self.0.cancel(handle).await {
                Err(error) if !error.kind().is_transient() => return Err(error),
                _ => tokio::time::sleep(Duration::from_millis(500)).await,
            }
            match self.0.observe(handle).await {
                Ok(seen) if !seen.state.has_ended() && Instant::now() < deadline => {}
                _ => return Ok(()),
            }
        }
    }

    fn start_lag(&self) -> Duration {
        self.0.start_lag()
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.0.group(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.0.observe_all(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        self.0.abilities()
    }

    fn identity(&self) -> Option<String> {
        self.0.identity()
    }
}
