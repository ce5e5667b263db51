//! Permissions that the tools, the discovery and the questions of a config need. Apart from a look at each
//! activity and the queue, it tries none: [`crate::permissions`] does.

use std::collections::BTreeSet;

use taskbridge_sdk::{ErrorKind, Finding, Verdict};

use crate::backend::StepFunctions;
use crate::checkup::Settings;
use crate::cloudwatch::LogGroup;
use crate::hooks::HEADER;
use crate::permissions::{Attempt, RequiredPermission, STARTED_HERE, execution};

/// State machine of a tool, configured or discovered.
pub(crate) struct Used {
    pub(crate) whose: String,
    /// Without a version or alias.
    pub(crate) arn: String,
    pub(crate) express: bool,
    pub(crate) attaches: bool,
    /// Log group of its executions, if they log.
    pub(crate) log_group: Option<LogGroup>,
}

/// Adds the permissions for the state machine of a tool. `asks` is true if steps can ask users.
pub(crate) fn of_machine(machine: &Used, asks: bool, needs: &mut Vec<RequiredPermission>) {
    let Used { whose, arn, express, attaches, log_group } = machine;
    let mut need = |action, verdict, without, attempt: fn(String) -> Attempt, of_execution: bool| {
        let resource = match of_execution {
            true if *attaches => execution(arn, "*"),
            true => execution(arn, STARTED_HERE),
            false => arn.clone(),
        };
        let attempt = attempt(arn.clone());
        needs.push(RequiredPermission { action, resource, whose: whose.clone(), verdict, without, attempt });
    };
    let fault = Verdict::Fault;
    if *express {
        need("states:StartSyncExecution", fault, "nothing is started", Attempt::StartSync, false);
        needs.extend(log_group.as_ref().map(|group| RequiredPermission {
            action: "logs:FilterLogEvents",
            resource: group.arn().to_owned(),
            whose: whose.clone(),
            verdict: Verdict::Warning,
            without: "tasks have no log",
            attempt: Attempt::Logged(group.name().to_owned()),
        }));
        return;
    }
    if !attaches {
        need("states:StartExecution", fault, "nothing is started", Attempt::Start, false);
        need("states:StopExecution", fault, "tasks cannot be cancelled", Attempt::Stop, true);
    }
    need("states:DescribeExecution", fault, "nobody sees how executions end", Attempt::Describe, true);
    let lists = "executions are looked at one by one, which takes many calls";
    need("states:ListExecutions", Verdict::Warning, lists, Attempt::ListExecutions, false);
    let (verdict, without) = match asks {
        true => (fault, "questions are not seen"),
        false => (
            Verdict::Warning,
            "there is no progress, and a failure does not name its state; there is a log only where the state machine logs",
        ),
    };
    need("states:GetExecutionHistory", verdict, without, Attempt::History, true);
}

/// Adds the permissions of discovery, except the list, for all state machines that it may find. `place` is
/// `arn:PARTITION:states:REGION:ACCOUNT`, `names` is the pattern of their names.
pub(crate) fn of_discovery(
    settings: &Settings,
    place: &str,
    names: &str,
    tags: Attempt,
    needs: &mut Vec<RequiredPermission>,
) {
    let machines = format!("{place}:stateMachine:{names}");
    let whose = "discovery".to_owned();
    let (verdict, without) = match settings.filters_by_tags {
        true => (Verdict::Fault, "tools are not discovered"),
        false => (Verdict::Warning, "tags say nothing about tools"),
    };
    let (action, resource) = ("states:ListTagsForResource", machines.clone());
    needs.push(RequiredPermission {
        action,
        resource,
        whose: whose.clone(),
        verdict,
        without,
        attempt: tags,
    });
    // The state machines found so far are tried one by one. These entries add future ones to the policy.
    let asks = ["states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"];
    let asks = asks.into_iter().filter(|_| settings.asks).map(|action| (action, machines.clone()));
    let all = [
        ("states:DescribeStateMachine", machines.clone()),
        ("states:StartExecution", machines.clone()),
        ("states:StartSyncExecution", machines.clone()),
        ("states:ListExecutions", machines.clone()),
        ("states:StopExecution", execution(&machines, STARTED_HERE)),
        ("states:DescribeExecution", execution(&machines, STARTED_HERE)),
        ("states:GetExecutionHistory", execution(&machines, STARTED_HERE)),
    ];
    for (action, resource) in all.into_iter().chain(asks) {
        let (whose, verdict) = (whose.clone(), Verdict::Fault);
        needs.push(RequiredPermission {
            action,
            resource,
            whose,
            verdict,
            without: "",
            attempt: Attempt::None,
        });
    }
}

