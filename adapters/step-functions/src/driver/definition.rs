//! Structure of a state machine, parsed from its definition. Pure. It ignores everything that it does not
//! understand.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Structure of a state machine, and the attributes of the whole definition.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Definition {
    /// Comment of the author.
    pub(crate) comment: Option<String>,
    /// Timeout of an execution, in seconds.
    pub(crate) timeout_seconds: Option<u64>,
    /// States that are not nested in another state.
    top_level: HashSet<String>,
    /// States in the order in which an execution passes them. `None` if there is a choice or a loop on the
    /// path.
    path: Option<Vec<String>>,
    /// For each state with branches: the number of branches, and the states that can end a branch.
    branches: HashMap<String, (usize, HashSet<String>)>,
}

impl Definition {
    pub(crate) fn parse(text: &str) -> Self {
        let Ok(Value::Object(machine)) = serde_json::from_str(text) else { return Self::default() };
        let comment = machine.get("Comment").and_then(Value::as_str).map(str::to_owned);
        let timeout_seconds = machine.get("TimeoutSeconds").and_then(Value::as_u64);
        let Some(states) = states(&machine) else {
            return Self { comment, timeout_seconds, ..Self::default() };
        };
        let branches = states.iter().filter_map(|(name, state)| {
            let branches = state.get("Branches")?.as_array()?;
            let ends = branches.iter().filter_map(Value::as_object).flat_map(last_states).collect();
            Some((name.clone(), (branches.len(), ends)))
        });
        Self {
            comment,
            timeout_seconds,
            top_level: states.keys().cloned().collect(),
            path: linear_path(&machine, states),
            branches: branches.collect(),
        }
    }

    /// Returns true if this state is not nested in another state.
    pub(crate) fn is_top_level(&self, state: &str) -> bool {
        self.top_level.contains(state)
    }

    /// Returns the position of a state on the path, counted from 0, and the length of the path.
    pub(crate) fn position(&self, state: &str) -> Option<(usize, usize)> {
        let path = self.path.as_ref()?;
        path.iter().position(|name| name == state).map(|at| (at, path.len()))
    }

    /// Returns the number of branches of a state.
    pub(crate) fn branches(&self, state: &str) -> Option<usize> {
        self.branches.get(state).map(|(count, _)| *count)
    }

    /// Returns true if a branch of `state` ends with `inner`.
    pub(crate) fn ends_branch(&self, state: &str, inner: &str) -> bool {
        self.branches.get(state).is_some_and(|(_, ends)| ends.contains(inner))
    }
}

fn states(machine: &Map<String, Value>) -> Option<&Map<String, Value>> {
    machine.get("States")?.as_object()
}

/// Returns the names of the states that can end a branch.
fn last_states(branch: &Map<String, Value>) -> Vec<String> {
    let is_last = |state: &Value| state["End"] == true || state["Type"] == "Succeed";
    let entries = states(branch).into_iter().flatten();
    entries.filter(|(_, state)| is_last(state)).map(|(name, _)| name.clone()).collect()
}

fn linear_path(machine: &Map<String, Value>, states: &Map<String, Value>) -> Option<Vec<String>> {
    let mut path: Vec<String> = Vec::new();
    let mut next = machine.get("StartAt")?.as_str();
    while let Some(name) = next {
        let state = states.get(name)?;
        if state["Type"] == "Choice" || path.len() >= states.len() {
            return None;
        }
        path.push(name.to_owned());
        next = state.get("Next").and_then(Value::as_str);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// In a definition without choices, each state has a position and a total.
    #[test]
    fn linear_definition_counts_its_steps() {
        let machine = json!({"StartAt": "a", "States": {
            "c": {"Type": "Succeed"}, "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Wait", "Next": "c"},
        }});
        let definition = Definition::parse(&machine.to_string());
        assert_eq!((definition.position("a"), definition.position("c")), (Some((0, 3)), Some((2, 3))));
        assert_eq!(definition.position("x"), None);
        assert!(definition.is_top_level("b") && !definition.is_top_level("x"));
    }

    /// In a definition with a choice or a loop, no state has a position.
    #[test]
    fn branching_definition_has_no_step_count() {
        let choice = json!({"StartAt": "a", "States": {
            "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Choice", "Default": "a"},
        }});
        let circle = json!({"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "a"}}});
        for machine in [choice, circle] {
            let definition = Definition::parse(&machine.to_string());
            assert_eq!(definition.position("a"), None, "{machine}");
            assert!(definition.is_top_level("a"));
        }
    }

    /// Only the last state of a branch ends it, and the states of a branch are not at the top level.
    #[test]
    fn last_state_ends_its_branch() {
        let branch = |first: &str, last: &str| {
            json!({"StartAt": first, "States": {
                first: {"Type": "Pass", "Next": last}, last: {"Type": "Pass", "End": true},
            }})
        };
        let machine = json!({"StartAt": "p", "States": {
            "p": {"Type": "Parallel", "End": true, "Branches": [branch("a", "b"), branch("c", "d")]},
        }});
        let definition = Definition::parse(&machine.to_string());
        assert_eq!(definition.branches("p"), Some(2));
        assert!(definition.ends_branch("p", "b") && definition.ends_branch("p", "d"));
        assert!(!definition.ends_branch("p", "a") && !definition.is_top_level("b"));
    }

    /// Text that is not a definition gives the default. Comment and timeout are read without states.
    #[test]
    fn invalid_definition_parses_to_default() {
        for text in ["", "[]", "{}", r#"{"StartAt": "a"}"#] {
            assert_eq!(Definition::parse(text), Definition::default(), "{text}");
        }
        assert_eq!(Definition::parse(r#"{"StartAt": "a", "States": {}}"#).position("a"), None);
        let definition = Definition::parse(r#"{"Comment": "Counts.", "TimeoutSeconds": 5}"#);
        assert_eq!((definition.comment.as_deref(), definition.timeout_seconds), (Some("Counts."), Some(5)));
    }
}
