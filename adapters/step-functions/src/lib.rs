//! `kind = "step-functions"`: jobs are executions of AWS Step Functions.
//!
//! The server registers [`StepFunctions`]. `adapters/README.md` describes the layout. In this adapter:
//!
//! - `submit` starts executions: it chooses the name and handles unclear responses. Its `bound` refuses
//!   executions that may run too long.
//! - `observe` polls one execution or many, with the lists that `store` caches.
//! - `store::history` reads histories: the progress, the questions and the log come from there, or from
//!   CloudWatch Logs.
//! - `wakeups` receives the tokens of waiting steps, and `questions` delivers the answers.
//! - `check` has the permissions that a config needs: `needs` lists them, `permissions` tries each one,
//!   `policy` is the policy that grants them, `offline` writes it without a call of AWS, and `trust` checks
//!   that the role of people can be assumed.
//! - `driver` has the calls of AWS. Its `callers` chooses the credentials of a call, and only its `error`
//!   interprets errors.
//!
//! README.md lists for users what a job can do, and what was tested against what.
//!
//! It must not depend on the server: all context arrives in [`taskbridge_sdk::ConnectContext`]. It never
//! retries, and neither does the AWS SDK.

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
mod wakeups;

use std::sync::Arc;

use taskbridge_sdk::{
    Adapter, Backend, ConnectContext, PolicyDocument, Problem, Result, ToolTarget, async_trait,
};

pub use config::session::TagValue;
pub use config::{AssumeRole, Config, Discover, PerCaller, Quota, Target};

/// Adapter for AWS Step Functions.
pub struct StepFunctions;

#[async_trait]
impl Adapter for StepFunctions {
    const KIND: &'static str = "step-functions";

    type Config = Config;
    type Target = Target;

    const SECRETS: &'static [&'static str] = &["hook_secret"];

    fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::target::check(config, target, parameters)
    }

    fn policies(config: &Config, tools: &[ToolTarget]) -> Vec<PolicyDocument> {
        check::offline::policies(config, tools)
    }

    async fn connect(config: Config, context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(core::StepFunctions::connect(config, context).await?))
    }
}
