//! `kind = "local"`: runs commands on this machine as jobs that outlive the server.
//!
//! It is also the smallest complete adapter, made to be copied. [`Local`] is what the server registers; a start goes
//! through `order` (what to run) and `launch` (how it begins); a `supervisor` process per job runs it and writes
//! everything into the job's folder (`job_dir`); `backend` and what it
//! offers (`observe`, `questions`, `artifacts`, ...) read there. README.md tells users what a
//! job can do, and describes the files.
//!
//! It must not know the server: all that it is told arrives in [`taskbridge_sdk::Connect`].

#[cfg(not(target_os = "linux"))]
compile_error!("the local adapter needs Linux: it relies on pidfd, memfd and /proc");

mod abilities;
mod artifacts;
mod backend;
mod check;
mod checkup;
mod config;
mod environment;
mod events;
mod files;
mod handle;
mod identity;
mod job_dir;
mod launch;
mod log;
mod observe;
mod order;
mod orphans;
mod questions;
mod supervisor;
mod sweep;
mod wakeups;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, Connect, Helper, Problem, Result, async_trait};

pub use config::{Config, Target};
pub use environment::VariableName;

/// The adapter for commands on this machine.
pub struct Local;

#[async_trait]
impl Adapter for Local {
    const KIND: &'static str = "local";
    const HELPER: Option<Helper> = Some(supervisor::main);
    const ONE_MACHINE: bool = true;

    type Config = Config;
    type Target = Target;

    fn check(_: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::check(target, parameters)
    }

    async fn connect(config: Config, context: &Connect) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(backend::Local::connect(config, context).await?))
    }
}
