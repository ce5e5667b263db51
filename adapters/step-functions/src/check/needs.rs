//! Permissions that the tools, the discovery and the questions of a config need. Apart from one call for each
//! activity and the queue, it tries none: [`crate::check::permissions`] does.

use std::collections::BTreeSet;

use taskbridge_sdk::{ErrorKind, Finding, Verdict};

use crate::check::permissions::{Attempt, RequiredPermission, STARTED_HERE, execution_arn};
use crate::core::{Settings, StepFunctions};
use crate::driver::log_group::LogGroup;
use crate::hooks::SECRET_HEADER;

/// State machine of a tool, configured or discovered.
pub(crate) struct ToolMachine {
    pub(crate) required_by: String,
    /// Without a version or alias.
    pub(crate) arn: String,
    pub(crate) express: bool,
    pub(crate) attaches: bool,
    /// Log group of its executions, if they log.
    pub(crate) log_group: Option<LogGroup>,
}

/// Adds the permissions for the state machine of a tool. `asks_questions` is true if steps can ask users.
pub(crate) fn add_machine_permissions(
    machine: &ToolMachine,
    asks_questions: bool,
    permissions: &mut Vec<RequiredPermission>,
) {
    let ToolMachine { required_by, arn, express, attaches, log_group } = machine;
    let mut add = |action, verdict, consequence, attempt: fn(String) -> Attempt, is_execution: bool| {
        let resource = match is_execution {
            true if *attaches => execution_arn(arn, "*"),
            true => execution_arn(arn, STARTED_HERE),
            false => arn.clone(),
        };
        let attempt = attempt(arn.clone());
        permissions.push(RequiredPermission {
            action,
            resource,
            required_by: required_by.clone(),
            verdict,
            consequence,
            attempt,
        });
    };
    let fault = Verdict::Fault;
    if *express {
        add("states:StartSyncExecution", fault, "nothing is started", Attempt::StartSync, false);
        permissions.extend(log_group.as_ref().map(|group| RequiredPermission {
            action: "logs:FilterLogEvents",
            resource: group.arn().to_owned(),
            required_by: required_by.clone(),
            verdict: Verdict::Warning,
            consequence: "tasks have no log",
            attempt: Attempt::LogEvents(group.name().to_owned()),
        }));
        return;
    }
    if !attaches {
        add("states:StartExecution", fault, "nothing is started", Attempt::Start, false);
        add("states:StopExecution", fault, "tasks cannot be cancelled", Attempt::Stop, true);
    }
    add("states:DescribeExecution", fault, "ends of executions are not detected", Attempt::Describe, true);
    let list_consequence = "executions are polled one by one, which needs many calls";
    add("states:ListExecutions", Verdict::Warning, list_consequence, Attempt::ListExecutions, false);
    let (verdict, consequence) = match asks_questions {
        true => (fault, "questions are not detected"),
        false => (
            Verdict::Warning,
            "there is no progress, failures do not name their state, and only state machines that log have a log",
        ),
    };
    add("states:GetExecutionHistory", verdict, consequence, Attempt::History, true);
}

/// Adds the permissions of discovery, except the list, for all state machines that it may find.
/// `arn_prefix` is `arn:PARTITION:states:REGION:ACCOUNT`, `name_pattern` the pattern of their names.
pub(crate) fn add_discovery_permissions(
    settings: &Settings,
    arn_prefix: &str,
    name_pattern: &str,
    tag_attempt: Attempt,
    permissions: &mut Vec<RequiredPermission>,
) {
    let machine_pattern = format!("{arn_prefix}:stateMachine:{name_pattern}");
    let required_by = "discovery".to_owned();
    let (verdict, consequence) = match settings.filters_by_tags {
        true => (Verdict::Fault, "tools are not discovered"),
        false => (Verdict::Warning, "tags do not describe tools"),
    };
    let (action, resource) = ("states:ListTagsForResource", machine_pattern.clone());
    permissions.push(RequiredPermission {
        action,
        resource,
        required_by: required_by.clone(),
        verdict,
        consequence,
        attempt: tag_attempt,
    });
    // The state machines found so far are tried one by one. These entries add future ones to the policy.
    let answer_actions = ["states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"];
    let answer_actions = answer_actions
        .into_iter()
        .filter(|_| settings.asks_questions)
        .map(|action| (action, machine_pattern.clone()));
    let actions = [
        ("states:DescribeStateMachine", machine_pattern.clone()),
        ("states:StartExecution", machine_pattern.clone()),
        ("states:StartSyncExecution", machine_pattern.clone()),
        ("states:ListExecutions", machine_pattern.clone()),
        ("states:StopExecution", execution_arn(&machine_pattern, STARTED_HERE)),
        ("states:DescribeExecution", execution_arn(&machine_pattern, STARTED_HERE)),
        ("states:GetExecutionHistory", execution_arn(&machine_pattern, STARTED_HERE)),
    ];
    for (action, resource) in actions.into_iter().chain(answer_actions) {
        let (required_by, verdict) = (required_by.clone(), Verdict::Fault);
        permissions.push(RequiredPermission {
            action,
            resource,
            required_by,
            verdict,
            consequence: "",
            attempt: Attempt::None,
        });
    }
}

