//! Connected backend that the server calls. All that it keeps about runs may be lost.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{
    Artifacts, Backend, Budget, Checkup, Connect, Discovery, Error, GroupKey, Hooks, JobHandle, JobSpec,
    Logs, Observation, OnBehalfOf, Questions, Result, Secret, Started, Subject, async_trait,
};
use tokio::time::Instant;

use crate::api::Api;
use crate::caller_credentials::CallerClients;
use crate::client;
use crate::config::{Config, Discover};
use crate::credential::Credential;
use crate::end::PendingEnd;
use crate::failure::Repeat;
use crate::handle::RunHandle;
use crate::identity::Identity;
use crate::links::Links;
use crate::list_cache::RunListCache;
use crate::progress::ProgressTracker;

/// How long a dispatched run may be unknown to reads of GitHub.
const START_LAG: Duration = Duration::from_secs(60);

/// Maximum number of runs that are recorded as polled here. Beyond it, the record starts anew.
const MOST_LOOKED_AT: usize = 100_000;

/// GitHub Actions as a backend.
pub(crate) struct Actions {
    /// Name of the backend in the config.
    pub(crate) name: String,
    pub(crate) api: Api,
    /// Address of GitHub's web pages.
    pub(crate) web: String,
    /// `None` if all calls use the backend's own credential.
    pub(crate) persons: Option<CallerClients>,
    pub(crate) credential: Credential,
    pub(crate) webhook_secret: Option<Secret>,
    pub(crate) links: Links,
    pub(crate) lists: RunListCache,
    pub(crate) watch: ProgressTracker,
    /// Repository for targets that name none.
    pub(crate) repository: Option<String>,
    identity: Identity,
    /// Filter of discovery.
    pub(crate) wanted: Discover,
    pub(crate) call_timeout: Duration,
    /// How long the server waits for a poll.
    pub(crate) call_limit: Duration,
    force_cancel_after: Duration,
    /// True once this GitHub refused to return the run id of a dispatch. Then no dispatch requests it again.
    pub(crate) keeps_run_details: AtomicBool,
    /// Text about the usual duration of the runs of a group.
    pub(crate) usual: Mutex<HashMap<GroupKey, String>>,
    /// When the files and the default branch that starts of a workflow need were last read ahead, by its
    /// group.
    pub(crate) read: Mutex<HashMap<GroupKey, Instant>>,
    /// Jobs of each run that this process polls.
    looked_at: Mutex<HashMap<u64, Vec<JobHandle>>>,
    /// Runs whose cancellation this process requested, with the time of the last request and the person.
    cancelled: Mutex<HashMap<u64, (Instant, Option<OnBehalfOf>)>>,
    /// Ends of attempts that are not reported yet, because parts of them could not be read.
    pub(crate) unread: Mutex<HashMap<(u64, u64), PendingEnd>>,
    /// Repositories as GitHub knows them, by their names in the config.
    repositories: Mutex<HashMap<String, KnownRepository>>,
    /// When this process last reviewed an environment of a run. GitHub may list it for a moment longer.
    pub(crate) reviewed: Mutex<HashMap<(u64, u64), Instant>>,
}

/// Repository as GitHub knows it.
#[derive(Clone, Debug)]
pub(crate) struct KnownRepository {
    /// Current name: `owner/name`.
    pub(crate) name: String,
    pub(crate) id: u64,
}

impl Actions {
    pub(crate) async fn connect(config: Config, context: &Connect) -> Result<Self> {
        let backend = Self {
            name: context.name.clone(),
            credential: Credential::of(&config),
            persons: CallerClients::of(&config)?,
            api: Api::new(client::connect(&config)?, client::api(&config)?, config.call_timeout),
            web: client::web(&client::api(&config)?),
            links: Links::new(&config)?,
            identity: Identity::new(&config.api, config.repository.is_some()),
            lists: RunListCache::default(),
            watch: ProgressTracker::new(config.progress_calls_per_minute),
            webhook_secret: config.webhook_secret,
            repository: config.repository,
            wanted: config.discover.unwrap_or_default(),
            call_timeout: config.call_timeout,
            call_limit: context.call_limit,
            force_cancel_after: config.force_cancel_after,
            keeps_run_details: AtomicBool::new(false),
            usual: Mutex::default(),
            read: Mutex::default(),
            looked_at: Mutex::default(),
            cancelled: Mutex::default(),
            unread: Mutex::default(),
            repositories: Mutex::default(),
            reviewed: Mutex::default(),
        };
        // An invalid token or an unknown repository is found here. A temporary failure does not prevent the
        // server from starting.
        match backend.learn_identity().await {
            Err(error) if !may_pass(&error) => Err(error.while_connecting()),
            _ => Ok(backend),
        }
    }

