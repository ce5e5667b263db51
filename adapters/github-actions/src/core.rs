//! [`Actions`]: the connection that every ability of this backend shares. All that it keeps about runs may be
//! lost.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{ConnectContext, Error, GroupKey, JobHandle, OnBehalfOf, Result, Secret, one_line};
use tokio::time::Instant;

use crate::config::{Config, Discover};
use crate::driver::api::Api;
use crate::driver::callers::{AuthenticatedClient, CallerClients};
use crate::driver::credentials::CredentialKind;
use crate::driver::error::RetrySafety;
use crate::driver::links::Links;
use crate::driver::{client, workflow};
use crate::identity::engine::Identity;
use crate::identity::handle::RunHandle;
use crate::store::list_cache::RunListCache;
use crate::store::pending_ends::PendingEnds;
use crate::store::progress::ProgressTracker;

/// Maximum number of runs that are recorded as polled here. Beyond it, the record starts anew.
const MAX_POLLED_RUNS: usize = 100_000;

/// GitHub Actions as a backend.
pub(crate) struct Actions {
    /// Name of the backend in the config.
    pub(crate) name: String,
    pub(crate) api: Api,
    /// Address of GitHub's web pages.
    pub(crate) web_url: String,
    /// `None` if all calls use the backend's own credential.
    pub(crate) caller_clients: Option<CallerClients>,
    pub(crate) credential_kind: CredentialKind,
    pub(crate) webhook_secret: Option<Secret>,
    pub(crate) links: Links,
    pub(crate) list_cache: RunListCache,
    pub(crate) progress_tracker: ProgressTracker,
    /// Repository for targets that name none.
    pub(crate) repository: Option<String>,
    pub(crate) identity: Identity,
    /// Filter of discovery.
    pub(crate) discovery_filter: Discover,
    pub(crate) call_timeout: Duration,
    /// How long the server waits for a poll.
    pub(crate) poll_timeout: Duration,
    force_cancel_after: Duration,
    /// True once this GitHub refused to return the run id of a dispatch. Then no dispatch requests it again.
    pub(crate) omits_run_details: AtomicBool,
    /// Text about the usual duration of the runs of a group.
    pub(crate) usual_durations: Mutex<HashMap<GroupKey, String>>,
    /// When the files and the default branch that starts of a workflow need were last read ahead, by its
    /// group.
    pub(crate) prefetched_at: Mutex<HashMap<GroupKey, Instant>>,
    /// Jobs of each run that this process polls.
    polled_jobs: Mutex<HashMap<u64, Vec<JobHandle>>>,
    /// Runs whose cancellation this process requested, with the time of the last request and the person.
    pub(crate) cancel_requests: Mutex<HashMap<u64, (Instant, Option<OnBehalfOf>)>>,
    /// Ends of attempts that are not reported yet, because parts of them could not be read.
    pub(crate) pending_ends: PendingEnds,
    /// Repositories as GitHub knows them, by their names in the config.
    repositories: Mutex<HashMap<String, KnownRepository>>,
    /// When this process last reviewed an environment of a run. GitHub may list it for a moment longer.
    pub(crate) recent_reviews: Mutex<HashMap<(u64, u64), Instant>>,
}

/// Repository as GitHub knows it.
#[derive(Clone, Debug)]
pub(crate) struct KnownRepository {
    /// Current name: `owner/name`.
    pub(crate) name: String,
    pub(crate) id: u64,
}

impl Actions {
    pub(crate) async fn connect(config: Config, context: &ConnectContext) -> Result<Self> {
        let backend = Self {
            name: context.name.clone(),
            credential_kind: CredentialKind::from_config(&config),
            caller_clients: CallerClients::from_config(&config)?,
            api: Api::new(client::connect(&config)?, client::api_url(&config)?, config.call_timeout),
            web_url: client::web_url(&client::api_url(&config)?),
            links: Links::new(&config)?,
            identity: Identity::new(&config.api, config.repository.is_some()),
            list_cache: RunListCache::default(),
            progress_tracker: ProgressTracker::new(config.progress_calls_per_minute),
            webhook_secret: config.webhook_secret,
            repository: config.repository,
            discovery_filter: config.discover.unwrap_or_default(),
            call_timeout: config.call_timeout,
            poll_timeout: context.call_timeout,
            force_cancel_after: config.force_cancel_after,
            omits_run_details: AtomicBool::new(false),
            usual_durations: Mutex::default(),
            prefetched_at: Mutex::default(),
            polled_jobs: Mutex::default(),
            cancel_requests: Mutex::default(),
            pending_ends: PendingEnds::default(),
            repositories: Mutex::default(),
            recent_reviews: Mutex::default(),
        };
        // An invalid token or an unknown repository is found here. A temporary failure does not prevent the
        // server from starting.
        match backend.resolve_identity().await {
            Err(error) if !error.kind().is_transient() => Err(error.while_connecting()),
            _ => Ok(backend),
        }
    }

