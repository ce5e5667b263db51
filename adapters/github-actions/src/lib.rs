//! `kind = "github-actions"`: each job is one attempt of a run of a workflow of GitHub Actions.
//! `workflow_dispatch` starts the run, or an existing run is followed or rerun. The runs belong to GitHub and
//! therefore outlive the server. README.md lists the guarantees. It must depend on nothing of the server but
//! the sdk.

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Problem, Result, async_trait};

mod api;
mod archive;
mod artifacts;
mod backend;
mod caller_credentials;
mod check;
mod checkup;
mod client;
mod config;
mod credential;
mod discovery;
mod end;
mod existing;
mod failure;
mod handle;
mod hook;
mod identity;
mod inputs;
mod job_request;
mod limits;
mod links;
mod list_cache;
mod log;
mod observe;
mod observe_all;
mod partial_read;
mod progress;
mod questions;
mod response_cache;
#[cfg(test)]
mod standin;
mod start;
mod state;
mod wire;
mod workflow;

pub use config::{App, Config, Discover, PerCaller, Target};

/// Adapter for GitHub Actions.
#[derive(Debug)]
pub struct GithubActions;

#[async_trait]
impl Adapter for GithubActions {
    const KIND: &'static str = "github-actions";

    type Config = Config;
    type Target = Target;

    const SECRETS: &'static [&'static str] =
        &["token", "app.private_key", "webhook_secret", "proxy", "per_caller.tokens.*"];

    fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::check(config, target, parameters)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(backend::Actions::connect(config, context).await?))
    }
}
