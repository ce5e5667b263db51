//! [`Slurm`]: the connection that every ability of this backend shares. It must not keep data about jobs that
//! cannot be read again from their folders, the controller or the accounting database.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{ConnectContext, Error, JobHandle, Result, Timestamp};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::config::discover::Discover;
use crate::config::environment::VariableName;
use crate::config::{Config, Person};
use crate::driver::command::Commands;
use crate::driver::process::OTHER_USER_UMASK;
use crate::driver::rest::Rest;
use crate::driver::{Cluster, Driver};
use crate::identity::handle::{JobId, SlurmHandle};
use crate::identity::unix::UnixUser;
use crate::store::disk::{Disk, Disks};
use crate::store::feasibility_cache::FeasibilityCache;
use crate::store::folder::Folder;
use crate::store::job_cache::JobCache;
use crate::store::plan::Plan;
use crate::store::queue_cache::QueueCache;
use crate::store::{jobs_folder, sweep};

/// Interval between two removals of old folders.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// Maximum number of plans cached in memory.
const MAX_PLANS: usize = 20_000;

/// How long a start waits for the feasibility test, at most.
const FEASIBILITY_TIMEOUT: Duration = Duration::from_secs(5);

/// Facts from the config and from the cluster that a submission needs.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config_dir: PathBuf,
    pub(crate) working_dir: Option<PathBuf>,
    pub(crate) env: BTreeMap<VariableName, String>,
    /// Maximum number of tasks in an array, as the cluster reports it.
    pub(crate) max_array: Option<u32>,
    /// The Unix user that jobs run as, if it is not our own user.
    pub(crate) user: Option<UnixUser>,
}

/// The controller's start time, if it is known, and when the cached value expires.
#[derive(Clone, Copy)]
pub(crate) struct ControllerStart {
    pub(crate) at: Option<Timestamp>,
    pub(crate) expires_at: Instant,
}

/// A Slurm cluster as a backend, accessed as one Unix user.
pub(crate) struct Slurm {
    pub(crate) setup: Setup,
    pub(crate) jobs_dir: PathBuf,
    pub(crate) disks: Disks,
    /// Folder for the backend's own state.
    state_dir: PathBuf,
    /// Set once the jobs folder exists.
    jobs_folder_created: OnceCell<()>,
    pub(crate) driver: Box<dyn Driver>,
    /// The cluster's description, once the controller has returned it.
    pub(crate) cluster: OnceCell<Cluster>,
    accounting: Option<bool>,
    pub(crate) accounting_wait: Duration,
    retention: Duration,
    last_sweep: Mutex<Option<Instant>>,
    pub(crate) discover: Option<Discover>,
    pub(crate) queue_cache: QueueCache,
    pub(crate) job_cache: JobCache,
    pub(crate) controller_start: tokio::sync::Mutex<Option<ControllerStart>>,
    plans: Mutex<HashMap<String, Arc<Plan>>>,
    pub(crate) feasibility_cache: FeasibilityCache,
    /// How long a start waits for the feasibility test.
    pub(crate) feasibility_timeout: Duration,
}

impl Slurm {
    /// Connects as our own user, or as `person`.
    pub(crate) async fn connect(
        config: &Config,
        context: &ConnectContext,
        disks: &Disks,
        person: Option<(&Person, UnixUser)>,
    ) -> Result<Self> {
        let jobs_dir = match &config.jobs_dir {
            Some(path) => context.config_dir.join(path),
            None => context.state_dir.join("jobs"),
        };
        let timeout = step_timeout(config, context);
        let driver: Box<dyn Driver> = match (&config.rest, &person) {
            (Some(rest), None) => Box::new(Rest::new(rest, timeout, None)?),
            (Some(rest), Some((person, _))) => {
                Box::new(Rest::new(&rest.for_person(person)?, timeout, Some(OTHER_USER_UMASK))?)
            }
            (None, person) => {
                let user = person.as_ref().map(|(person, _)| person.user.as_str());
                Box::new(Commands::new(config, timeout, user)?)
            }
        };
        let backend = Self {
            setup: Setup {
                config_dir: context.config_dir.clone(),
                working_dir: config.working_dir.clone(),
                env: config.env.clone(),
                max_array: None,
                user: person.map(|(_, user)| user),
            },
            jobs_dir,
            disks: disks.clone(),
            state_dir: context.state_dir.clone(),
            jobs_folder_created: OnceCell::new(),
            driver,
            cluster: OnceCell::new(),
            accounting: config.accounting,
            accounting_wait: config.accounting_wait,
            retention: config.keep,
            last_sweep: Mutex::new(None),
            discover: config.discover.clone(),
            queue_cache: QueueCache::new(config.look_every, config.position_every),
            job_cache: JobCache::default(),
            controller_start: tokio::sync::Mutex::default(),
            plans: Mutex::default(),
            feasibility_cache: FeasibilityCache::default(),
            feasibility_timeout: timeout.min(FEASIBILITY_TIMEOUT),
        };
        match backend.ensure_jobs_folder().await {
            // A transient error does not keep the server from starting.
            Err(error) if !error.kind().is_transient() => return Err(error.while_connecting()),
            _ => {}
        }
        // A fault that concerns one of several users is reported to callers whose jobs run as that user, and
        // by `taskbridge doctor`.
        if backend.setup.user.is_none() {
            match backend.cluster().await {
                Err(error) if !error.kind().is_transient() => return Err(error.while_connecting()),
                _ => {}
            }
        }
        Ok(backend)
    }

