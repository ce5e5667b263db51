//! Self-check for `taskbridge doctor`: credentials, clock, state machines, permissions, and the settings for
//! questions. It must only make calls that change nothing.

use std::time::Duration;

use aws_sdk_sfn::config::ProvideCredentials as _;
use aws_sdk_sfn::types::{StateMachineStatus, StateMachineType};
use serde::Deserialize as _;
use taskbridge_sdk::{Checkup, ErrorKind, Finding, ToolTarget, Verdict, async_trait};

use crate::api::ApiResult;
use crate::arn::MachineArn;
use crate::backend::StepFunctions;
use crate::bound::{self, Unbounded};
use crate::clock_skew::{ClockReading, now};
use crate::config::{Config, Target};
use crate::discovered_machine::DiscoveredMachine;
use crate::failure::without_credentials;
use crate::identity;
use crate::machines::Description;
use crate::needs::{self, Used};
use crate::permissions::{Attempt, RequiredPermission};
use crate::trust;

/// Clock difference above which AWS rejects signatures.
const SKEW: Duration = Duration::from_secs(300);
/// Number of state machines, including those of configured tools, from which on discovered ones are not
/// checked.
const MOST_DISCOVERED: usize = 20;

/// Parts of the config that the self-check and the IAM policies need.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) backend: String,
    /// Pattern of the names of discovered state machines, for a policy. `None` without discovery.
    pub(crate) discovers: Option<String>,
    pub(crate) filters_by_tags: bool,
    pub(crate) asks: bool,
    pub(crate) activities: Vec<String>,
    pub(crate) queue: Option<String>,
    pub(crate) takes_hooks: bool,
    pub(crate) endpoint: Option<String>,
}

impl Settings {
    /// Returns the settings of the backend with this name.
    pub(crate) fn of(config: &Config, backend: &str) -> Self {
        let discover = config.discover.as_ref();
        Self {
            backend: backend.to_owned(),
            discovers: discover.map(|discover| format!("{}*", discover.starting_with)),
            filters_by_tags: discover.is_some_and(|discover| !discover.tags.is_empty()),
            asks: !config.activities.is_empty() || config.queue.is_some(),
            activities: config.activities.clone(),
            queue: config.queue.clone(),
            takes_hooks: config.hook_secret.is_some(),
            endpoint: config.endpoint.clone(),
        }
    }
}

#[async_trait]
impl Checkup for StepFunctions {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let mut found = vec![self.of_credentials().await];
        if found[0].verdict == Verdict::Fault {
            return found;
        }
        let (answer, times) = self.api.probe().await;
        if let Err(fault) = self.of_answer(&answer) {
            found.extend(times.map(clock));
            found.push(fault);
            return found;
        }
        found.push(Finding::ok("Step Functions", format!("it answers in `{}`", self.region)));
        found.push(times.map_or_else(no_clock, clock));
        found.push(self.of_call_timeout());
        let mut person = None;
        if let Some(persons) = &self.persons {
            let (findings, signer) = trust::of_role(persons).await;
            found.extend(findings);
            person = signer;
        }
        let mut needs = Vec::new();
        let by_name =
            |tool: &ToolTarget| !tool.target["state_machine"].as_str().unwrap_or("arn:").starts_with("arn:");
        if self.settings.discovers.is_some() || tools.iter().any(by_name) {
            needs.push(self.may_list(&answer, tools.iter().find(|tool| by_name(tool))));
        }
        let mut used = Vec::new();
        for tool in tools {
            let (finding, machine) = self.of_tool(tool, &mut needs).await;
            found.push(finding);
            used.extend(machine);
        }
        self.of_discovered(&mut found, &mut used);
        for machine in &used {
            needs::of_machine(machine, self.settings.asks, &mut needs);
        }
        self.needs_of_discovery(&used, &mut needs);
        self.of_ways(&used, &mut found, &mut needs).await;
        found.extend(self.try_all(needs, person).await);
        found
    }
}

impl StepFunctions {
    async fn of_credentials(&self) -> Finding {
        let what = "credentials";
        match self.credentials.provide_credentials().await {
            Ok(credentials) => identity::kind(&credentials, now()),
            Err(error) => {
                let error = without_credentials("looking for credentials", &error);
                let fix = "give credentials as AWS tools take them: `aws configure`, `aws sso login`, a `profile`, or a role of \
                           the machine or container";
                Finding::fault(what, error.to_string(), fix)
            }
        }
    }

    /// Returns a fault if further checks make no sense.
    fn of_answer(&self, answer: &ApiResult<()>) -> Result<(), Finding> {
        let Err(failure) = answer else { return Ok(()) };
        if failure.is_of_credentials() {
            let fix = "get new credentials (`aws sso login`, a new key), and see that the clock is right";
            return Err(Finding::fault("credentials", failure.error.to_string(), fix));
        }
        match failure.error.kind() {
            ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Config => Ok(()),
            _ => {
                let place = self.settings.endpoint.as_deref().unwrap_or("the region's own address");
                let says = format!("in `{}`, at {place}: {}", self.region, failure.error);
                let fix = "see that there is such a region (`region`), that `endpoint` is right if it is set, and that this \
                           machine reaches AWS";
                Err(Finding::fault("Step Functions", says, fix))
            }
        }
    }

    fn of_call_timeout(&self) -> Finding {
        let (own, limit) = (self.call_timeout.as_secs_f64(), self.call_limit.as_secs_f64());
        let says = format!("a call of AWS may take {own} s, and the server waits {limit} s for one");
        match own < limit {
            true => Finding::ok("call_timeout", says),
            false => Finding::warning(
                "call_timeout",
                says,
                "set it to less than half of `lease` in [reconciler], or what fails slowly is not told for what it is",
            ),
        }
    }