    /// Reads the id of the configured repository, unless it is known.
    async fn learn_identity(&self) -> Result<()> {
        match &self.repository {
            Some(repository) if self.identity.text().is_none() => {
                self.default_branch(Duration::ZERO, repository).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Returns the default branch of a repository. `age` is the maximum age of the cached response.
    pub(crate) async fn default_branch(&self, age: Duration, repository: &str) -> Result<String> {
        let found = crate::workflow::repository(&self.api, age, repository).await?;
        if self.repository.as_deref() == Some(repository) {
            self.identity.learn(found.id);
        }
        let is_renamed = !found.full_name.is_empty() && !found.full_name.eq_ignore_ascii_case(repository);
        let name = if is_renamed { found.full_name } else { repository.to_owned() };
        let known = KnownRepository { name, id: found.id };
        self.repositories.lock().insert(repository.to_owned(), known);
        Ok(found.default_branch)
    }

    /// Returns a configured repository as GitHub last described it. It may have been renamed.
    pub(crate) fn known(&self, repository: &str) -> Option<KnownRepository> {
        self.repositories.lock().get(repository).cloned()
    }

    /// Returns the current name of a configured repository, and its id, as far as they are known.
    pub(crate) fn now_called(&self, repository: &str) -> (String, Option<u64>) {
        let known = self.known(repository);
        known.map_or((repository.to_owned(), None), |known| (known.name, Some(known.id)))
    }

    /// Forces the cancellation of a run that continues `force_cancel_after` after this process last requested
    /// it. A failure is ignored: the next polls show whether the run ends, and the request is repeated after
    /// the same time.
    pub(crate) async fn force_cancel_when_due(&self, place: &RunHandle) {
        let due = {
            let mut cancelled = self.cancelled.lock();
            match cancelled.get_mut(&place.run) {
                Some((at, whom)) if at.elapsed() >= self.force_cancel_after => {
                    *at = Instant::now();
                    Some(whom.clone())
                }
                _ => None,
            }
        };
        if let Some(whom) = due
            && let Ok(by) = self.client_for(whom.as_ref())
        {
            let path = format!("{}/force-cancel", place.path());
            drop(self.api.post(by, "force-cancel", Repeat::Safe, &path, None).await);
        }
    }

    /// Records that a run is polled.
    pub(crate) fn note_looked_at(&self, place: &RunHandle) {
        let (mut looked_at, job) = (self.looked_at.lock(), place.handle());
        // Nothing removes runs that other processes poll by now. So the record is cleared when it is full.
        if looked_at.len() >= MOST_LOOKED_AT {
            looked_at.clear();
        }
        let jobs = looked_at.entry(place.run).or_default();
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }

    /// Returns the jobs of a run that this process polls.
    pub(crate) fn jobs_looked_at(&self, run: u64) -> Vec<JobHandle> {
        self.looked_at.lock().get(&run).cloned().unwrap_or_default()
    }

    /// Returns true if this process requested its cancellation.
    pub(crate) fn was_cancelled_here(&self, run: u64) -> bool {
        self.cancelled.lock().contains_key(&run)
    }

    pub(crate) fn forget(&self, run: u64) {
        self.unread.lock().retain(|(ended, _), _| *ended != run);
        self.looked_at.lock().remove(&run);
        self.cancelled.lock().remove(&run);
        self.watch.forget(run);
    }
}

fn may_pass(error: &Error) -> bool {
    use taskbridge_sdk::ErrorKind::{Limited, Unavailable};
    matches!(error.kind(), Limited { .. } | Unavailable)
}

#[async_trait]
impl Backend for Actions {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.begin(job).await
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

    async fn cancel_for(&self, handle: &JobHandle, whom: Option<&OnBehalfOf>) -> Result<()> {
        let Some(place) = RunHandle::parse(handle).filter(|place| !place.attached) else { return Ok(()) };
        let path = format!("{}/cancel", place.path());
        let by = self.client_for(whom)?;
        match self.api.post(by, "cancel", Repeat::Safe, &path, None).await {
            Ok(_) => {
                self.lists.mark_changed(place.run, Instant::now());
                let now = Instant::now();
                self.cancelled.lock().entry(place.run).or_insert_with(|| (now, whom.cloned()));
                Ok(())
            }
            // It has ended.
            Err(failure) if failure.is(409) => Ok(()),
            Err(failure) if failure.is(404) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    fn start_lag(&self) -> Duration {
        START_LAG
    }

    /// Groups runs by workflow: one list reports on all of them.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        RunHandle::parse(handle).map_or_else(|| GroupKey::new(""), |place| place.group())
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        // GitHub may have been unreachable when the server started.
        let _ = self.learn_identity().await;
        self.poll_group(group, jobs).await
    }

    fn questions(&self) -> Option<&dyn Questions> {
        Some(self)
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(self)
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        Some(self)
    }

    fn discovery(&self) -> Option<&dyn Discovery> {
        Some(self)
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }

    fn identity(&self) -> Option<String> {
        self.identity.text()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.api.own.limits.budget().into_iter().collect()
    }

    fn hooks(&self) -> Option<&dyn Hooks> {
        self.webhook_secret.as_ref().map(|_| self as &dyn Hooks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::{Repository, Standin};

    #[tokio::test]
    async fn identity_survives_new_credentials() {
        let repository = |id| Standin::new(Repository { id, ..Repository::default() });
        let (one, other) = (repository(41), repository(42));
        let known = one.connect("T0KEN").await.identity().unwrap();
        assert!(known.starts_with("github-actions 127.0.0.1:") && known.ends_with("/41"), "{known}");
        assert_eq!(one.connect("another").await.identity().unwrap(), known);
        assert_ne!(other.connect("T0KEN").await.identity().unwrap(), known);
    }

    /// The API and the targets of its links use the same proxy.
    #[tokio::test]
    async fn proxy_is_used_for_all() {
        let standin = Standin::new(Repository { id: 41, ..Repository::default() });
        let config =
            serde_json::json!({"api": "http://github.test", "token": "T", "proxy": standin.address()});
        let backend = standin.connect_as(config).await;
        assert!(backend.identity().unwrap().ends_with("github.test/41"));
        let body =
            backend.links.open(&backend.api, "the log", "/repos/o/r/actions/jobs/3/logs").await.unwrap();
        assert_eq!(body.all(100).await.unwrap().unwrap(), b"\"printed\"");
        let hosts = standin.repository.lock().hosts.clone();
        assert_eq!(hosts, ["github.test", "github.test", "blobs.test"]);
    }

    /// Another repository has taken the name. The run is found by the id of its own repository.
    #[tokio::test]
    async fn run_is_found_by_repository_id() {
        let standin = Standin::new(Repository { id: 42, ..Repository::default() });
        let backend = standin.connect("T").await;
        let seen = backend.observe(&JobHandle::new("o/r/w.yml@41/9/1")).await.unwrap();
        assert_eq!(seen.state, taskbridge_sdk::JobState::Running);
        let seen = backend.observe(&JobHandle::new("o/r/w.yml@41/8/1")).await.unwrap();
        assert_eq!(seen.state, taskbridge_sdk::JobState::Gone);
    }

    #[tokio::test]
    async fn identity_is_learned_after_outage() {
        let standin = Standin::new(Repository { id: 41, is_away: true, ..Repository::default() });
        let backend = standin.connect("token").await;
        assert_eq!(backend.identity(), None);
        standin.repository.lock().is_away = false;
        backend.observe_all(&GroupKey::new("o/r/w.yml"), &[]).await;
        assert!(backend.identity().unwrap().ends_with("/41"));
    }
}