    pub(crate) async fn cluster(&self) -> Result<&Cluster> {
        self.cluster.get_or_try_init(|| self.driver.cluster()).await
    }

    /// Creates and marks the jobs folder, unless this process has done so.
    pub(crate) async fn ensure_jobs_folder(&self) -> Result<()> {
        let create = async || {
            let (jobs_dir, state_dir, for_other_users) =
                (self.jobs_dir.clone(), self.state_dir.clone(), self.setup.user.is_some());
            self.disks.jobs.run(move || jobs_folder::create(&jobs_dir, &state_dir, for_other_users)).await?
        };
        self.jobs_folder_created.get_or_try_init(create).await.copied()
    }

    /// Returns the disk of the folder in which a job's script runs, which may be outside of the job's folder.
    /// For an attached job, it is the disk of the jobs folder.
    pub(crate) fn disk_of(&self, plan: &Plan, folder: &Folder) -> &Disk {
        let is_outside = plan.attached.is_none() && !plan.root.starts_with(folder.path());
        if is_outside { &self.disks.roots } else { &self.disks.jobs }
    }

    /// Returns true if the config says whether the cluster has an accounting database, or Slurm has answered.
    pub(crate) fn knows_accounting(&self) -> bool {
        self.accounting.is_some() || self.cluster.get().is_some()
    }

    /// Returns whether there is an accounting database. Returns false while that is unknown.
    pub(crate) fn has_accounting(&self) -> bool {
        self.accounting.unwrap_or_else(|| self.cluster.get().is_some_and(|cluster| cluster.accounting))
    }

    /// Removes old folders if the last removal was long enough ago.
    pub(crate) fn sweep_if_due(&self) {
        let mut last = self.last_sweep.lock();
        if last.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL) {
            *last = Some(Instant::now());
            let (jobs_dir, retention) = (self.jobs_dir.clone(), self.retention);
            // Nothing waits for the result. The next sweep removes what this one leaves.
            self.disks.jobs.try_start(move || drop(sweep::sweep(&jobs_dir, retention)));
        }
    }

    pub(crate) fn folder(&self, key: &str) -> Folder {
        Folder::new(&self.jobs_dir, key)
    }

    /// Returns the parts of the handle of a job of this backend.
    pub(crate) fn slurm_handle(&self, cluster: &str, job: JobId, key: &str) -> SlurmHandle {
        let user = self.setup.user.as_ref().map(|user| user.name.clone());
        SlurmHandle { cluster: cluster.to_owned(), job, key: key.to_owned(), user }
    }

    /// Parses a handle. Returns `None` for an invalid handle, and an error for a job of another user.
    pub(crate) fn parse(&self, handle: &JobHandle) -> Result<Option<SlurmHandle>> {
        let own_user = self.setup.user.as_ref().map(|user| user.name.as_str());
        match SlurmHandle::parse(handle) {
            Some(slurm_handle) if slurm_handle.user.as_deref() != own_user => {
                Err(unlisted_user_error(slurm_handle.user.as_deref()))
            }
            slurm_handle => Ok(slurm_handle),
        }
    }

    /// Returns a job's plan from memory. A plan never changes.
    pub(crate) fn plan(&self, key: &str) -> Option<Arc<Plan>> {
        self.plans.lock().get(key).cloned()
    }

    pub(crate) fn cache_plan(&self, key: &str, plan: Plan) -> Arc<Plan> {
        let mut plans = self.plans.lock();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        let plan = Arc::new(plan);
        plans.insert(key.to_owned(), Arc::clone(&plan));
        plan
    }
}

/// Returns the error for a job of a Unix user that the config does not name (any more). The job is left as it
/// is.
pub(crate) fn unlisted_user_error(user: Option<&str>) -> Error {
    let user =
        user.map_or_else(|| "the server's own user".to_owned(), |user| format!("the Unix user `{user}`"));
    Error::config(format!("the job belongs to {user}, who is not listed in `run_as`"))
}

/// Returns the timeout of one command or of one step in the jobs folder. A start runs up to three commands,
/// one after the other.
pub(crate) fn step_timeout(config: &Config, context: &ConnectContext) -> Duration {
    config.command_timeout.min(context.call_timeout / 3)
}

#[cfg(test)]
mod tests;
