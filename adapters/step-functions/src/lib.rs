//! `kind = "step-functions"`: jobs are executions of AWS Step Functions.
//!
//! [`StepFunctions`] is what the server registers. A start goes through `input` (what the execution is given) and
//! `start` (under which name, what an unclear reply means, and with `bound` what is not started at all); `look` reads one execution and `sweep` many, by `lists` that are believed for a while; `state`
//! says what was seen, `steps` how far it is, `log` what happened in it, from its history or what `cloudwatch` has. What an execution asks is in `asks` and `content`, under
//! which `tokens` it waits comes through `reader`, and `answer` hands over what was said. `discovery` finds
//! what state machines there are, and `offer` makes tools of them; `checkup` looks all of it over, with `permissions` and the `policy` that grants them, which `offline` writes without asking AWS; `hooks` reads what
//! EventBridge posts. `persons` says with whose credentials something is done, `session` what AWS is told of a person, and `trust` who must let it.
//! Only `api`, `queue`, `persons` and `trust` talk to AWS, and only `failure` says what an error of it means. README.md tells users what a job can do, and what was tested against what.
//!
//! It must not know the server: all that it is told arrives in [`taskbridge_sdk::Connect`]. Nothing is retried here, by
//! the SDK of AWS either.

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

/// The adapter for AWS Step Functions.
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
