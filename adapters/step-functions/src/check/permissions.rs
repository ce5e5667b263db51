//! Check of the permissions that a config needs. Each permission is tried by a call that has no effect: a
//! read, or a change of something that does not exist. A permission that no such call shows is not tried, but
//! is part of the printed policy.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{ErrorKind, Finding, Secret, Verdict};

use crate::check::policy::{Policy, too_large};
use crate::check::trust;
use crate::core::StepFunctions;
use crate::driver::api::{ApiResult, StartRequest};
use crate::driver::callers::Signer;
use crate::driver::clock_skew;
use crate::driver::error::{Failure, Repeat};
use crate::driver::log_group::Window;
use crate::driver::queue::Receipt;

/// Name that no execution has, but that a policy for executions started here covers. Also serves as an
/// invalid token and receipt.
const NONEXISTENT: &str = "tb-doctor";
/// Version that no state machine has. AWS checks the permission to start it on the state machine itself.
const NONEXISTENT_VERSION: &str = "999999999";
/// Number of permissions tried concurrently.
const CONCURRENCY: usize = 8;

/// Actions on behalf of people, with their credentials if `per_caller` is set.
const CALLER_ACTIONS: [&str; 5] = [
    "states:StartExecution",
    "states:StartSyncExecution",
    "states:StopExecution",
    "states:SendTaskSuccess",
    "states:SendTaskFailure",
];

/// Splits permissions into those of people's credentials and those of the bridge's own, with `per_caller`.
pub(crate) fn split_by_credentials(
    permissions: Vec<RequiredPermission>,
) -> (Vec<RequiredPermission>, Vec<RequiredPermission>) {
    permissions.into_iter().partition(|permission| CALLER_ACTIONS.contains(&permission.action))
}

/// Required permission.
#[derive(Clone, Debug)]
pub(crate) struct RequiredPermission {
    pub(crate) action: &'static str,
    /// Resource as a policy names it.
    pub(crate) resource: String,
    /// What requires it, such as "tool `deploy`".
    pub(crate) required_by: String,
    /// Verdict if it is missing: a fault or a warning. `consequence` is what then fails.
    pub(crate) verdict: Verdict,
    pub(crate) consequence: &'static str,
    pub(crate) attempt: Attempt,
}

/// How a permission is tried. The text is the ARN of a state machine, unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// Already tried: `None` if allowed, otherwise AWS's message.
    AlreadyTried(Option<String>),
    /// No call would show it without an effect.
    None,
    Start(String),
    StartSync(String),
    ListExecutions(String),
    /// `Describe`, `Stop` and `History` name an execution of the state machine that does not exist.
    Describe(String),
    Stop(String),
    History(String),
    Tags(String),
    /// The text is the name of a log group.
    LogEvents(String),
    TaskSuccess,
    TaskFailure,
    TaskHeartbeat,
    /// Names a message of the queue that does not exist.
    DeleteMessage,
}

/// Result of an attempt.
enum AttemptOutcome {
    Allowed,
    Denied(String),
    Unknown(String),
    NotTried,
}

impl StepFunctions {
    /// Tries all permissions, each with the credentials that need it. Returns a finding for each action that
    /// was tried and, if any finding is not ok, the complete policy. `caller_signer` is a session of the
    /// role for people, if there is such a role and it can be assumed. If it cannot, the permissions of
    /// people are not tried.
    pub(crate) async fn try_all(
        &self,
        permissions: Vec<RequiredPermission>,
        caller_signer: Option<Signer>,
    ) -> Vec<Finding> {
        let Some(sessions) = &self.caller_sessions else {
            return self
                .try_with_signer(
                    &Signer::Bridge,
                    permissions,
                    Policy::default(),
                    "the identity of the credentials",
                )
                .await;
        };
        let (caller_permissions, bridge_permissions) = split_by_credentials(permissions);
        let mut policy = Policy::default();
        trust::allow(&sessions.config, &mut policy);
        let mut findings = self
            .try_with_signer(
                &Signer::Bridge,
                bridge_permissions,
                policy,
                "the identity of the bridge's own credentials",
            )
            .await;
        if let Some(signer) = caller_signer {
            findings.extend(
                self.try_with_signer(
                    &signer,
                    caller_permissions,
                    Policy::default(),
                    "the role of `per_caller`",
                )
                .await,
            );
        }
        findings
    }

