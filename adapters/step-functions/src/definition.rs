//! What a state machine's definition tells of the way through it. Pure; what it does not understand, it leaves out.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// The way through a state machine, and what the definition says of it as a whole.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Definition {
    /// What whoever wrote it says to people.
    pub(crate) comment: Option<String>,
    /// After how many seconds an execution is ended.
    pub(crate) timeout_seconds: Option<u64>,
    /// The states that are not within another.
    top: HashSet<String>,
    /// Those that an execution passes, one after the other, where no choice is to be made on the way.
    way: Option<Vec<String>>,
    /// For each state with branches, how many there are, and the states that a branch ends with.
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
            top: states.keys().cloned().collect(),
            way: way(&machine, states),
            branches: branches.collect(),
        }
    }

    /// True if this state is not within another.
    pub(crate) fn is_top(&self, state: &str) -> bool {
        self.top.contains(state)
    }

    /// Which state this is on the way, counted from 0, and how many there are.
    pub(crate) fn place(&self, state: &str) -> Option<(usize, usize)> {
        let way = self.way.as_ref()?;
        way.iter().position(|name| name == state).map(|at| (at, way.len()))
    }

    /// How many branches a state has.
    pub(crate) fn branches(&self, state: &str) -> Option<usize> {
        self.branches.get(state).map(|(count, _)| *count)
    }

    /// True if a branch of `state` ends when `inner` is left.
    pub(crate) fn ends_branch(&self, state: &str, inner: &str) -> bool {
        self.branches.get(state).is_some_and(|(_, ends)| ends.contains(inner))
    }
}

fn states(machine: &Map<String, Value>) -> Option<&Map<String, Value>> {
    machine.get("States")?.as_object()
}

/// The names of the states that a branch can end with.
fn last_states(branch: &Map<String, Value>) -> Vec<String> {
    let is_last = |state: &Value| state["End"] == true || state["Type"] == "Succeed";
    let named = states(branch).into_iter().flatten();
    named.filter(|(_, state)| is_last(state)).map(|(name, _)| name.clone()).collect()
}

fn way(machine: &Map<String, Value>, states: &Map<String, Value>) -> Option<Vec<String>> {
    let mut way: Vec<String> = Vec::new();
    let mut next = machine.get("StartAt")?.as_str();
    while let Some(name) = next {
        let state = states.get(name)?;
        if state["Type"] == "Choice" || way.len() >= states.len() {
            return None;
        }
        way.push(name.to_owned());
        next = state.get("Next").and_then(Value::as_str);
    }
    Some(way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_way_without_choices_is_counted() {
        let machine = json!({"StartAt": "a", "States": {
            "c": {"Type": "Succeed"}, "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Wait", "Next": "c"},
        }});
        let definition = Definition::parse(&machine.to_string());
        assert_eq!((definition.place("a"), definition.place("c")), (Some((0, 3)), Some((2, 3))));
        assert_eq!(definition.place("x"), None);
        assert!(definition.is_top("b") && !definition.is_top("x"));
    }

    #[test]
    fn a_choice_or_a_circle_leaves_the_way_open() {
        let choice = json!({"StartAt": "a", "States": {
            "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Choice", "Default": "a"},
        }});
        let circle = json!({"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "a"}}});
        for machine in [choice, circle] {
            let definition = Definition::parse(&machine.to_string());
            assert_eq!(definition.place("a"), None, "{machine}");
            assert!(definition.is_top("a"));
        }
    }

    #[test]
    fn branches_are_known_by_their_ends() {
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
        assert!(!definition.ends_branch("p", "a") && !definition.is_top("b"));
    }

    #[test]
    fn what_is_no_definition_tells_nothing() {
        for text in ["", "[]", "{}", r#"{"StartAt": "a"}"#] {
            assert_eq!(Definition::parse(text), Definition::default(), "{text}");
        }
        assert_eq!(Definition::parse(r#"{"StartAt": "a", "States": {}}"#).place("a"), None);
        let said = Definition::parse(r#"{"Comment": "Counts.", "TimeoutSeconds": 5}"#);
        assert_eq!((said.comment.as_deref(), said.timeout_seconds), (Some("Counts."), Some(5)));
    }
}
