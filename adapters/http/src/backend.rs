//! What the server calls. It must not keep anything: [`crate::core`] does.

use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Backend, GroupKey, JobHandle, JobSpec, Observation, OnBehalfOf, Result, Started, Subject,
    async_trait,
};

use crate::core::Http;

/// How much earlier than promised a key counts as forgotten: clocks differ.
const KEY_MARGIN: u32 = 10;

#[async_trait]
impl Backend for Http {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.start_job(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.poll(handle, true, None).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.stop(handle, None).await
    }

    async fn cancel_for(&self, handle: &JobHandle, by: Option<&OnBehalfOf>) -> Result<()> {
        self.stop(handle, by).await
    }

    fn start_lag(&self) -> Duration {
        self.config.start_lag
    }

    fn key_lifetime(&self) -> Option<Duration> {
        self.config.start.key_lasts.map(|lasts| lasts - lasts / KEY_MARGIN)
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.group_of(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll_group(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        let config = &self.config;
        Abilities {
            questions: (config.ask.is_some() && config.answer.is_some()).then_some(self as _),
            logs: config.log.as_ref().map(|_| self as _),
            artifacts: config.artifacts.as_ref().map(|_| self as _),
            discovery: config.discover.as_ref().map(|_| self as _),
            checkup: Some(self),
            hooks: config.hook.as_ref().map(|_| self as _),
            ..Abilities::default()
        }
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }
}
