//! IAM policies that a config needs, without a call of AWS. It uses wildcards for what the config does not
//! say: an unset `region`, the account of a state machine that is named without its ARN, and the log group of
//! an Express state machine. It allows both types of state machine, Standard and Express.

use taskbridge_sdk::{PolicyDocument, ToolTarget, Verdict};

use crate::check::needs::{self, ToolMachine};
use crate::check::permissions::{Attempt, RequiredPermission, split_by_credentials};
use crate::check::policy::Policy;
use crate::check::trust;
use crate::config::{Config, Target};
use crate::core::Settings;
use crate::driver::log_group::LogGroup;
use crate::identity::arn::MachineArn;

/// Returns the policy of the server's credentials. With `per_caller`, also returns the policy and the trust
/// policy of the role for people.
pub(crate) fn policies(config: &Config, tools: &[ToolTarget]) -> Vec<PolicyDocument> {
    let permissions = required_permissions(config, tools);
    let Some(per_caller) = &config.per_caller else {
        return vec![policy_document("the server's credentials", permissions, Policy::default())];
    };
    let (caller_permissions, bridge_permissions) = split_by_credentials(permissions);
    let mut bridge_policy = Policy::default();
    trust::allow(per_caller, &mut bridge_policy);
    let role = &per_caller.role_arn;
    vec![
        policy_document("the server's credentials", bridge_permissions, bridge_policy),
        policy_document(&format!("the role of `per_caller`, {role}"), caller_permissions, Policy::default()),
        PolicyDocument {
            grantee: format!("the trust policy of {role}"),
            document: trust::trust_policy(trust::UNKNOWN_BRIDGE, per_caller),
        },
    ]
}

fn policy_document(
    grantee: &str,
    permissions: Vec<RequiredPermission>,
    mut policy: Policy,
) -> PolicyDocument {
    permissions.into_iter().for_each(|permission| policy.allow(permission.action, permission.resource));
    PolicyDocument { grantee: grantee.to_owned(), document: policy.document() }
}

fn required_permissions(config: &Config, tools: &[ToolTarget]) -> Vec<RequiredPermission> {
    let settings = Settings::of(config, "");
    let region = config.region.as_deref().unwrap_or("*");
    let (mut permissions, mut machines, mut lists_machines) =
        (Vec::new(), Vec::new(), settings.discovery_pattern.is_some());
    for tool in tools {
        // `taskbridge check` reports invalid targets.
        let Ok(target) = tool.parse::<Target>() else { continue };
        let arn = match MachineArn::parse(&target.state_machine) {
            Some(arn) => arn.base().to_owned(),
            None => {
                lists_machines = true;
                format!("arn:aws:states:{region}:*:stateMachine:{}", target.state_machine)
            }
        };
        add_tool_permissions(&arn, target.attach.is_some(), settings.asks_questions, &mut permissions);
        machines.push(arn);
    }
    if lists_machines {
        permissions.push(untried_permission("states:ListStateMachines", "*"));
    }
    let arn_prefix = match machines.first().and_then(|arn| arn.split_once(":stateMachine:")) {
        Some((prefix, _)) => prefix.to_owned(),
        None => format!("arn:aws:states:{region}:*"),
    };
    if let Some(name_pattern) = &settings.discovery_pattern {
        needs::add_discovery_permissions(
            &settings,
            &arn_prefix,
            name_pattern,
            Attempt::None,
            &mut permissions,
        );
        add_log_permission(&arn_prefix, &mut permissions);
    }
    permissions
        .extend(settings.activities.iter().map(|arn| untried_permission("states:GetActivityTask", arn)));
    if let Some(url) = &settings.queue {
        let queue = needs::queue_arn(url, region, machines.first().map(String::as_str));
        permissions.extend(
            ["sqs:ReceiveMessage", "sqs:DeleteMessage"].map(|action| untried_permission(action, &queue)),
        );
    }
    if settings.asks_questions {
        for arn in &machines {
            let actions = ["states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"];
            permissions.extend(actions.map(|action| untried_permission(action, arn)));
        }
    }
    permissions
}

/// Adds the permissions for both types of state machine. Only a Standard one can be followed.
fn add_tool_permissions(
    arn: &str,
    attaches: bool,
    asks_questions: bool,
    permissions: &mut Vec<RequiredPermission>,
) {
    permissions.push(untried_permission("states:DescribeStateMachine", arn));
    let machine = |express| ToolMachine {
        required_by: String::new(),
        arn: arn.to_owned(),
        express,
        attaches,
        log_group: None,
    };
    needs::add_machine_permissions(&machine(false), asks_questions, permissions);
    if !attaches {
        needs::add_machine_permissions(&machine(true), asks_questions, permissions);
        add_log_permission(arn, permissions);
    }
}

/// Adds the permission to read any log group of an Express state machine.
fn add_log_permission(arn: &str, permissions: &mut Vec<RequiredPermission>) {
    let parts: Vec<&str> = arn.split(':').collect();
    if let [_, partition, _, region, account, ..] = parts[..] {
        permissions.push(untried_permission(
            "logs:FilterLogEvents",
            LogGroup::all(partition, region, account).arn(),
        ));
    }
}

fn untried_permission(action: &'static str, resource: &str) -> RequiredPermission {
    RequiredPermission {
        action,
        resource: resource.to_owned(),
        required_by: String::new(),
        verdict: Verdict::Fault,
        consequence: "",
        attempt: Attempt::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn documents(config: Value, targets: &[Value]) -> Vec<PolicyDocument> {
        let tools: Vec<ToolTarget> =
            targets.iter().map(|target| ToolTarget::new("t", target.clone())).collect();
        policies(&serde_json::from_value(config).unwrap(), &tools)
    }

    /// Returns the resources of an action.
    fn allowed(policy: &PolicyDocument, action: &str) -> Vec<String> {
        let statements = policy.document["Statement"].as_array().unwrap();
        let matching = statements
            .iter()
            .filter(|statement| statement["Action"].as_array().unwrap().contains(&json!(action)));
        matching
            .flat_map(|statement| statement["Resource"].as_array().unwrap())
            .map(|resource| resource.as_str().unwrap().to_owned())
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
        let policy_documents = documents(config, &[json!({"state_machine": arn})]);
        assert_eq!(
            allowed(&policy_documents[0], "states:StartExecution"),
            ["arn:aws:states:eu-west-1:1:stateMachine:lab-*"]
        );
    }

    /// With `per_caller`, the server may assume the role but start nothing. The role's policy allows starts.
    #[test]
    fn per_caller_role_has_own_policy() {
        let role = "arn:aws:iam::1:role/people";
        let config = json!({"region": "eu-west-1", "per_caller": {"role_arn": role}});
        let documents = documents(config, &[json!({"state_machine": "m"})]);
        let [bridge_policy, caller_policy, trust] = &documents[..] else { panic!("{documents:?}") };
        assert_eq!(allowed(bridge_policy, "sts:AssumeRole"), [role]);
        assert!(allowed(bridge_policy, "states:StartExecution").is_empty());
        assert_eq!(allowed(caller_policy, "states:StartExecution").len(), 1);
        assert!(trust.document["Statement"][0]["Principal"].is_object(), "{trust:?}");
    }
}
