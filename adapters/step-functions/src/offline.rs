//! IAM policies that a config needs, without a call of AWS. It uses wildcards for what the config does not
//! say: an unset `region`, the account of a state machine that is named without its ARN, and the log group of
//! an Express state machine. It allows both types of state machine, Standard and Express.

use serde::Deserialize as _;
use taskbridge_sdk::{PolicyDocument, ToolTarget, Verdict};

use crate::arn::MachineArn;
use crate::checkup::Settings;
use crate::cloudwatch::LogGroup;
use crate::config::{Config, Target};
use crate::needs::{self, Used};
use crate::permissions::{Attempt, RequiredPermission, for_people_and_bridge};
use crate::policy::Policy;
use crate::trust;

/// Returns the policy of the server's credentials. With `per_caller`, also returns the policy and the trust
/// policy of the role for people.
pub(crate) fn policies(config: &Config, tools: &[ToolTarget]) -> Vec<PolicyDocument> {
    let needs = needs(config, tools);
    let Some(people) = &config.per_caller else {
        return vec![granting("the server's credentials", needs, Policy::default())];
    };
    let (theirs, ours) = for_people_and_bridge(needs);
    let mut assuming = Policy::default();
    trust::allow(people, &mut assuming);
    let role = &people.role_arn;
    vec![
        granting("the server's credentials", ours, assuming),
        granting(&format!("the role of `per_caller`, {role}"), theirs, Policy::default()),
        PolicyDocument {
            whose: format!("the trust policy of {role}"),
            document: trust::trust_policy(trust::UNKNOWN_BRIDGE, people),
        },
    ]
}

fn granting(whose: &str, needs: Vec<RequiredPermission>, mut policy: Policy) -> PolicyDocument {
    needs.into_iter().for_each(|need| policy.allow(need.action, need.resource));
    PolicyDocument { whose: whose.to_owned(), document: policy.document() }
}

fn needs(config: &Config, tools: &[ToolTarget]) -> Vec<RequiredPermission> {
    let settings = Settings::of(config, "");
    let region = config.region.as_deref().unwrap_or("*");
    let (mut needs, mut machines, mut lists) = (Vec::new(), Vec::new(), settings.discovers.is_some());
    for tool in tools {
        // `taskbridge check` reports invalid targets.
        let Ok(target) = Target::deserialize(&tool.target) else { continue };
        let arn = match MachineArn::parse(&target.state_machine) {
            Some(arn) => arn.base().to_owned(),
            None => {
                lists = true;
                format!("arn:aws:states:{region}:*:stateMachine:{}", target.state_machine)
            }
        };
        of_tool(&arn, target.attach.is_some(), settings.asks, &mut needs);
        machines.push(arn);
    }
    if lists {
        needs.push(need("states:ListStateMachines", "*"));
    }
    let place = match machines.first().and_then(|arn| arn.split_once(":stateMachine:")) {
        Some((place, _)) => place.to_owned(),
        None => format!("arn:aws:states:{region}:*"),
    };
    if let Some(names) = &settings.discovers {
        needs::of_discovery(&settings, &place, names, Attempt::None, &mut needs);
        of_logs(&place, &mut needs);
    }
    needs.extend(settings.activities.iter().map(|arn| need("states:GetActivityTask", arn)));
    if let Some(url) = &settings.queue {
        let queue = needs::queue_arn(url, region, machines.first().map(String::as_str));
        needs.extend(["sqs:ReceiveMessage", "sqs:DeleteMessage"].map(|action| need(action, &queue)));
    }
    if settings.asks {
        for arn in &machines {
            let answers = ["states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"];
            needs.extend(answers.map(|action| need(action, arn)));
        }
    }
    needs
}

/// Adds the permissions for both types of state machine. Only a Standard one can be followed.
fn of_tool(arn: &str, attaches: bool, asks: bool, needs: &mut Vec<RequiredPermission>) {
    needs.push(need("states:DescribeStateMachine", arn));
    let machine =
        |express| Used { whose: String::new(), arn: arn.to_owned(), express, attaches, log_group: None };
    needs::of_machine(&machine(false), asks, needs);
    if !attaches {
        needs::of_machine(&machine(true), asks, needs);
        of_logs(arn, needs);
    }
}

