//! `kind = "step-functions"`: jobs are executions of AWS Step Functions.
//!
//! The server registers [`StepFunctions`]. The modules:
//!
//! - `start` starts executions: it chooses the name and handles unclear responses. `input` builds the input,
//!   and `bound` refuses executions that may run too long.
//! - `look` polls one execution and `sweep` many, with the lists that `lists` caches.
//! - `state` translates the status, `steps` the progress. `log` builds the log from the history, or from
//!   `cloudwatch`.
//! - `asks` and `content` find the questions of an execution. `reader` receives the `tokens` of waiting
//!   steps, and `answer` delivers the answers.
//! - `discovery` finds state machines, and `offer` turns them into tools.
//! - `checkup` checks everything. `permissions` tries each permission, `policy` is the policy that grants
//!   them, and `offline` writes it without a call of AWS.
//! - `hooks` parses posts of EventBridge.
//! - `persons` chooses the credentials of a call, `session` describes a person to AWS, and `trust` checks
//!   that the role can be assumed.
//!
//! Only `client`, `api`, `queue`, `persons` and `trust` call AWS, and only `failure` interprets its errors.
//! README.md lists for users what a job can do, and what was tested against what.
//!
//! It must not depend on the server: all context arrives in [`taskbridge_sdk::Connect`]. It never retries,
//! and neither does the AWS SDK.

mod account;
mod answer;
mod api;
mod arn;
mod asks;
mod backend;
mod bound;
mod budget;
mod check;
mod checkup;
mod client;
mod cloudwatch;
mod config;
mod content;
mod definition;
mod discovery;
mod failure;
mod history;
mod hooks;
mod identity;
mod input;
mod lists;
mod log;
mod look;
mod machines;
mod needs;
mod offer;
mod offline;
mod permissions;
mod persons;
mod policy;
mod queue;
mod reader;
mod session;
mod skew;
mod start;
mod state;
mod steps;
mod sweep;
mod tokens;
mod trust;

use std::sync::Arc;

use taskbridge_sdk::{Adapter, Backend, Connect, PolicyDocument, Problem, Result, ToolTarget, async_trait};

pub use config::{AssumeRole, Config, Discover, PerCaller, Quota, Target};
pub use session::TagValue;

/// Adapter for AWS Step Functions.
pub struct StepFunctions;

#[async_trait]
impl Adapter for StepFunctions {
    const KIND: &'static str = "step-functions";

    type Config = Config;
    type Target = Target;

    const SECRETS: &'static [&'static str] = &["hook_secret"];

    fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
        check::check(config, target, parameters)
    }

    fn policies(config: &Config, tools: &[ToolTarget]) -> Vec<PolicyDocument> {
        offline::policies(config, tools)
    }

    async fn connect(config: Config, context: &Connect) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(backend::StepFunctions::connect(config, context).await?))
    }
}
