//! What the server calls. It must not keep anything: [`crate::core`] does.

use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Backend, Budget, GroupKey, JobHandle, JobSpec, Observation, OnBehalfOf, Result, Started,
    Subject, async_trait,
};
use tokio::time::Instant;

use crate::core::Actions;
use crate::driver::error::RetrySafety;
use crate::identity::handle::RunHandle;

/// How long a dispatched run may be unknown to reads of GitHub.
const START_LAG: Duration = Duration::from_secs(60);

#[async_trait]
impl Backend for Actions {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.start_job(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.poll_run(handle, true).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.cancel_for(handle, None).await
    }

    async fn cancel_for(&self, handle: &JobHandle, on_behalf_of: Option<&OnBehalfOf>) -> Result<()> {
        let Some(run_handle) = RunHandle::parse(handle).filter(|run_handle| !run_handle.attached) else {
            return Ok(());
        };
        let path = format!("{}/cancel", run_handle.path());
        let by = self.client_for(on_behalf_of)?;
        match self.api.post(by, "cancel", RetrySafety::Safe, &path, None).await {
            Ok(_) => {
                self.list_cache.mark_changed(run_handle.run, Instant::now());
                let now = Instant::now();
                self.cancel_requests
                    .lock()
                    .entry(run_handle.run)
                    .or_insert_with(|| (now, on_behalf_of.cloned()));
                Ok(())
            }
            // It has ended.
            Err(failure) if failure.has_status(409) => Ok(()),
            Err(failure) if failure.has_status(404) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    fn start_lag(&self) -> Duration {
        START_LAG
    }

    /// Groups runs by workflow: one list reports on all of them.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        RunHandle::parse(handle).map_or_else(|| GroupKey::new(""), |run_handle| run_handle.group())
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        // GitHub may have been unreachable when the server started.
        let _ = self.resolve_identity().await;
        self.poll_group(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: Some(self),
            artifacts: Some(self),
            discovery: Some(self),
            checkup: Some(self),
            hooks: self.webhook_secret.as_ref().map(|_| self as _),
            ..Abilities::default()
        }
    }

    fn identity(&self) -> Option<String> {
        self.identity.text()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.api.own_client.limits.budget().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::standin::{Repository, Standin};

    #[tokio::test]
    async fn identity_survives_new_credentials() {
        let repository = |id| Standin::new(Repository { id, ..Repository::default() });
        let (one, other) = (repository(41), repository(42));
        let identity = one.connect("T0KEN").await.identity().unwrap();
        assert!(identity.starts_with("github-actions 127.0.0.1:") && identity.ends_with("/41"), "{identity}");
        assert_eq!(one.connect("another").await.identity().unwrap(), identity);
        assert_ne!(other.connect("T0KEN").await.identity().unwrap(), identity);
    }

    /// The API and the targets of its links use the same proxy.
    #[tokio::test]
    async fn proxy_is_used_for_all() {
        let standin = Standin::new(Repository { id: 41, ..Repository::default() });
        let config =
            serde_json::json!({"api": "http://github.test", "token": "T", "proxy": standin.address()});
        let backend = standin.connect_with(config).await;
        assert!(backend.identity().unwrap().ends_with("github.test/41"));
        let body =
            backend.links.open(&backend.api, "the log", "/repos/o/r/actions/jobs/3/logs").await.unwrap();
        assert_eq!(body.read_all(100).await.unwrap().unwrap(), b"\"printed\"");
        let hosts = standin.repository.lock().hosts.clone();
        assert_eq!(hosts, ["github.test", "github.test", "blobs.test"]);
    }

    /// Another repository has taken the name. The run is found by the id of its own repository.
    #[tokio::test]
    async fn run_is_found_by_repository_id() {
        let standin = Standin::new(Repository { id: 42, ..Repository::default() });
        let backend = standin.connect("T").await;
        let observation = backend.observe(&JobHandle::new("o/r/w.yml@41/9/1")).await.unwrap();
        assert_eq!(observation.state, taskbridge_sdk::JobState::Running);
        let observation = backend.observe(&JobHandle::new("o/r/w.yml@41/8/1")).await.unwrap();
        assert_eq!(observation.state, taskbridge_sdk::JobState::Gone);
    }

    #[tokio::test]
    async fn identity_is_learned_after_outage() {
        let standin = Standin::new(Repository { id: 41, is_unavailable: true, ..Repository::default() });
        let backend = standin.connect("token").await;
        assert_eq!(backend.identity(), None);
        standin.repository.lock().is_unavailable = false;
        backend.observe_all(&GroupKey::new("o/r/w.yml"), &[]).await;
        assert!(backend.identity().unwrap().ends_with("/41"));
    }
}
