//! `kind = "slurm"`: each job is a batch job of a Slurm cluster. It is submitted held, recorded in its folder
//! on the shared file system, and then released. Slurm runs the jobs, so they outlive the server. README.md
//! describes the guarantees.
//!
//! A call becomes an `order`, which `start` submits. `wrapper.sh` runs the script once and writes its exit
//! status into the job's `folder`. A poll (`look`) combines the queue, the accounting database and the folder
//! (`fate`, `result`). Only the `driver` talks to Slurm. The crate must know nothing of the server but the
//! sdk.

mod after;
mod amount;
mod artifacts;
mod backend;
mod callers;
mod case;
mod check;
mod checkup;
mod config;
mod directives;
mod discovery;
mod disk;
mod driver;
mod end;
mod environment;
mod existing;
#[cfg(test)]
mod fake;
mod fate;
mod feasible;
mod folder;
mod handle;
#[cfg(test)]
mod hanging;
#[cfg(test)]
mod hangs;
mod held;
mod indices;
mod jobs_folder;
mod known;
mod left;
mod live;
mod log;
mod look;
mod order;
mod pattern;
mod plan;
mod questions;
mod quote;
mod reading;
mod reason;
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
mod tally;
mod turns;
mod unix;
mod usage;
mod watch;
mod wrapper;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, Connect, Problem, Result, async_trait};

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

    async fn connect(config: Config, context: &Connect) -> Result<Arc<dyn Backend>> {
        Ok(match &config.run_as {
            Some(people) => Arc::new(callers::Callers::connect(&config, people, context).await?),
            None => {
                let disks = disk::Disks::new(backend::limit(&config, context));
                Arc::new(backend::Slurm::connect(&config, context, &disks, None).await?)
            }
        })
    }
}
