//! Self-check for `taskbridge doctor`: credentials, clock, state machines, permissions, and the settings for
//! questions. It must only make calls that change nothing.

use std::time::Duration;

use aws_sdk_sfn::config::ProvideCredentials as _;
use aws_sdk_sfn::types::{StateMachineStatus, StateMachineType};
use taskbridge_sdk::{Checkup, ErrorKind, Finding, ToolTarget, Verdict, async_trait};

use crate::check::needs::{self, ToolMachine};
use crate::check::permissions::{Attempt, RequiredPermission};
use crate::check::trust;
use crate::config::Target;
use crate::core::StepFunctions;
use crate::driver::api::ApiResult;
use crate::driver::clock_skew::{ClockReading, now};
use crate::driver::credentials;
use crate::driver::error::missing_credentials_error;
use crate::driver::machines::Description;
use crate::identity::arn::MachineArn;
use crate::store::discovery_cache::DiscoveredMachine;
use crate::submit::bound::{self, UnboundedError};

/// Clock difference above which AWS rejects signatures.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Number of state machines, including those of configured tools, from which on discovered ones are not
/// checked.
const MAX_DISCOVERED_CHECKED: usize = 20;

#[async_trait]
impl Checkup for StepFunctions {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let mut all_findings = vec![self.check_credentials().await];
        if all_findings[0].verdict == Verdict::Fault {
            return all_findings;
        }
        let (result, reading) = self.api.probe().await;
        if let Err(fault) = self.check_probe(&result) {
            all_findings.extend(reading.map(clock));
            all_findings.push(fault);
            return all_findings;
        }
        all_findings.push(Finding::ok("Step Functions", format!("reachable in `{}`", self.region)));
        all_findings.push(reading.map_or_else(no_clock, clock));
        all_findings.push(self.check_call_timeout());
        let mut caller_signer = None;
        if let Some(sessions) = &self.caller_sessions {
            let (findings, signer) = trust::check_role(sessions).await;
            all_findings.extend(findings);
            caller_signer = signer;
        }
        let mut permissions = Vec::new();
        let by_name =
            |tool: &ToolTarget| !tool.target["state_machine"].as_str().unwrap_or("arn:").starts_with("arn:");
        if self.settings.discovery_pattern.is_some() || tools.iter().any(by_name) {
            permissions.push(self.list_permission(&result, tools.iter().find(|tool| by_name(tool))));
        }
        let mut tool_machines = Vec::new();
        for tool in tools {
            let (finding, machine) = self.check_tool(tool, &mut permissions).await;
            all_findings.push(finding);
            tool_machines.extend(machine);
        }
        self.check_discovered(&mut all_findings, &mut tool_machines);
        for machine in &tool_machines {
            needs::add_machine_permissions(machine, self.settings.asks_questions, &mut permissions);
        }
        self.add_discovered_permissions(&tool_machines, &mut permissions);
        self.check_question_channels(&tool_machines, &mut all_findings, &mut permissions).await;
        all_findings.extend(self.try_all(permissions, caller_signer).await);
        all_findings
    }
}

impl StepFunctions {
    async fn check_credentials(&self) -> Finding {
        let subject = "credentials";
        match self.credentials.provide_credentials().await {
            Ok(credentials) => credentials::describe_credentials(&credentials, now()),
            Err(error) => {
                let error = missing_credentials_error("loading credentials", &error);
                let fix = "configure credentials as for any AWS tool: `aws configure`, `aws sso login`, a `profile`, or a role of \
                           the machine or container";
                Finding::fault(subject, error.to_string(), fix)
            }
        }
    }

    /// Returns a fault if further checks make no sense.
    fn check_probe(&self, result: &ApiResult<()>) -> Result<(), Finding> {
        let Err(failure) = result else { return Ok(()) };
        if failure.is_credentials_error() {
            let fix = "get new credentials (`aws sso login`, a new key), and check the clock";
            return Err(Finding::fault("credentials", failure.error.to_string(), fix));
        }
        match failure.error.kind() {
            ErrorKind::Denied | ErrorKind::Rejected | ErrorKind::Config => Ok(()),
            _ => {
                let address =
                    self.settings.endpoint.as_deref().unwrap_or("the default endpoint of the region");
                let message = format!("in `{}`, at {address}: {}", self.region, failure.error);
                let fix = "check that the region exists (`region`), that `endpoint` is right if it is set, and that this \
                           machine reaches AWS";
                Err(Finding::fault("Step Functions", message, fix))
            }
        }
    }

    fn check_call_timeout(&self) -> Finding {
        let (timeout, limit) = (self.call_timeout.as_secs_f64(), self.call_limit.as_secs_f64());
        let message = format!("timeout of an AWS call: {timeout} s; the server waits {limit} s for one");
        match timeout < limit {
            true => Finding::ok("call_timeout", message),
            false => Finding::warning(
                "call_timeout",
                message,
                "set it to less than half of `lease` in [reconciler]; otherwise slow failures are reported without their cause",
            ),
        }
    }

    fn list_permission(&self, result: &ApiResult<()>, named_tool: Option<&ToolTarget>) -> RequiredPermission {
        let required_by = match named_tool {
            Some(tool) => format!("tool `{}`, whose state machine is a name", tool.tool),
            None => "discovery".to_owned(),
        };
        let denied = result.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
        RequiredPermission {
            action: "states:ListStateMachines",
            resource: "*".to_owned(),
            required_by,
            verdict: Verdict::Fault,
            consequence: "state machines are not found",
            attempt: Attempt::AlreadyTried(denied.map(|failure| failure.error.to_string())),
        }
    }

