//! `kind = "slurm"`: each job is a batch job of a Slurm cluster. It is submitted held, recorded in its folder
//! on the shared file system, and then released. Slurm runs the jobs, so they outlive the server. README.md
//! describes the guarantees.
//!
//! A call becomes a `job_request`, which `start` submits. `wrapper.sh` runs the script once (once more after
//! each requeue, if the target allows requeues) and writes its exit status into the job's `folder`. A poll
//! (`observe`) combines the queue, the accounting database and the folder (`terminal_state`, `result`). Only
//! the `driver` talks to Slurm. The crate must know nothing of the server but the sdk.

mod active_job;
mod amount;
mod array_counts;
mod artifacts;
mod backend;
mod bounded_scan;
mod callers;
mod check;
mod checkup;
mod config;
mod dependency;
mod directives;
mod discovery;
mod disk;
mod driver;
mod end;
mod environment;
mod existing;
#[cfg(test)]
mod fake;
mod feasibility;
mod folder;
mod folder_reader;
mod handle;
#[cfg(test)]
mod hanging;
#[cfg(test)]
mod hangs;
mod indices;
mod job_cache;
mod job_request;
mod job_snapshot;
mod jobs_folder;
mod log;
mod observe;
mod outputs;
mod pattern;
mod plan;
mod questions;
mod queue_cache;
mod quote;
mod reason;
mod release;
mod result;
mod root;
mod runs;
mod settings;
mod staging;
mod start;
mod state;
mod stop;
mod sweep;
mod table;
mod terminal_state;
mod unix;
mod usage;
mod wrapper;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Problem, Result, async_trait};

pub use config::{
    After, Amount, Array, Bounded, Config, Person, Resources, Rest, Setting, SignalTo, Ssh, Target, When,
};
pub use discovery::Discover;
pub use environment::VariableName;

/// The Slurm adapter.
#[derive(Debug)]
pub struct Slurm;

#[async_trait]
impl Adapter for Slurm {
    const KIND: &'static str = "slurm";

    type Config = Config;
    type Target = Target;

    const SECRETS: &'static [&'static str] = &["rest.token", "run_as.*.token"];

    fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::check(config, target, parameters)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(match &config.run_as {
            Some(run_as) => Arc::new(callers::UserRouter::connect(&config, run_as, context).await?),
            None => {
                let disks = disk::Disks::new(backend::step_timeout(&config, context));
                Arc::new(backend::Slurm::connect(&config, context, &disks, None).await?)
            }
        })
    }
}