impl StepFunctions {
    pub(crate) fn add_discovered_permissions(
        &self,
        tool_machines: &[ToolMachine],
        permissions: &mut Vec<RequiredPermission>,
    ) {
        let Some(name_pattern) = &self.settings.discovery_pattern else { return };
        let arn_prefix = tool_machines.first().and_then(|machine| machine.arn.split_once(":stateMachine:"));
        let arn_prefix = arn_prefix
            .map_or_else(|| format!("arn:aws:states:{}:*", self.region), |(prefix, _)| prefix.to_owned());
        let example = self.tools().into_iter().next().map(|(machine, _)| machine.arn);
        add_discovery_permissions(
            &self.settings,
            &arn_prefix,
            name_pattern,
            example.map_or(Attempt::None, Attempt::Tags),
            permissions,
        );
    }

    /// Checks activities, the queue and the hook, and adds the permissions for them.
    pub(crate) async fn check_question_channels(
        &self,
        tool_machines: &[ToolMachine],
        findings: &mut Vec<Finding>,
        permissions: &mut Vec<RequiredPermission>,
    ) {
        for activity in &self.settings.activities {
            let subject = format!("activity `{activity}`");
            let consequence = "questions of steps do not arrive";
            findings.push(match self.api.describe_activity(activity).await {
                Ok(()) => Finding::ok(subject, "exists; the server's log shows whether it can be polled"),
                Err(failure) if failure.error.kind() == ErrorKind::Denied => Finding::ok(
                    subject,
                    "not checked: `states:DescribeActivity` is denied, and the server does not need it",
                ),
                Err(failure) => {
                    Finding::fault(subject, failure.error.to_string(), "create it, or correct `activities`")
                }
            });
            permissions.push(RequiredPermission {
                action: "states:GetActivityTask",
                resource: activity.clone(),
                required_by: "activities".to_owned(),
                verdict: Verdict::Fault,
                consequence,
                attempt: Attempt::None,
            });
        }
        if let (Some(url), Some(queue)) = (&self.settings.queue, &self.sources.queue) {
            let result = queue.try_receive().await;
            let resource =
                queue_arn(url, &self.region, tool_machines.first().map(|machine| machine.arn.as_str()));
            let denied = result.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
            let (receive, delete) = (denied.map(|failure| failure.error.to_string()), Attempt::DeleteMessage);
            for (action, attempt) in
                [("sqs:ReceiveMessage", Attempt::AlreadyTried(receive)), ("sqs:DeleteMessage", delete)]
            {
                let (resource, required_by) = (resource.clone(), "the queue".to_owned());
                let consequence = "questions of steps do not arrive";
                permissions.push(RequiredPermission {
                    action,
                    resource,
                    required_by,
                    verdict: Verdict::Fault,
                    consequence,
                    attempt,
                });
            }
            match result {
                Ok(()) => findings.push(Finding::ok("queue", format!("`{url}` can be read"))),
                Err(failure) if failure.error.kind() == ErrorKind::Denied => {}
                Err(failure) => findings.push(Finding::fault(
                    "queue",
                    format!("`{url}`: {}", failure.error),
                    "create the queue, or correct `queue`",
                )),
            }
        }
        if self.settings.asks_questions {
            let arns: BTreeSet<&str> = tool_machines.iter().map(|machine| machine.arn.as_str()).collect();
            for (action, attempt) in [
                ("states:SendTaskSuccess", Attempt::TaskSuccess),
                ("states:SendTaskFailure", Attempt::TaskFailure),
                ("states:SendTaskHeartbeat", Attempt::TaskHeartbeat),
            ] {
                for (at, machine) in arns.iter().enumerate() {
                    // An invalid token belongs to no state machine, so one call is made for all of them, and
                    // a denial need not concern one of these.
                    let attempt = if at == 0 { attempt.clone() } else { Attempt::None };
                    let (resource, required_by) = ((*machine).to_owned(), "questions".to_owned());
                    let (verdict, consequence) =
                        (Verdict::Warning, "answers do not reach the steps that asked");
                    permissions.push(RequiredPermission {
                        action,
                        resource,
                        required_by,
                        verdict,
                        consequence,
                        attempt,
                    });
                }
            }
        }
        if self.settings.has_hook {
            let message = format!(
                "/hooks/{} accepts posts with the secret in `{SECRET_HEADER}`; this check cannot test whether EventBridge \
                 reaches this server: see the rule's metric FailedInvocations",
                self.settings.backend
            );
            findings.push(Finding::ok("webhook", message));
        }
    }
}

/// Returns the ARN of a queue: account and name from its URL, the partition from a state machine.
pub(crate) fn queue_arn(url: &str, region: &str, machine: Option<&str>) -> String {
    let mut parts = url.rsplit('/');
    let (name, account) = (parts.next().unwrap_or("*"), parts.next().unwrap_or("*"));
    let partition = machine.and_then(|arn| arn.split(':').nth(1)).unwrap_or("aws");
    format!("arn:{partition}:sqs:{region}:{account}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URL of a queue becomes the ARN that a policy needs, in the partition of the state machine.
    #[test]
    fn queue_url_becomes_queue_arn() {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/ask";
        assert_eq!(
            queue_arn(url, "eu-central-1", Some("arn:aws-cn:states:x")),
            "arn:aws-cn:sqs:eu-central-1:123456789012:ask"
        );
    }
}
