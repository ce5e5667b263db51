//! [`Local`]: the connection that every ability of this backend shares. It must not keep data of jobs, which
//! exist only in their folders.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use taskbridge_sdk::{ConnectContext, Error, JobHandle, Result};

use crate::config::{Config, environment};
use crate::identity::engine;
use crate::identity::handle::{self, Machine};
use crate::store::job_dir::{JobDir, create_private_dir};
use crate::store::sweep;
use crate::wakeups::Listener;

/// Kind of this adapter in the config, and the role of its helper process.
pub(crate) const KIND: &str = "local";

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
    pub(crate) this_machine: Machine,
    /// Id of the folder that jobs run in.
    pub(crate) identity: String,
    pub(crate) wakeups: Listener,
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

    pub(crate) fn dir(&self, key: &str) -> JobDir {
        JobDir::new(self.jobs.join(key))
    }

    pub(crate) fn sweep_if_due(&self) {
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
        run_blocking(move || work(&dir).map_err(|e| dir.read_error(e))).await?.map(Some)
    }
}

/// Runs disk access on a blocking thread. A read takes microseconds, unless the disk stalls.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let aborted = |e| Error::unavailable("the disk access was aborted").caused_by(e);
    tokio::task::spawn_blocking(work).await.map_err(aborted)
}
