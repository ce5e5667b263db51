//! What a config needs to be allowed at AWS, as an IAM policy. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Permissions: the resources of each action.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Policy(BTreeMap<String, BTreeSet<String>>);

impl Policy {
    /// Allows an action on a resource.
    pub(crate) fn allow(&mut self, action: &str, resource: impl Into<String>) {
        self.0.entry(action.to_owned()).or_default().insert(resource.into());
    }

    /// As IAM reads it: one statement for all actions on the same resources.
    pub(crate) fn document(&self) -> Value {
        let mut statements: BTreeMap<&BTreeSet<String>, Vec<&str>> = BTreeMap::new();
        for (action, resources) in &self.0 {
            statements.entry(resources).or_default().push(action);
        }
        let statements: Vec<Value> = statements
            .into_iter()
            .map(|(resources, actions)| json!({"Effect": "Allow", "Action": actions, "Resource": resources}))
            .collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_on_the_same_resources_share_a_statement() {
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