/// Adds the permission to read any log group of an Express state machine.
fn of_logs(arn: &str, needs: &mut Vec<RequiredPermission>) {
    let parts: Vec<&str> = arn.split(':').collect();
    if let [_, partition, _, region, account, ..] = parts[..] {
        needs.push(need("logs:FilterLogEvents", LogGroup::all(partition, region, account).arn()));
    }
}

fn need(action: &'static str, resource: &str) -> RequiredPermission {
    RequiredPermission {
        action,
        resource: resource.to_owned(),
        whose: String::new(),
        verdict: Verdict::Fault,
        without: "",
        attempt: Attempt::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn documents(config: Value, targets: &[Value]) -> Vec<PolicyDocument> {
        let tools: Vec<ToolTarget> = targets
            .iter()
            .map(|target| ToolTarget { tool: "t".to_owned(), target: target.clone() })
            .collect();
        policies(&serde_json::from_value(config).unwrap(), &tools)
    }

    /// Returns the resources of an action.
    fn allowed(policy: &PolicyDocument, action: &str) -> Vec<String> {
        let statements = policy.document["Statement"].as_array().unwrap();
        let of = statements.iter().filter(|it| it["Action"].as_array().unwrap().contains(&json!(action)));
        of.flat_map(|it| it["Resource"].as_array().unwrap())
            .map(|it| it.as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn policy_needs_no_account() {
        let arn = "arn:aws:states:eu-west-1:1:stateMachine:m";
        let targets = [json!({"state_machine": format!("{arn}:PROD")}), json!({"state_machine": "Nightly"})];
        let documents = documents(json!({"region": "eu-west-1"}), &targets);
        let [policy] = &documents[..] else { panic!("{documents:?}") };
        let nightly = "arn:aws:states:eu-west-1:*:stateMachine:Nightly";
        assert_eq!(allowed(policy, "states:StartExecution"), [nightly, arn]);
        assert_eq!(allowed(policy, "states:StartSyncExecution"), [nightly, arn]);
        assert_eq!(allowed(policy, "states:ListStateMachines"), ["*"]);
        let executions =
            [nightly, arn].map(|arn| format!("{}:tb-*", arn.replace(":stateMachine:", ":execution:")));
        assert_eq!(allowed(policy, "states:StopExecution"), executions);
        assert!(allowed(policy, "states:SendTaskSuccess").is_empty(), "no step asks");
    }

    /// A tool that attaches starts nothing. A state machine that discovery covers is not listed separately.
    #[test]
    fn policy_has_no_more_than_needed() {
        let arn = "arn:aws:states:eu-west-1:1:stateMachine:lab-a";
        let config = json!({"region": "eu-west-1"});
        let attach = json!({"state_machine": arn, "attach": "{{ e }}"});
        let follows = documents(config, &[attach]);
        for action in ["states:StartExecution", "states:StartSyncExecution", "states:StopExecution"] {
            assert!(allowed(&follows[0], action).is_empty(), "{action}");
        }
        let config = json!({"region": "eu-west-1", "discover": {"starting_with": "lab-"}});
        let found = documents(config, &[json!({"state_machine": arn})]);
        assert_eq!(
            allowed(&found[0], "states:StartExecution"),
            ["arn:aws:states:eu-west-1:1:stateMachine:lab-*"]
        );
    }

    /// With `per_caller`, the server may assume the role but start nothing. The role's policy allows starts.
    #[test]
    fn per_caller_role_has_own_policy() {
        let role = "arn:aws:iam::1:role/people";
        let config = json!({"region": "eu-west-1", "per_caller": {"role_arn": role}});
        let documents = documents(config, &[json!({"state_machine": "m"})]);
        let [ours, theirs, trust] = &documents[..] else { panic!("{documents:?}") };
        assert_eq!(allowed(ours, "sts:AssumeRole"), [role]);
        assert!(allowed(ours, "states:StartExecution").is_empty());
        assert_eq!(allowed(theirs, "states:StartExecution").len(), 1);
        assert!(trust.document["Statement"][0]["Principal"].is_object(), "{trust:?}");
    }
}