    /// Reads the id of the configured repository, unless it is known.
    pub(crate) async fn resolve_identity(&self) -> Result<()> {
        match &self.repository {
            Some(repository) if self.identity.text().is_none() => {
                self.default_branch(Duration::ZERO, repository).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Returns the default branch of a repository. `max_age` is the maximum age of the cached response.
    pub(crate) async fn default_branch(&self, max_age: Duration, repository: &str) -> Result<String> {
        let current = workflow::fetch_repository(&self.api, max_age, repository).await?;
        if self.repository.as_deref() == Some(repository) {
            self.identity.set_repository_id(current.id);
        }
        let is_renamed = !current.full_name.is_empty() && !current.full_name.eq_ignore_ascii_case(repository);
        let name = if is_renamed { current.full_name } else { repository.to_owned() };
        let known_repository = KnownRepository { name, id: current.id };
        self.repositories.lock().insert(repository.to_owned(), known_repository);
        Ok(current.default_branch)
    }

    /// Returns a configured repository as GitHub last described it. It may have been renamed.
    pub(crate) fn known_repository(&self, repository: &str) -> Option<KnownRepository> {
        self.repositories.lock().get(repository).cloned()
    }

    /// Returns the current name of a configured repository, and its id, as far as they are known.
    pub(crate) fn current_name_and_id(&self, repository: &str) -> (String, Option<u64>) {
        let known_repository = self.known_repository(repository);
        known_repository.map_or((repository.to_owned(), None), |known_repository| {
            (known_repository.name, Some(known_repository.id))
        })
    }

    /// Returns the credential for requests on behalf of a person.
    ///
    /// # Errors
    /// `Denied` without a person, or if their token is unknown.
    pub(crate) fn client_for(&self, on_behalf_of: Option<&OnBehalfOf>) -> Result<&AuthenticatedClient> {
        let Some(clients) = &self.caller_clients else { return Ok(&self.api.own_client) };
        let on_behalf_of = on_behalf_of.ok_or_else(|| {
            Error::denied(
                "the caller is unknown, so there is no GitHub token to act with (`per_caller`), and no request was sent; \
                 authenticate callers by API keys or tokens",
            )
        })?;
        clients.of(on_behalf_of).ok_or_else(|| {
            Error::denied(format!(
                "there is no GitHub token for `{}`, so no request was sent: add one to `per_caller.tokens`",
                one_line(&on_behalf_of.id())
            ))
        })
    }

    /// Forces the cancellation of a run that continues `force_cancel_after` after this process last requested
    /// it. A failure is ignored: the next polls show whether the run ends, and the request is repeated after
    /// the same time.
    pub(crate) async fn force_cancel_when_due(&self, run_handle: &RunHandle) {
        let due_request = {
            let mut cancel_requests = self.cancel_requests.lock();
            match cancel_requests.get_mut(&run_handle.run) {
                Some((at, on_behalf_of)) if at.elapsed() >= self.force_cancel_after => {
                    *at = Instant::now();
                    Some(on_behalf_of.clone())
                }
                _ => None,
            }
        };
        if let Some(on_behalf_of) = due_request
            && let Ok(by) = self.client_for(on_behalf_of.as_ref())
        {
            let path = format!("{}/force-cancel", run_handle.path());
            drop(self.api.post(by, "force-cancel", RetrySafety::Safe, &path, None).await);
        }
    }

    /// Records that a run is polled.
    pub(crate) fn record_polled(&self, run_handle: &RunHandle) {
        let (mut polled_jobs, job) = (self.polled_jobs.lock(), run_handle.job_handle());
        // Nothing removes runs that other processes poll by now. So the record is cleared when it is full.
        if polled_jobs.len() >= MAX_POLLED_RUNS {
            polled_jobs.clear();
        }
        let jobs = polled_jobs.entry(run_handle.run).or_default();
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }

    /// Returns the jobs of a run that this process polls.
    pub(crate) fn polled_jobs_of(&self, run: u64) -> Vec<JobHandle> {
        self.polled_jobs.lock().get(&run).cloned().unwrap_or_default()
    }

    /// Returns true if this process requested its cancellation.
    pub(crate) fn was_cancelled_here(&self, run: u64) -> bool {
        self.cancel_requests.lock().contains_key(&run)
    }

    pub(crate) fn forget(&self, run: u64) {
        self.pending_ends.forget(run);
        self.polled_jobs.lock().remove(&run);
        self.cancel_requests.lock().remove(&run);
        self.progress_tracker.forget(run);
    }
}
