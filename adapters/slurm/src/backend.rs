//! The connected backend that the server calls. It must not keep data about jobs that cannot be read again
//! from their folders, the controller or the accounting database.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{
    Artifacts, Backend, Checkup, Connect, Discovery, Error, ErrorKind, GroupKey, JobHandle, JobSpec, Logs,
    Observation, Questions, Result, Started, Subject, async_trait,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::config::{Config, Person};
use crate::discovery::Discover;
use crate::disk::{Disk, Disks};
use crate::driver::command::Commands;
use crate::driver::process::UMASK_OF_OTHERS;
use crate::driver::rest::Rest;
use crate::driver::{Cluster, Driver, JobId};
use crate::environment::VariableName;
use crate::feasible::{self, Tests};
use crate::folder::Folder;
use crate::handle::SlurmHandle;
use crate::job_cache::JobCache;
use crate::job_request;
use crate::jobs_folder;
use crate::plan::Plan;
use crate::queue_cache::QueueCache;
use crate::release::Booted;
use crate::sweep;
use crate::unix::UnixUser;

/// Interval between two removals of old folders.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// Maximum number of plans cached in memory.
const MOST_PLANS: usize = 20_000;

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

/// A Slurm cluster as a backend, accessed as one Unix user.
pub(crate) struct Slurm {
    pub(crate) setup: Setup,
    pub(crate) jobs: PathBuf,
    pub(crate) disks: Disks,
    /// Folder for the backend's own state.
    state: PathBuf,
    /// Set once the jobs folder exists.
    made: OnceCell<()>,
    pub(crate) driver: Box<dyn Driver>,
    /// The cluster's description, once the controller has returned it.
    cluster: OnceCell<Cluster>,
    accounting: Option<bool>,
    pub(crate) accounting_wait: Duration,
    keep: Duration,
    last_sweep: Mutex<Option<Instant>>,
    pub(crate) discover: Option<Discover>,
    pub(crate) watch: QueueCache,
    pub(crate) known: JobCache,
    pub(crate) booted: tokio::sync::Mutex<Option<Booted>>,
    plans: Mutex<HashMap<String, Arc<Plan>>>,
    pub(crate) tests: Tests,
    /// How long a start waits for the feasibility test.
    pub(crate) test_within: Duration,
}