    fn may_list(&self, answer: &ApiResult<()>, by_name: Option<&ToolTarget>) -> RequiredPermission {
        let whose = match by_name {
            Some(tool) => format!("tool `{}`, whose state machine is a name", tool.tool),
            None => "discovery".to_owned(),
        };
        let denied = answer.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
        RequiredPermission {
            action: "states:ListStateMachines",
            resource: "*".to_owned(),
            whose,
            verdict: Verdict::Fault,
            without: "state machines are not found",
            attempt: Attempt::Made(denied.map(|failure| failure.error.to_string())),
        }
    }

    /// Checks that a tool's state machine exists and fits the tool. Adds to `needs` only the permission to
    /// describe it; the others follow from the returned state machine.
    async fn of_tool(
        &self,
        tool: &ToolTarget,
        needs: &mut Vec<RequiredPermission>,
    ) -> (Finding, Option<Used>) {
        let whose = format!("tool `{}`", tool.tool);
        let target = match Target::deserialize(&tool.target) {
            Ok(target) => target,
            Err(error) => {
                let fix = "`taskbridge check` says what its target must hold";
                return (Finding::fault(whose, error.to_string(), fix), None);
            }
        };
        let elsewhere = "create the state machine, or mend `state_machine` in the tool's target";
        // A target that is not an ARN is resolved by its name.
        let arn = match MachineArn::parse(&target.state_machine) {
            Some(arn) => arn,
            None => match self.machines.named(&self.api, &self.region, &target.state_machine).await {
                Ok(machine) => machine.arn,
                Err(error) => return (Finding::fault(whose, error.to_string(), elsewhere), None),
            },
        };
        let attaches = target.attach.is_some();
        let mut used = Used {
            whose: whose.clone(),
            arn: arn.base().to_owned(),
            express: false,
            attaches,
            log_group: None,
        };
        if arn.region() != self.region {
            let says = format!("`{}` is in another region than the backend, `{}`", arn.as_str(), self.region);
            return (
                Finding::fault(whose, says, "set the backend's `region`, or make a backend for each region"),
                None,
            );
        }
        let seen = self.api.describe_machine(arn.as_str()).await;
        let denied = seen.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
        needs.push(RequiredPermission {
            action: "states:DescribeStateMachine",
            resource: used.arn.clone(),
            whose: whose.clone(),
            verdict: Verdict::Fault,
            without: "nothing is started",
            attempt: Attempt::Made(denied.map(|failure| failure.error.to_string())),
        });
        let seen = match seen {
            Ok(seen) => seen,
            Err(failure) if failure.error.kind() == ErrorKind::Denied => {
                let says =
                    format!("whether `{}` is there cannot be found out: {}", arn.as_str(), failure.error);
                return (Finding::fault(whose, says, "allow `states:DescribeStateMachine`"), Some(used));
            }
            Err(failure) => return (Finding::fault(whose, failure.error.to_string(), elsewhere), None),
        };
        used.express = seen.r#type == StateMachineType::Express;
        let said = Description::from(&seen);
        let logs = match (used.express, &said.log_group) {
            (false, _) => String::new(),
            (true, Some(group)) => format!("; it logs to `{}`", group.name()),
            (true, None) => "; it logs nothing, so its tasks have no log".to_owned(),
        };
        used.log_group = said.log_group;
        let bound = match used.express && !target.unbounded {
            true => bound::check(said.definition.timeout_seconds, self.call_limit),
            false => Ok(()),
        };
        let finding = match (seen.status, used.express, bound) {
            (Some(StateMachineStatus::Deleting), ..) => {
                Finding::fault(whose, format!("`{}` is being deleted", arn.as_str()), elsewhere)
            }
            (_, true, _) if attaches => {
                let says = "an execution of an Express state machine cannot be followed";
                Finding::fault(whose, says, "remove `attach`, or follow a Standard one")
            }
            (_, _, Err(Unbounded { says, fix })) => Finding::fault(whose, says, fix),
            _ => Finding::ok(whose, format!("it starts `{}`, {}{logs}", arn.as_str(), seen.r#type.as_str())),
        };
        (finding, Some(used))
    }

    /// Adds the state machines that discovery found so far, which may be none, up to `MOST_DISCOVERED` in
    /// `used`. Adds a warning for each one that cannot be offered as a tool.
    fn of_discovered(&self, found: &mut Vec<Finding>, used: &mut Vec<Used>) {
        if self.settings.discovers.is_none() {
            return;
        }
        for (machine, tool) in self.tools() {
            let what = format!("state machine `{}`", machine.name);
            if let Err(why) = tool {
                let says = format!("it is not offered as a tool: {why}");
                found.push(Finding::warning(
                    what,
                    says,
                    "mend it there, or write a tool for it into the config",
                ));
                continue;
            }
            if used.len() < MOST_DISCOVERED {
                let whose = format!("discovered `{}`", machine.name);
                let DiscoveredMachine { arn, express, log_group, .. } = machine;
                used.push(Used { whose, arn, express, attaches: false, log_group });
            }
        }
    }
}

fn clock(ClockReading { theirs, ours }: ClockReading) -> Finding {
    Finding::clock("AWS's", theirs, ours, SKEW)
}

fn no_clock() -> Finding {
    Finding::warning(
        "clock",
        "the answers do not say what time it is at AWS",
        "see that this machine's clock is set by NTP",
    )
}