impl StepFunctions {
    pub(crate) fn needs_of_discovery(&self, used: &[Used], needs: &mut Vec<RequiredPermission>) {
        let Some(names) = &self.settings.discovers else { return };
        let place = used.first().and_then(|machine| machine.arn.split_once(":stateMachine:"));
        let place =
            place.map_or_else(|| format!("arn:aws:states:{}:*", self.region), |(place, _)| place.to_owned());
        let one = self.tools().into_iter().next().map(|(machine, _)| machine.arn);
        of_discovery(&self.settings, &place, names, one.map_or(Attempt::None, Attempt::Tags), needs);
    }

    /// Checks activities, the queue and the hook, and adds the permissions for them.
    pub(crate) async fn of_ways(
        &self,
        used: &[Used],
        found: &mut Vec<Finding>,
        needs: &mut Vec<RequiredPermission>,
    ) {
        for activity in &self.settings.activities {
            let what = format!("activity `{activity}`");
            let without = "what steps ask by it is not seen";
            found.push(match self.api.describe_activity(activity).await {
                Ok(()) => Finding::ok(what, "it is there; whether it may be polled, the server's log says"),
                Err(failure) if failure.error.kind() == ErrorKind::Denied => Finding::ok(
                    what,
                    "whether it is there may not be asked (`states:DescribeActivity`), and need not be",
                ),
                Err(failure) => {
                    Finding::fault(what, failure.error.to_string(), "create it, or mend `activities`")
                }
            });
            needs.push(RequiredPermission {
                action: "states:GetActivityTask",
                resource: activity.clone(),
                whose: "activities".to_owned(),
                verdict: Verdict::Fault,
                without,
                attempt: Attempt::None,
            });
        }
        if let (Some(url), Some(queue)) = (&self.settings.queue, &self.sources.queue) {
            let received = queue.try_receive().await;
            let resource = queue_arn(url, &self.region, used.first().map(|machine| machine.arn.as_str()));
            let denied = received.as_ref().err().filter(|failure| failure.error.kind() == ErrorKind::Denied);
            let (receive, delete) = (denied.map(|failure| failure.error.to_string()), Attempt::Delete);
            for (action, attempt) in
                [("sqs:ReceiveMessage", Attempt::Made(receive)), ("sqs:DeleteMessage", delete)]
            {
                let (resource, whose) = (resource.clone(), "the queue".to_owned());
                let without = "what steps ask by it is not seen";
                needs.push(RequiredPermission {
                    action,
                    resource,
                    whose,
                    verdict: Verdict::Fault,
                    without,
                    attempt,
                });
            }
            match received {
                Ok(()) => found.push(Finding::ok("queue", format!("`{url}` can be read"))),
                Err(failure) if failure.error.kind() == ErrorKind::Denied => {}
                Err(failure) => found.push(Finding::fault(
                    "queue",
                    format!("`{url}`: {}", failure.error),
                    "create the queue, or mend `queue`",
                )),
            }
        }
        if self.settings.asks {
            let machines: BTreeSet<&str> = used.iter().map(|machine| machine.arn.as_str()).collect();
            for (action, attempt) in [
                ("states:SendTaskSuccess", Attempt::Success),
                ("states:SendTaskFailure", Attempt::Failure),
                ("states:SendTaskHeartbeat", Attempt::Heartbeat),
            ] {
                for (at, machine) in machines.iter().enumerate() {
                    // An invalid token belongs to no state machine, so one call is made for all of them, and
                    // a denial need not concern one of these.
                    let attempt = if at == 0 { attempt.clone() } else { Attempt::None };
                    let (resource, whose) = ((*machine).to_owned(), "questions".to_owned());
                    let (verdict, without) = (Verdict::Warning, "answers do not reach the steps that asked");
                    needs.push(RequiredPermission { action, resource, whose, verdict, without, attempt });
                }
            }
        }
        if self.settings.takes_hooks {
            let says = format!(
                "what is posted to /hooks/{} with the secret in `{HEADER}` is taken; whether EventBridge reaches this server \
                 cannot be seen from here: the rule's metric FailedInvocations tells",
                self.settings.backend
            );
            found.push(Finding::ok("webhook", says));
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
