//! Check of the permissions that a config needs. Each permission is tried by a call that has no effect: a
//! read, or a change of something that does not exist. A permission that no such call shows is not tried, but
//! is part of the printed policy.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{ErrorKind, Finding, Verdict};

use crate::api::{ApiResult, StartRequest};
use crate::backend::StepFunctions;
use crate::caller_credentials::Signer;
use crate::clock_skew;
use crate::cloudwatch::Window;
use crate::failure::{Failure, Repeat};
use crate::policy::{Policy, too_large};
use crate::tokens::{Receipt, Token};
use crate::trust;

/// Name that no execution has, but that a policy for executions started here covers. Also serves as an
/// invalid token and receipt.
const NOBODY: &str = "tb-doctor";
/// Version that no state machine has. AWS checks the permission to start it on the state machine itself.
const NO_VERSION: &str = "999999999";
/// Number of permissions tried concurrently.
const AT_A_TIME: usize = 8;

/// Actions on behalf of people, with their credentials if `per_caller` is set.
const FOR_PEOPLE: [&str; 5] = [
    "states:StartExecution",
    "states:StartSyncExecution",
    "states:StopExecution",
    "states:SendTaskSuccess",
    "states:SendTaskFailure",
];

/// Splits permissions into those of people's credentials and those of the bridge's own, with `per_caller`.
pub(crate) fn for_people_and_bridge(
    needs: Vec<RequiredPermission>,
) -> (Vec<RequiredPermission>, Vec<RequiredPermission>) {
    needs.into_iter().partition(|need| FOR_PEOPLE.contains(&need.action))
}

/// Required permission.
#[derive(Clone, Debug)]
pub(crate) struct RequiredPermission {
    pub(crate) action: &'static str,
    /// Resource as a policy names it.
    pub(crate) resource: String,
    /// What requires it, such as "tool `deploy`".
    pub(crate) whose: String,
    /// Verdict if it is missing: a fault or a warning. `without` is the consequence.
    pub(crate) verdict: Verdict,
    pub(crate) without: &'static str,
    pub(crate) attempt: Attempt,
}

/// How a permission is tried. The text is the ARN of a state machine, unless stated otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Attempt {
    /// Already tried: `None` if allowed, otherwise AWS's message.
    Made(Option<String>),
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
    Logged(String),
    Success,
    Failure,
    Heartbeat,
    /// Names a message of the queue that does not exist.
    Delete,
}

/// Result of an attempt.
enum Outcome {
    Allowed,
    Denied(String),
    Unknown(String),
    NotTried,
}

impl StepFunctions {
    /// Tries all permissions, each with the credentials that need it. Returns a finding for each action that
    /// was tried and, if any finding is not ok, the complete policy. `person` is a session of the role for
    /// people, if there is such a role and it can be assumed. If it cannot, the permissions of people are not
    /// tried.
    pub(crate) async fn try_all(
        &self,
        needs: Vec<RequiredPermission>,
        person: Option<Signer>,
    ) -> Vec<Finding> {
        let Some(persons) = &self.persons else {
            return self
                .try_by(&Signer::Own, needs, Policy::default(), "whom the credentials belong to")
                .await;
        };
        let (theirs, ours) = for_people_and_bridge(needs);
        let mut policy = Policy::default();
        trust::allow(&persons.wanted, &mut policy);
        let mut found =
            self.try_by(&Signer::Own, ours, policy, "whom the bridge's own credentials belong to").await;
        if let Some(person) = person {
            found.extend(self.try_by(&person, theirs, Policy::default(), "the role of `per_caller`").await);
        }
        found
    }

