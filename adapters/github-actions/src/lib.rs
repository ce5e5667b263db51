//! `kind = "github-actions"`: each job is one attempt of a run of a workflow of GitHub Actions.
//! `workflow_dispatch` starts the run, or an existing run is followed or rerun. The runs belong to GitHub and
//! therefore outlive the server. README.md lists the guarantees, and `adapters/README.md` describes the
//! layout. It must depend on nothing of the server but the sdk.

mod backend;
mod check;
mod config;
mod core;
mod discovery;
mod driver;
mod hooks;
mod identity;
mod observe;
mod questions;
mod result;
mod store;
mod submit;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, ConnectContext, Problem, Result, async_trait};

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
        check::target::check(config, target, parameters)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(core::Actions::connect(config, context).await?))
    }
}