    /// Checks that a tool's state machine exists and fits the tool. Adds to `permissions` only the one to
    /// describe it; the others follow from the returned state machine.
    async fn check_tool(
        &self,
        tool: &ToolTarget,
        permissions: &mut Vec<RequiredPermission>,
    ) -> (Finding, Option<ToolMachine>) {
        let subject = format!("tool `{}`", tool.tool);
        let target: Target = match tool.parse() {
            Ok(target) => target,
            Err(finding) => return (finding, None),
        };
        let machine_fix = "create the state machine, or correct `state_machine` in the tool's target";
        // A target that is not an ARN is resolved by its name.
        let arn = match MachineArn::parse(&target.state_machine) {
            Some(arn) => arn,
            None => match self.machines.resolve(&self.api, &self.region, &target.state_machine).await {
                Ok(machine) => machine.arn,
                Err(error) => return (Finding::fault(subject, error.to_string(), machine_fix), None),
            },
        };
        let attaches = target.attach.is_some();
        let mut tool_machine = ToolMachine {
            required_by: subject.clone(),
            arn: arn.base().to_owned(),
            express: false,
            attaches,
            log_group: None,
        };
        if arn.region() != self.region {
            let message =
                format!("`{}` is in another region than the backend, `{}`", arn.as_str(), self.region);
            return (
                Finding::fault(
                    subject,
                    message,
                    "set the backend's `region`, or configure one backend for each region",
                ),
                None,
            );
        }
        let result = self.api.describe_machine(arn.as_str()).await;
        let denied = result.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
        permissions.push(RequiredPermission {
            action: "states:DescribeStateMachine",
            resource: tool_machine.arn.clone(),
            required_by: subject.clone(),
            verdict: Verdict::Fault,
            consequence: "nothing is started",
            attempt: Attempt::AlreadyTried(denied.map(|failure| failure.error.to_string())),
        });
        let machine = match result {
            Ok(machine) => machine,
            Err(failure) if failure.error.kind() == ErrorKind::Denied => {
                let message = format!("`{}` cannot be checked: {}", arn.as_str(), failure.error);
                return (
                    Finding::fault(subject, message, "allow `states:DescribeStateMachine`"),
                    Some(tool_machine),
                );
            }
            Err(failure) => return (Finding::fault(subject, failure.error.to_string(), machine_fix), None),
        };
        tool_machine.express = machine.r#type == StateMachineType::Express;
        let description = Description::from(&machine);
        let log_note = match (tool_machine.express, &description.log_group) {
            (false, _) => String::new(),
            (true, Some(group)) => format!("; it logs to `{}`", group.name()),
            (true, None) => "; it logs nothing, so its tasks have no log".to_owned(),
        };
        tool_machine.log_group = description.log_group;
        let bound_check = match tool_machine.express && !target.unbounded {
            true => bound::check(description.definition.timeout_seconds, self.call_limit),
            false => Ok(()),
        };
        let finding = match (machine.status, tool_machine.express, bound_check) {
            (Some(StateMachineStatus::Deleting), ..) => {
                Finding::fault(subject, format!("`{}` is being deleted", arn.as_str()), machine_fix)
            }
            (_, true, _) if attaches => {
                let message = "an execution of an Express state machine cannot be followed";
                Finding::fault(subject, message, "remove `attach`, or follow a Standard state machine")
            }
            (_, _, Err(UnboundedError { reason, fix })) => Finding::fault(subject, reason, fix),
            _ => Finding::ok(
                subject,
                format!("starts `{}`, {}{log_note}", arn.as_str(), machine.r#type.as_str()),
            ),
        };
        (finding, Some(tool_machine))
    }

    /// Adds the state machines that discovery found so far, which may be none, up to `MAX_DISCOVERED_CHECKED`
    /// in `tool_machines`. Adds a warning for each one that cannot be offered as a tool.
    fn check_discovered(&self, findings: &mut Vec<Finding>, tool_machines: &mut Vec<ToolMachine>) {
        if self.settings.discovery_pattern.is_none() {
            return;
        }
        for (machine, tool) in self.tools() {
            let subject = format!("state machine `{}`", machine.name);
            if let Err(reason) = tool {
                let message = format!("not offered as a tool: {reason}");
                findings.push(Finding::warning(
                    subject,
                    message,
                    "fix the state machine, or configure a tool for it",
                ));
                continue;
            }
            if tool_machines.len() < MAX_DISCOVERED_CHECKED {
                let required_by = format!("discovered `{}`", machine.name);
                let DiscoveredMachine { arn, express, log_group, .. } = machine;
                tool_machines.push(ToolMachine { required_by, arn, express, attaches: false, log_group });
            }
        }
    }
}

fn clock(ClockReading { aws_time, local_time }: ClockReading) -> Finding {
    Finding::clock("AWS's", aws_time, local_time, MAX_CLOCK_SKEW)
}

fn no_clock() -> Finding {
    Finding::warning(
        "clock",
        "not checked: the responses of AWS have no valid `date` header",
        "check that NTP sets this machine's clock",
    )
}
