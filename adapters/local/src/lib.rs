//! `kind = "local"`: runs commands on this machine as jobs that outlive the server.
//!
//! The server registers [`Local`]. `submit` decides what to run and starts a `supervisor` process per job. It
//! runs the command and writes everything into the job's folder (`store`). `observe`, `questions` and
//! `result` read from there. README.md describes what a job can do, and the files; `adapters/README.md`
//! describes the layout.
//!
//! It must not know the server: it receives all information in [`ConnectContext`].

#[cfg(not(target_os = "linux"))]
compile_error!("the local adapter needs Linux: it relies on pidfd, memfd and /proc");

mod backend;
mod check;
mod config;
mod core;
mod files;
mod identity;
mod observe;
mod questions;
mod result;
mod store;
mod submit;
mod supervisor;
mod wakeups;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Helper, Problem, Result, async_trait};

pub use config::{Config, Target, VariableName};

/// Adapter for commands on this machine.
pub struct Local;

#[async_trait]
impl Adapter for Local {
    const KIND: &'static str = core::KIND;
    const HELPER: Option<Helper> = Some(supervisor::main);
    const ONE_MACHINE: bool = true;

    type Config = Config;
    type Target = Target;

    fn check(_: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::target::check(target, parameters)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(core::Local::connect(config, context).await?))
    }
}