    async fn try_by(
        &self,
        by: &Signer,
        needs: Vec<RequiredPermission>,
        mut policy: Policy,
        whose: &str,
    ) -> Vec<Finding> {
        needs.iter().for_each(|need| policy.allow(need.action, need.resource.as_str()));
        let tried = stream::iter(needs).map(|need| async move {
            let outcome = self.outcome(by, &need.attempt).await;
            (need, outcome)
        });
        let mut by_action: BTreeMap<&'static str, Vec<(RequiredPermission, Outcome)>> = BTreeMap::new();
        for (need, outcome) in tried.buffered(AT_A_TIME).collect::<Vec<_>>().await {
            by_action.entry(need.action).or_default().push((need, outcome));
        }
        let mut found: Vec<Finding> =
            by_action.into_iter().filter_map(|(action, tried)| judged(action, &tried)).collect();
        if found.iter().any(|finding| finding.verdict != Verdict::Ok) {
            let (document, says) = (
                policy.document(),
                format!("this is all that the config needs, as an IAM policy for {whose}"),
            );
            let policy = match too_large(&document) {
                None => Finding::ok("policy", says),
                Some(why) => Finding::warning("policy", format!("{says}; {why}"), ""),
            };
            found.push(Finding { fix: Some(format!("{document:#}")), ..policy });
        }
        found
    }

    async fn outcome(&self, by: &Signer, attempt: &Attempt) -> Outcome {
        let answer = match attempt {
            Attempt::Made(None) => return Outcome::Allowed,
            Attempt::Made(Some(words)) => return Outcome::Denied(words.clone()),
            Attempt::None => return Outcome::NotTried,
            attempt => self.attempt(by, attempt).await,
        };
        match answer {
            Ok(()) => Outcome::Allowed,
            // The response "does not exist" shows that the caller was allowed to ask.
            Err(Failure { error, .. }) => match error.kind() {
                ErrorKind::Rejected | ErrorKind::Config => Outcome::Allowed,
                ErrorKind::Denied => Outcome::Denied(error.to_string()),
                _ => Outcome::Unknown(error.to_string()),
            },
        }
    }

    async fn attempt(&self, by: &Signer, attempt: &Attempt) -> ApiResult<()> {
        let (token, receipt) = (Token::new(NOBODY), Receipt(NOBODY.to_owned()));
        let nothing = |machine: &str| format!("{machine}:{NO_VERSION}");
        match attempt {
            Attempt::Made(_) | Attempt::None => Ok(()),
            Attempt::Start(machine) => {
                let machine = nothing(machine);
                let order = StartRequest { machine: &machine, name: NOBODY, input: "{}", trace: None };
                self.api.start(by, &order, Repeat::Safe).await.map(drop)
            }
            Attempt::StartSync(machine) => {
                let machine = nothing(machine);
                let order = StartRequest { machine: &machine, name: NOBODY, input: "{}", trace: None };
                self.api.start_sync(by, &order).await.map(drop)
            }
            Attempt::ListExecutions(machine) => self.api.running(machine, None).await.map(drop),
            Attempt::Describe(machine) => self.api.describe(&execution(machine, NOBODY)).await.map(drop),
            Attempt::Stop(machine) => self.api.stop(by, &execution(machine, NOBODY), NOBODY, NOBODY).await,
            Attempt::History(machine) => {
                self.api.history(&execution(machine, NOBODY), 1, false, None).await.map(drop)
            }
            Attempt::Tags(machine) => self.api.tags(machine).await.map(drop),
            Attempt::Logged(group) => {
                let window = Window::of(Some(clock_skew::now()), None);
                self.api.log_events(group, NOBODY, window, None).await.map(drop)
            }
            Attempt::Success => self.api.task_success(by, &token, "{}").await,
            Attempt::Failure => self.api.task_failure(by, &token, NOBODY, NOBODY).await,
            Attempt::Heartbeat => self.api.task_heartbeat(&token).await,
            Attempt::Delete => match &self.sources.queue {
                Some(queue) => queue.delete(&receipt).await,
                None => Ok(()),
            },
        }
    }
}

/// Pattern of the names of executions that servers like this one start.
pub(crate) const STARTED_HERE: &str = "tb-*";

