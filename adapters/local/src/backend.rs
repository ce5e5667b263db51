//! [`Local`]: the connected backend that the server calls. It must not keep data of jobs, which exist only in
//! their folders.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use taskbridge_sdk::{
    Artifacts, Backend, Checkup, ConnectContext, Error, GroupKey, JobHandle, JobKey, JobSpec, JobState, Logs,
    Observation, Questions, Result, Started, Subject, Wakeups, async_trait,
};

use crate::config::Config;
use crate::config::environment;
use crate::identity::engine;
use crate::identity::handle::{self, Machine};
use crate::observe::poll;
use crate::store::job_dir::{JobDir, SupervisorState, create_private_dir};
use crate::store::sweep;
use crate::submit::request::LaunchRequest;
use crate::submit::start;
use crate::wakeups::Listener;

/// Interval between sweeps of old folders.
const SWEEP_INTERVAL: Duration = Duration::from_hours(1);

/// Config in the form that rendering needs.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) config_dir: PathBuf,
    /// Environment that all jobs share.
    pub(crate) environment: BTreeMap<String, String>,
}

/// This machine as a backend.
pub(crate) struct Local {
    pub(crate) setup: Setup,
    pub(crate) jobs: PathBuf,
    pub(crate) program: PathBuf,
    this_machine: Machine,
    /// Id of the folder that jobs run in.
    identity: String,
    wakeups: Listener,
    last_sweep: Mutex<Instant>,
}

impl Local {
    pub(crate) async fn connect(config: Config, context: &ConnectContext) -> Result<Self> {
        let this_machine = Machine::current()?;
        let environment = environment::shared_variables(&config)?;
        let (jobs, keep) = (context.state_dir.join("jobs"), config.keep);
        let folder_error = |e: io::Error| {
            let folder = context.state_dir.display();
            Error::config(format!("the folder {folder} cannot be used for jobs: {e}")).caused_by(e)
        };
        let (folder, state) = (jobs.clone(), context.state_dir.clone());
        let identity = run_blocking(move || {
            create_private_dir(&folder)?;
            sweep::sweep(&folder, keep)?;
            engine::get_or_create(&state)
        })
        .await?
        .map_err(folder_error)?;
        let wakeups = Listener::open(&jobs, this_machine.clone()).map_err(folder_error)?;
        let setup = Setup { config, config_dir: context.config_dir.clone(), environment };
        let last_sweep = Mutex::new(Instant::now());
        Ok(Self {
            setup,
            jobs,
            program: context.program.clone(),
            this_machine,
            identity,
            wakeups,
            last_sweep,
        })
    }

    fn dir(&self, key: &str) -> JobDir {
        JobDir::new(self.jobs.join(key))
    }

    /// Returns the job and its current state, if a supervisor ever claimed it.
    async fn find_claimed(&self, key: &JobKey) -> Result<Option<Started>> {
        let (dir, this_machine) = (self.dir(key.as_str()), self.this_machine.clone());
        let poll = move || {
            let unreadable = |e| poll::read_error(&dir, e);
            let Some(claim) = dir.read_claim().map_err(unreadable)? else { return Ok(None) };
            let first = poll::observe(&dir, &claim.machine, &this_machine)?;
            Ok(Some(Started { handle: claim.machine.handle(dir.key()), first: Some(first) }))
        };
        run_blocking(poll).await?
    }

    fn sweep_if_due(&self) {
        let mut last = self.last_sweep.lock();
        if last.elapsed() >= SWEEP_INTERVAL {
            *last = Instant::now();
            let (jobs, keep) = (self.jobs.clone(), self.setup.config.keep);
            // No caller waits for this sweep. The next sweep handles what it leaves.
            drop(tokio::task::spawn_blocking(move || sweep::sweep(&jobs, keep)));
        }
    }

    /// Runs `work` on the folder of a job. Returns `None` if the handle is not valid for this backend.
    pub(crate) async fn with_job_dir<T: Send + 'static>(
        &self,
        handle: &JobHandle,
        work: impl FnOnce(&JobDir) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some((_, key)) = handle::parse(handle) else { return Ok(None) };
        let dir = self.dir(key);
        run_blocking(move || work(&dir).map_err(|e| poll::read_error(&dir, e))).await?.map(Some)
    }
}

#[async_trait]
impl Backend for Local {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        if let Some(started) = self.find_claimed(&job.key).await? {
            return Ok(started);
        }
        let dir = self.dir(job.key.as_str());
        let request = LaunchRequest::new(job, &self.setup, &dir)?;
        let files = job.files.clone();
        run_blocking(move || LaunchRequest::check_sources(&files)).await??;
        let launched = start::launch(&self.program, &dir, &request).await;
        self.sweep_if_due();
        // A supervisor that could not reply may still have claimed the job. If it is unclaimed now, it stays
        // so, because the only supervisor that could claim it has ended.
        match (self.find_claimed(&job.key).await?, launched) {
            (Some(started), _) => Ok(started),
            (None, Err(e)) => Err(e),
            (None, Ok(())) => Err(Error::unavailable("the job's folder was removed during the start")),
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_claimed(&job.key).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let subject = Subject::watched(std::slice::from_ref(handle));
        let observations = self.observe_all(&self.group(handle), &subject).await;
        observations.into_iter().next().expect("one handle gives one observation")
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.with_job_dir(handle, |dir| match dir.supervisor_state()? {
            SupervisorState::Supervised { .. } => dir.request_cancel(),
            SupervisorState::Ended | SupervisorState::Unclaimed => Ok(()),
        })
        .await
        .map(drop)
    }

    /// Deletes the folder of a job whose supervisor has ended. The sweep deletes the others later.
    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        self.with_job_dir(handle, |dir| match dir.supervisor_state()? {
            SupervisorState::Ended => fs::remove_dir_all(dir.path()),
            SupervisorState::Supervised { .. } | SupervisorState::Unclaimed => Ok(()),
        })
        .await
        .map(drop)
    }

    /// Groups jobs by machine, because all jobs of another machine become unreachable together.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        GroupKey::new(handle::parse(handle).map(|(machine, _)| machine.host).unwrap_or_default())
    }

    async fn observe_all(&self, _: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let make_poll = |handle: &JobHandle| {
            let parsed = handle::parse(handle).map(|(machine, key)| (machine, self.dir(key)));
            let this_machine = self.this_machine.clone();
            move || match parsed {
                Some((machine, dir)) => poll::observe(&dir, &machine, &this_machine),
                None => {
                    Ok(Observation::new(JobState::Gone).with_message("the handle is not that of a local job"))
                }
            }
        };
        let polls: Vec<_> = jobs.iter().map(|job| make_poll(&job.handle)).collect();
        match run_blocking(move || polls.into_iter().map(|poll| poll()).collect()).await {
            Ok(observations) => observations,
            Err(_) => jobs.iter().map(|_| Err(disk_access_aborted())).collect(),
        }
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

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        Some(&self.wakeups)
    }

    fn identity(&self) -> Option<String> {
        Some(format!("local {}", self.identity))
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }
}

/// Runs disk access on a blocking thread. A read takes microseconds, unless the disk stalls.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|e| disk_access_aborted().caused_by(e))
}

fn disk_access_aborted() -> Error {
    Error::unavailable("the disk access was aborted")
}