impl Slurm {
    /// Connects as our own user, or as `person`.
    pub(crate) async fn connect(
        config: &Config,
        context: &Connect,
        disks: &Disks,
        person: Option<(&Person, UnixUser)>,
    ) -> Result<Self> {
        let jobs = match &config.jobs_dir {
            Some(path) => context.config_dir.join(path),
            None => context.state_dir.join("jobs"),
        };
        let limit = limit(config, context);
        let driver: Box<dyn Driver> = match (&config.rest, &person) {
            (Some(rest), None) => Box::new(Rest::new(rest, limit, None)?),
            (Some(rest), Some((person, _))) => {
                Box::new(Rest::new(&rest.of(person)?, limit, Some(UMASK_OF_OTHERS))?)
            }
            (None, person) => {
                let user = person.as_ref().map(|(person, _)| person.user.as_str());
                Box::new(Commands::new(config, limit, user)?)
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
            jobs,
            disks: disks.clone(),
            state: context.state_dir.clone(),
            made: OnceCell::new(),
            driver,
            cluster: OnceCell::new(),
            accounting: config.accounting,
            accounting_wait: config.accounting_wait,
            keep: config.keep,
            last_sweep: Mutex::new(None),
            discover: config.discover.clone(),
            watch: QueueCache::new(config.look_every, config.position_every),
            known: JobCache::default(),
            booted: tokio::sync::Mutex::default(),
            plans: Mutex::default(),
            tests: Tests::default(),
            test_within: limit.min(feasible::WITHIN),
        };
        match backend.folder_is_made().await {
            // A transient error does not keep the server from starting.
            Err(error) if !may_pass(&error) => return Err(error.while_connecting()),
            _ => {}
        }
        // A fault that concerns one of several users is reported to callers whose jobs run as that user, and
        // by `taskbridge doctor`.
        if backend.setup.user.is_none() {
            match backend.cluster().await {
                Err(error) if !may_pass(&error) => return Err(error.while_connecting()),
                _ => {}
            }
        }
        Ok(backend)
    }

    /// Creates a backend over this driver, for tests.
    #[cfg(test)]
    pub(crate) fn with(driver: Box<dyn Driver>, jobs: &std::path::Path) -> Self {
        jobs_folder::make(jobs, &jobs.join("state"), false).expect("the test's folder is its own");
        let setup = Setup {
            config_dir: jobs.to_owned(),
            working_dir: None,
            env: BTreeMap::new(),
            max_array: None,
            user: None,
        };
        Self {
            setup,
            jobs: jobs.to_owned(),
            disks: Disks::new(Duration::from_secs(1)),
            state: jobs.join("state"),
            made: OnceCell::new(),
            driver,
            cluster: OnceCell::new(),
            accounting: Some(false),
            accounting_wait: Duration::ZERO,
            keep: Duration::MAX,
            last_sweep: Mutex::new(None),
            discover: None,
            watch: QueueCache::new(Duration::ZERO, Duration::ZERO),
            known: JobCache::default(),
            booted: tokio::sync::Mutex::default(),
            plans: Mutex::default(),
            tests: Tests::default(),
            test_within: feasible::WITHIN,
        }
    }

    /// Pretends that there is an accounting database, for tests.
    #[cfg(test)]
    pub(crate) fn believe_in_accounting(&mut self) {
        self.accounting = Some(true);
    }

    pub(crate) async fn cluster(&self) -> Result<&Cluster> {
        self.cluster.get_or_try_init(|| self.driver.cluster()).await
    }

    /// Creates and marks the jobs folder, unless this process has done so.
    pub(crate) async fn folder_is_made(&self) -> Result<()> {
        let make = async || {
            let (jobs, state, for_others) =
                (self.jobs.clone(), self.state.clone(), self.setup.user.is_some());
            self.disks.jobs.run(move || jobs_folder::make(&jobs, &state, for_others)).await?
        };
        self.made.get_or_try_init(make).await.copied()
    }

    /// Returns the disk of the folder in which a job's script runs, which may be outside of the job's folder.
    /// For an attached job, it is the disk of the jobs folder.
    pub(crate) fn disk_of(&self, plan: &Plan, folder: &Folder) -> &Disk {
        let is_elsewhere = plan.attached.is_none() && !plan.root.starts_with(folder.path());
        if is_elsewhere { &self.disks.roots } else { &self.disks.jobs }
    }

    /// Returns whether there is an accounting database. Returns false while that is unknown.
    pub(crate) fn has_accounting(&self) -> bool {
        self.accounting.unwrap_or_else(|| self.cluster.get().is_some_and(|cluster| cluster.accounting))
    }

    /// Removes old folders if the last removal was long enough ago.
    pub(crate) fn sweep_if_due(&self) {
        let mut last = self.last_sweep.lock();
        if last.is_none_or(|at| at.elapsed() >= SWEEP_EVERY) {
            *last = Some(Instant::now());
            let (jobs, keep) = (self.jobs.clone(), self.keep);
            // Nothing waits for the result. The next sweep removes what this one leaves.
            self.disks.jobs.aside(move || drop(sweep::sweep(&jobs, keep)));
        }
    }

    pub(crate) fn folder(&self, key: &str) -> Folder {
        Folder::new(&self.jobs, key)
    }

    /// Returns the parts of the handle of a job of this backend.
    pub(crate) fn place(&self, cluster: &str, job: JobId, key: &str) -> SlurmHandle {
        let user = self.setup.user.as_ref().map(|user| user.name.clone());
        SlurmHandle { cluster: cluster.to_owned(), job, key: key.to_owned(), user }
    }

    /// Parses a handle. Returns `None` for an invalid handle, and an error for a job of another user.
    pub(crate) fn parse(&self, handle: &JobHandle) -> Result<Option<SlurmHandle>> {
        let own = self.setup.user.as_ref().map(|user| user.name.as_str());
        match SlurmHandle::parse(handle) {
            Some(place) if place.user.as_deref() != own => Err(not_named(place.user.as_deref())),
            place => Ok(place),
        }
    }

    /// Returns a job's plan from memory. A plan never changes.
    pub(crate) fn plan(&self, key: &str) -> Option<Arc<Plan>> {
        self.plans.lock().get(key).cloned()
    }

    pub(crate) fn keep_plan(&self, key: &str, plan: Plan) -> Arc<Plan> {
        let mut plans = self.plans.lock();
        if plans.len() >= MOST_PLANS {
            plans.clear();
        }
        let plan = Arc::new(plan);
        plans.insert(key.to_owned(), Arc::clone(&plan));
        plan
    }
}

/// Returns the error for a job of a Unix user that the config does not name (any more). The job is left as it
/// is.
pub(crate) fn not_named(user: Option<&str>) -> Error {
    let user =
        user.map_or_else(|| "the server's own user".to_owned(), |user| format!("the Unix user `{user}`"));
    Error::config(format!("the job is one of {user}, whom `run_as` does not name"))
}

/// Returns true unless the job attaches to an existing job or sends a signal to one.
fn submits(job: &JobSpec) -> bool {
    job_request::target(job).is_ok_and(|target| target.attach.is_none() && target.signal.is_none())
}

/// Adds to an error what an administrator can do if the outcome of an earlier attempt stays unknown.
fn left_by_an_earlier_try(job: &JobSpec, error: &Error) -> Error {
    let key = job.key.as_str();
    Error::new(
        error.kind(),
        format!("{error}; `scancel --name={key}` ends what an earlier try may have left in the queue"),
    )
}

pub(crate) fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Limited { .. } | ErrorKind::Unavailable | ErrorKind::Uncertain)
}

#[async_trait]
impl Backend for Slurm {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.sweep_if_due();
        self.begin(job).await.map_err(|error| match job.may_exist && may_pass(&error) && submits(job) {
            true => left_by_an_earlier_try(job, &error),
            false => error,
        })
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let seen = self.poll_jobs(&Subject::watched(std::slice::from_ref(handle))).await;
        seen.into_iter().next().expect("one handle has one answer")
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        match self.parse(handle)? {
            Some(place) => self.stop(&place).await,
            None => Ok(()),
        }
    }

    /// Returns the group. One squeue call returns all jobs of a user on a cluster.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        SlurmHandle::parse(handle).map_or_else(|| GroupKey::new(""), |place| place.group())
    }

    async fn observe_all(&self, _: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll_jobs(jobs).await
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

    /// Returns the cluster's name, once the controller has reported it. Slurm does not allow a cluster to be
    /// renamed.
    fn identity(&self) -> Option<String> {
        self.cluster.get().map(|cluster| format!("slurm {}", cluster.name))
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }
}

/// Returns the timeout of one command or of one step in the jobs folder. A start runs up to three commands,
/// one after the other.
pub(crate) fn limit(config: &Config, context: &Connect) -> Duration {
    config.command_timeout.min(context.call_limit / 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[tokio::test]
    async fn identity_is_cluster_name() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::with(Box::new(Fake::default()), dir.path());
        assert_eq!(slurm.identity(), None, "the controller has not been asked");
        slurm.cluster().await.unwrap();
        assert_eq!(slurm.identity().as_deref(), Some("slurm lab"));
    }
}