    async fn try_with_signer(
        &self,
        by: &Signer,
        permissions: Vec<RequiredPermission>,
        mut policy: Policy,
        grantee: &str,
    ) -> Vec<Finding> {
        permissions
            .iter()
            .for_each(|permission| policy.allow(permission.action, permission.resource.as_str()));
        let attempts = stream::iter(permissions).map(|permission| async move {
            let outcome = self.outcome(by, &permission.attempt).await;
            (permission, outcome)
        });
        let mut by_action: BTreeMap<&'static str, Vec<(RequiredPermission, AttemptOutcome)>> =
            BTreeMap::new();
        for (permission, outcome) in attempts.buffered(CONCURRENCY).collect::<Vec<_>>().await {
            by_action.entry(permission.action).or_default().push((permission, outcome));
        }
        let mut findings: Vec<Finding> = by_action
            .into_iter()
            .filter_map(|(action, attempts)| action_finding(action, &attempts))
            .collect();
        if findings.iter().any(|finding| finding.verdict != Verdict::Ok) {
            let (document, message) = (
                policy.document(),
                format!("IAM policy for {grantee}, with all permissions that the config needs"),
            );
            let policy = match too_large(&document) {
                None => Finding::ok("policy", message),
                Some(reason) => Finding::warning("policy", format!("{message}; {reason}"), ""),
            };
            findings.push(Finding { fix: Some(format!("{document:#}")), ..policy });
        }
        findings
    }

    async fn outcome(&self, by: &Signer, attempt: &Attempt) -> AttemptOutcome {
        let result = match attempt {
            Attempt::AlreadyTried(None) => return AttemptOutcome::Allowed,
            Attempt::AlreadyTried(Some(message)) => return AttemptOutcome::Denied(message.clone()),
            Attempt::None => return AttemptOutcome::NotTried,
            attempt => self.attempt(by, attempt).await,
        };
        match result {
            Ok(()) => AttemptOutcome::Allowed,
            // The response "does not exist" shows that the caller was allowed to ask.
            Err(Failure { error, .. }) => match error.kind() {
                ErrorKind::Rejected | ErrorKind::Config => AttemptOutcome::Allowed,
                ErrorKind::Denied => AttemptOutcome::Denied(error.to_string()),
                _ => AttemptOutcome::Unknown(error.to_string()),
            },
        }
    }

    async fn attempt(&self, by: &Signer, attempt: &Attempt) -> ApiResult<()> {
        let (token, receipt) = (Secret::from(NONEXISTENT), Receipt(NONEXISTENT.to_owned()));
        let nonexistent_version_of = |machine: &str| format!("{machine}:{NONEXISTENT_VERSION}");
        match attempt {
            Attempt::AlreadyTried(_) | Attempt::None => Ok(()),
            Attempt::Start(machine) => {
                let machine = nonexistent_version_of(machine);
                let request = StartRequest { machine: &machine, name: NONEXISTENT, input: "{}", trace: None };
                self.api.start(by, &request, Repeat::Safe).await.map(drop)
            }
            Attempt::StartSync(machine) => {
                let machine = nonexistent_version_of(machine);
                let request = StartRequest { machine: &machine, name: NONEXISTENT, input: "{}", trace: None };
                self.api.start_sync(by, &request).await.map(drop)
            }
            Attempt::ListExecutions(machine) => self.api.list_running(machine, None).await.map(drop),
            Attempt::Describe(machine) => {
                self.api.describe(&execution_arn(machine, NONEXISTENT)).await.map(drop)
            }
            Attempt::Stop(machine) => {
                self.api.stop(by, &execution_arn(machine, NONEXISTENT), NONEXISTENT, NONEXISTENT).await
            }
            Attempt::History(machine) => {
                self.api.history(&execution_arn(machine, NONEXISTENT), 1, false, None).await.map(drop)
            }
            Attempt::Tags(machine) => self.api.tags(machine).await.map(drop),
            Attempt::LogEvents(group) => {
                let window = Window::of(Some(clock_skew::now()), None);
                self.api.log_events(group, NONEXISTENT, window, None).await.map(drop)
            }
            Attempt::TaskSuccess => self.api.task_success(by, &token, "{}").await,
            Attempt::TaskFailure => self.api.task_failure(by, &token, NONEXISTENT, NONEXISTENT).await,
            Attempt::TaskHeartbeat => self.api.task_heartbeat(&token).await,
            Attempt::DeleteMessage => match &self.sources.queue {
                Some(queue) => queue.delete(&receipt).await,
                None => Ok(()),
            },
        }
    }
}

