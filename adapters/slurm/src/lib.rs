//! `kind = "slurm"`: each job is a batch job of a Slurm cluster. It is submitted held, recorded in its folder
//! on the shared file system, and then released. Slurm runs the jobs, so they outlive the server. README.md
//! describes the guarantees.
//!
//! A call becomes a job in `submit`: `wrapper.sh` there runs the script once (once more after each requeue,
//! if the target allows requeues), and writes its exit status into the job's folder (`store`). A poll
//! (`observe`) combines the queue, the accounting database and the folder. Only the `driver` talks to Slurm.
//! `adapters/README.md` describes the layout. The crate must know nothing of the server but the sdk.

mod backend;
mod callers;
mod check;
mod config;
mod core;
mod discovery;
mod driver;
mod identity;
mod notation;
mod observe;
mod questions;
mod result;
mod store;
mod submit;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Problem, Result, async_trait};

pub use config::discover::Discover;
pub use config::environment::VariableName;
pub use config::{
    After, Amount, Array, Bounded, Config, Person, Resources, Rest, Setting, SignalTo, Ssh, Target, When,
};

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
        check::target::check(config, target, parameters)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(match &config.run_as {
            Some(run_as) => Arc::new(callers::UserRouter::connect(&config, run_as, context).await?),
            None => {
                let disks = store::disk::Disks::new(core::step_timeout(&config, context));
                Arc::new(core::Slurm::connect(&config, context, &disks, None).await?)
            }
        })
    }
}
