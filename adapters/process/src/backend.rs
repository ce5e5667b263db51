//! [`Backend`] of a program, by delegation to the folders beside this file.

use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Backend, GroupKey, JobHandle, JobSpec, Observation, OnBehalfOf, Result, Started, Subject,
    async_trait,
};

use crate::core::Core;
use crate::driver::session::Ability;
use crate::protocol::{CancelParams, ForgetParams};

#[async_trait]
impl Backend for Core {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.start_job(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let jobs = Subject::watched(std::slice::from_ref(handle));
        let mut observations = self.poll(&self.group(handle), &jobs).await;
        observations.pop().unwrap_or_else(|| Err(self.broken("no observation")))
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.cancel_for(handle, None).await
    }

    async fn cancel_for(&self, handle: &JobHandle, by: Option<&OnBehalfOf>) -> Result<()> {
        let params = CancelParams { handle: handle.clone(), by: by.cloned() };
        self.call::<serde_json::Value>("cancel", &params).await.map(drop)
    }

    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        match self.session() {
            Some(session) if session.has(Ability::Forget) => {
                let params = ForgetParams { handle: handle.clone() };
                self.call::<serde_json::Value>("forget", &params).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    fn start_lag(&self) -> Duration {
        self.link.last_session().start_lag
    }

    fn key_lifetime(&self) -> Option<Duration> {
        // The first attempt may have reached the engine late, and the clocks may differ: half is safe.
        self.link.last_session().key_lasts.map(|lasts| lasts / 2)
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        let session = self.link.last_session();
        let separator = session.group_separator.as_deref();
        let group = separator.and_then(|separator| handle.as_str().split_once(separator));
        GroupKey::new(group.map_or("", |(group, _)| group))
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        let session = self.link.last_session();
        Abilities {
            questions: session.has(Ability::Answer).then_some(self as _),
            logs: session.has(Ability::Log).then_some(self as _),
            artifacts: session.has(Ability::Artifact).then_some(self as _),
            wakeups: session.has(Ability::Changed).then_some(self as _),
            discovery: session.has(Ability::Discover).then_some(self as _),
            checkup: session.has(Ability::CheckUp).then_some(self as _),
            // A service can also post its hints.
            hooks: (session.has(Ability::Changed) && self.proof.is_some()).then_some(self as _),
        }
    }

    fn identity(&self) -> Option<String> {
        self.link.last_session().identity.clone()
    }
}