/// Returns the ARN of an execution of a state machine, or with `*` a pattern for all of them.
pub(crate) fn execution(machine: &str, name: &str) -> String {
    format!("{}:{name}", machine.replacen(":stateMachine:", ":execution:", 1))
}

/// Returns the finding for one action, or `None` if no call could show it.
fn judged(action: &str, tried: &[(RequiredPermission, Outcome)]) -> Option<Finding> {
    let what = format!("permission {action}");
    let whose = |wanted: fn(&Outcome) -> bool| {
        let whose = tried.iter().filter(|(_, outcome)| wanted(outcome)).map(|(need, _)| need.whose.as_str());
        let mut whose: Vec<&str> = whose.collect();
        whose.dedup();
        whose.join(", ")
    };
    let missing = tried.iter().find_map(|(need, outcome)| match outcome {
        Outcome::Denied(words) => Some((need, words)),
        _ => None,
    });
    if let Some((need, words)) = missing {
        let denied = whose(|outcome| matches!(outcome, Outcome::Denied(_)));
        let of = |(need, outcome): &(RequiredPermission, Outcome)| {
            matches!(outcome, Outcome::Denied(_)).then(|| need.resource.clone())
        };
        let mut resources: Vec<String> = tried.iter().filter_map(of).collect();
        resources.dedup();
        return Some(Finding {
            what,
            verdict: need.verdict,
            says: format!("denied for {denied}: {words}; without it, {}", need.without),
            fix: Some(format!("allow `{action}` on {}; the policy below has it", resources.join(", "))),
        });
    }
    let unknown = tried.iter().find_map(|(_, outcome)| match outcome {
        Outcome::Unknown(words) => Some(words),
        _ => None,
    });
    if let Some(words) = unknown {
        let fix = "run the doctor again once Step Functions answers";
        return Some(Finding::warning(what, format!("it cannot be found out: {words}"), fix));
    }
    let allowed = whose(|outcome| matches!(outcome, Outcome::Allowed));
    (!allowed.is_empty()).then(|| Finding::ok(what, format!("allowed for {allowed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(whose: &str) -> RequiredPermission {
        RequiredPermission {
            action: "states:StopExecution",
            resource: format!("arn:{whose}"),
            whose: whose.to_owned(),
            verdict: Verdict::Fault,
            without: "tasks cannot be cancelled",
            attempt: Attempt::None,
        }
    }

    /// The finding names only the targets for which an action is denied, and what to allow.
    #[test]
    fn denied_permission_names_its_targets() {
        let tried = [
            (need("a"), Outcome::Allowed),
            (need("b"), Outcome::Denied("no".to_owned())),
            (need("c"), Outcome::Denied("no, too".to_owned())),
        ];
        let finding = judged("states:StopExecution", &tried).unwrap();
        assert_eq!(finding.verdict, Verdict::Fault);
        assert_eq!(finding.says, "denied for b, c: no; without it, tasks cannot be cancelled");
        let fix = finding.fix.unwrap();
        assert!(fix.starts_with("allow `states:StopExecution` on arn:b, arn:c;"), "{fix}");
        let fine = judged("x", &[(need("a"), Outcome::Allowed), (need("b"), Outcome::NotTried)]).unwrap();
        assert_eq!((fine.verdict, fine.says.as_str()), (Verdict::Ok, "allowed for a"));
        assert!(judged("x", &[(need("a"), Outcome::NotTried)]).is_none());
        let unknown = judged("x", &[(need("a"), Outcome::Unknown("busy".to_owned()))]).unwrap();
        assert_eq!(unknown.verdict, Verdict::Warning);
    }

    #[test]
    fn executions_are_named_after_their_machine() {
        let machine = "arn:aws:states:r:1:stateMachine:m";
        assert_eq!(execution(machine, "*"), "arn:aws:states:r:1:execution:m:*");
    }
}