/// Pattern of the names of executions that servers like this one start.
pub(crate) const STARTED_HERE: &str = "tb-*";

/// Returns the ARN of an execution of a state machine, or with `*` a pattern for all of them.
pub(crate) fn execution_arn(machine: &str, name: &str) -> String {
    format!("{}:{name}", machine.replacen(":stateMachine:", ":execution:", 1))
}

/// Returns the finding for one action, or `None` if no call could show it.
fn action_finding(action: &str, attempts: &[(RequiredPermission, AttemptOutcome)]) -> Option<Finding> {
    let subject = format!("permission {action}");
    let required_by = |matches: fn(&AttemptOutcome) -> bool| {
        let names = attempts
            .iter()
            .filter(|(_, outcome)| matches(outcome))
            .map(|(permission, _)| permission.required_by.as_str());
        let mut names: Vec<&str> = names.collect();
        names.dedup();
        names.join(", ")
    };
    let missing = attempts.iter().find_map(|(permission, outcome)| match outcome {
        AttemptOutcome::Denied(message) => Some((permission, message)),
        _ => None,
    });
    if let Some((permission, message)) = missing {
        let denied = required_by(|outcome| matches!(outcome, AttemptOutcome::Denied(_)));
        let denied_resource = |(permission, outcome): &(RequiredPermission, AttemptOutcome)| {
            matches!(outcome, AttemptOutcome::Denied(_)).then(|| permission.resource.clone())
        };
        let mut resources: Vec<String> = attempts.iter().filter_map(denied_resource).collect();
        resources.dedup();
        return Some(Finding {
            what: subject,
            verdict: permission.verdict,
            says: format!("denied for {denied}: {message}; without it, {}", permission.consequence),
            fix: Some(format!("allow `{action}` on {}; the policy below contains it", resources.join(", "))),
        });
    }
    let unknown = attempts.iter().find_map(|(_, outcome)| match outcome {
        AttemptOutcome::Unknown(message) => Some(message),
        _ => None,
    });
    if let Some(message) = unknown {
        let fix = "run the doctor again once Step Functions responds";
        return Some(Finding::warning(subject, format!("cannot be checked: {message}"), fix));
    }
    let allowed = required_by(|outcome| matches!(outcome, AttemptOutcome::Allowed));
    (!allowed.is_empty()).then(|| Finding::ok(subject, format!("allowed for {allowed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(required_by: &str) -> RequiredPermission {
        RequiredPermission {
            action: "states:StopExecution",
            resource: format!("arn:{required_by}"),
            required_by: required_by.to_owned(),
            verdict: Verdict::Fault,
            consequence: "tasks cannot be cancelled",
            attempt: Attempt::None,
        }
    }

    /// The finding names only the targets for which an action is denied, and what to allow.
    #[test]
    fn denied_permission_names_its_targets() {
        let tried = [
            (permission("a"), AttemptOutcome::Allowed),
            (permission("b"), AttemptOutcome::Denied("no".to_owned())),
            (permission("c"), AttemptOutcome::Denied("no, too".to_owned())),
        ];
        let finding = action_finding("states:StopExecution", &tried).unwrap();
        assert_eq!(finding.verdict, Verdict::Fault);
        assert_eq!(finding.says, "denied for b, c: no; without it, tasks cannot be cancelled");
        let fix = finding.fix.unwrap();
        assert!(fix.starts_with("allow `states:StopExecution` on arn:b, arn:c;"), "{fix}");
        let fine = action_finding(
            "x",
            &[(permission("a"), AttemptOutcome::Allowed), (permission("b"), AttemptOutcome::NotTried)],
        )
        .unwrap();
        assert_eq!((fine.verdict, fine.says.as_str()), (Verdict::Ok, "allowed for a"));
        assert!(action_finding("x", &[(permission("a"), AttemptOutcome::NotTried)]).is_none());
        let unknown =
            action_finding("x", &[(permission("a"), AttemptOutcome::Unknown("busy".to_owned()))]).unwrap();
        assert_eq!(unknown.verdict, Verdict::Warning);
    }

    #[test]
    fn executions_are_named_after_their_machine() {
        let machine = "arn:aws:states:r:1:stateMachine:m";
        assert_eq!(execution_arn(machine, "*"), "arn:aws:states:r:1:execution:m:*");
    }
}
