//! `kind = "step-functions"`: jobs are executions of AWS Step Functions.
//!
//! The server registers [`StepFunctions`]. The modules:
//!
//! - `start` starts executions: it chooses the name and handles unclear responses. `input` builds the input,
//!   and `bound` refuses executions that may run too long.
//! - `observe` polls one execution and `observe_all` many, with the lists that `list_cache` caches.
//! - `state` translates the status, `progress` computes the progress. `log` builds the log from the history,
//!   or from `cloudwatch`.
//! - `question_history` and `content` find the questions of an execution. `reader` receives the `tokens` of
//!   waiting steps, and `answer` delivers the answers.
//! - `discovery` finds state machines, and `discovered_machine` turns them into tools.
//! - `checkup` checks everything. `needs` lists the permissions, `permissions` tries each one, `policy` is
//!   the policy that grants them, and `offline` writes it without a call of AWS.
//! - `hooks` parses posts of EventBridge.
//! - `caller_credentials` chooses the credentials of a call, `session` describes a person to AWS, and `trust`
//!   checks that the role can be assumed.
//!
//! Only `client`, `api`, `queue`, `caller_credentials` and `trust` call AWS, and only `failure` interprets
//! its errors. README.md lists for users what a job can do, and what was tested against what.
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
