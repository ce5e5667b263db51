//! IAM policy with the permissions that a config needs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Permissions: the resources of each action.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy(BTreeMap<String, BTreeSet<String>>);

/// Maximum size of a managed policy, in characters that are not white space.
const MAX_MANAGED_POLICY_SIZE: usize = 6144;

impl Policy {
    /// Allows an action on a resource.
    pub(crate) fn allow(&mut self, action: &str, resource: impl Into<String>) {
        self.0.entry(action.to_owned()).or_default().insert(resource.into());
    }

    /// Returns the policy document, with one statement for all actions on the same resources. Omits resources
    /// that a pattern of the same action covers.
    pub(crate) fn document(&self) -> Value {
        let mut statements: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
        for (action, resources) in &self.0 {
            statements.entry(uncovered(resources)).or_default().push(action);
        }
        let statements: Vec<Value> = statements
            .into_iter()
            .map(|(resources, actions)| json!({"Effect": "Allow", "Action": actions, "Resource": resources}))
            .collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }
}

/// Returns a message if a policy is too large for a managed policy.
pub(crate) fn too_large(document: &Value) -> Option<String> {
    let size = document.to_string().chars().filter(|c| !c.is_whitespace()).count();
    (size > MAX_MANAGED_POLICY_SIZE).then(|| {
        format!(
            "the policy has {size} characters, and the limit of a managed policy is {MAX_MANAGED_POLICY_SIZE}: split it, or use state machines \
             with a common name prefix and `discover.starting_with`"
        )
    })
}

/// Returns the resources that no other one covers.
fn uncovered(resources: &BTreeSet<String>) -> Vec<&str> {
    let is_covered = |one: &String| resources.iter().any(|other| other != one && covers(other, one));
    resources.iter().filter(|one| !is_covered(one)).map(String::as_str).collect()
}

/// Returns true if a pattern matches everything that another one matches. `*` matches any text.
fn covers(pattern: &str, resource: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| resource.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_what_they_match() {
        let prefix = "arn:aws:states:eu-west-1:1";
        for (pattern, resource, is_covered) in [
            ("*", "arn:x", true),
            ("stateMachine:*", "stateMachine:a", true),
            ("stateMachine:lab-*", "stateMachine:lab-*", true),
            ("execution:*:tb-*", "execution:m:tb-*", true),
            ("execution:*:tb-*", "execution:m:*", false),
            ("stateMachine:a*", "stateMachine:b", false),
            ("stateMachine:a", "stateMachine:ab", false),
            ("a*b", "ab", true),
            ("a*a", "a", false),
        ] {
            let with_prefix =
                |text: &str| if text == "*" { text.to_owned() } else { format!("{prefix}:{text}") };
            assert_eq!(
                covers(&with_prefix(pattern), &with_prefix(resource)),
                is_covered,
                "{pattern} {resource}"
            );
        }
    }

    /// The pattern of discovery covers a hundred discovered machines.
    #[test]
    fn document_leaves_out_covered_machines() {
        let mut policy = Policy::default();
        let machines = "arn:aws:states:eu-west-1:123456789012:stateMachine";
        for number in 0..100 {
            policy.allow("states:StartExecution", format!("{machines}:lab-analysis-{number}"));
        }
        assert!(too_large(&policy.document()).is_some());
        policy.allow("states:StartExecution", format!("{machines}:lab-*"));
        policy.allow("states:StartExecution", format!("{machines}:other"));
        let statement = &policy.document()["Statement"][0];
        assert_eq!(statement["Resource"], json!([format!("{machines}:lab-*"), format!("{machines}:other")]));
        assert_eq!(too_large(&policy.document()), None);
    }

    /// Actions on the same resources share one statement of the policy.
    #[test]
    fn actions_with_equal_resources_share_statement() {
        let mut policy = Policy::default();
        for (action, resource) in [
            ("states:B", "two"),
            ("states:A", "one"),
            ("states:A", "two"),
            ("states:B", "one"),
            ("states:C", "*"),
        ] {
            policy.allow(action, resource);
        }
        assert_eq!(
            policy.document(),
            json!({"Version": "2012-10-17", "Statement": [
                {"Effect": "Allow", "Action": ["states:C"], "Resource": ["*"]},
                {"Effect": "Allow", "Action": ["states:A", "states:B"], "Resource": ["one", "two"]},
            ]})
        );
    }
}
