//! How far an execution is: what its history says, folded into one place on the way through its state machine. Pure but
//! for [`Watch`], which decides when a history is worth a call, and keeps only what may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Observation, Timestamp};
use tokio::time::Instant;

use crate::api::Api;
use crate::arn::ExecutionArn;
use crate::budget::Bucket;
use crate::definition::Definition;
use crate::history::{Happened, newest};
use crate::machines::Machines;

/// The shortest time between two looks at the history of one execution.
const QUICKEST: Duration = Duration::from_secs(2);
/// How many executions are followed at most; what was learned of those that were looked at longest ago is dropped.
const MOST: usize = 5000;

/// How far an execution is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Steps {
    /// The newest event that is in here.
    known: i64,
    /// How many states were left, of those that are not within another.
    left: u32,
    /// The state that it is in, and since when.
    at: Option<(String, Option<Timestamp>)>,
    /// How many items the map that it is in has, and how many of them are done.
    items: Option<(i32, i32)>,
    /// How many branches of the state that it is in are done.
    branches: usize,
}

impl Steps {
    /// Takes what happened next.
    fn take(&mut self, definition: &Definition, event: &Happened) {
        self.known = self.known.max(event.id);
        let name = event.name.as_deref().unwrap_or_default();
        // Without a definition, nothing tells which states are within others, and all are shown.
        let top = definition.is_top(name) || *definition == Definition::default();
        match event.kind.as_str() {
            "MapStateStarted" => self.items = event.number.map(|items| (items, 0)),
            "MapIterationSucceeded" => {
                if let Some((_, done)) = &mut self.items {
                    *done += 1;
                }
            }
            "ExecutionRedriven" => (self.at, self.items, self.branches) = (None, None, 0),
            kind if kind.ends_with("StateEntered") && top => {
                (self.at, self.items, self.branches) = (Some((name.to_owned(), event.at)), None, 0);
            }
            kind if kind.ends_with("StateExited") && top => self.left += 1,
            kind if kind.ends_with("StateExited") => {
                let within = self.at.as_ref().is_some_and(|(state, _)| definition.ends_branch(state, name));
                self.branches += usize::from(within);
            }
            _ => {}
        }
    }

    /// The observation with how far it is, and in words.
    fn tell(&self, definition: &Definition, seen: Observation) -> Observation {
        let Some((state, since)) = &self.at else { return seen };
        let (mut message, progress) = match definition.place(state) {
            Some((at, of)) => (format!("step {} of {of}: {state}", at + 1), (at as f64, Some(of as f64))),
            None => (state.clone(), (f64::from(self.left), None)),
        };
        if let Some((items, done)) = self.items {
            message.push_str(&format!(", {done} of {items} items done"));
        }
        if let Some(branches) = definition.branches(state) {
            message.push_str(&format!(", {} of {branches} branches done", self.branches));
        }
        if let Some(since) = since {
            message.push_str(&format!(", since {since}"));
        }
        seen.with_message(message).with_progress(progress.0, progress.1)
    }
}

/// What is known of one execution, and when it was looked at.
#[derive(Clone, Default)]
struct Followed {
    steps: Steps,
    definition: Arc<Definition>,
    looked: Option<Instant>,
    first: Option<Instant>,
}

/// Follows running executions, as far as the calls for it reach.
pub(crate) struct Watch {
    calls: Mutex<Bucket>,
    followed: Mutex<HashMap<String, Followed>>,
}

impl Watch {
    pub(crate) fn new(calls_per_minute: u16) -> Self {
        let bucket =
            Bucket::full(u32::from(calls_per_minute), f64::from(calls_per_minute) / 60.0, Instant::now());
        Self { calls: Mutex::new(bucket), followed: Mutex::default() }
    }

    /// The observation of a running execution with what is known of how far it is. That is looked up if it is due, and a
    /// call for it is left; that this fails is no failure of the look.
    pub(crate) async fn tell(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
        seen: Observation,
    ) -> Observation {
        let now = Instant::now();
        let mut followed = self.known(arn.as_str(), now);
        let age = followed.first.map_or(Duration::ZERO, |first| now - first);
        let pause = QUICKEST.max(age / 10);
        let due = followed.looked.is_none_or(|looked| now - looked >= pause);
        if due && self.calls.lock().take(now).is_ok() {
            followed.looked = Some(now);
            if let Ok((events, whole)) = newest(api, arn.as_str(), followed.steps.known).await {
                followed.definition = machines.definition(api, &arn.machine()).await;
                for event in &events {
                    followed.steps.take(&followed.definition, event);
                }
                if !whole {
                    // Some of what would have been counted was not read.
                    followed.steps.items = None;
                }
            }
            self.followed.lock().insert(arn.as_str().to_owned(), followed.clone());
        }
        followed.steps.tell(&followed.definition, seen)
    }

    /// Forgets an execution that has ended.
    pub(crate) fn forget(&self, arn: &str) {
        self.followed.lock().remove(arn);
    }

    fn known(&self, arn: &str, now: Instant) -> Followed {
        let mut followed = self.followed.lock();
        if followed.len() >= MOST && !followed.contains_key(arn) {
            let oldest = followed.iter().min_by_key(|(_, it)| it.looked).map(|(arn, _)| arn.clone());
            oldest.and_then(|oldest| followed.remove(&oldest));
        }
        let it = followed.entry(arn.to_owned()).or_default();
        it.first.get_or_insert(now);
        it.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use taskbridge_sdk::{JobState, Progress};

    fn told(definition: Value, events: &[(&str, &str, i32)]) -> (Option<String>, Option<Progress>) {
        let definition = Definition::parse(&definition.to_string());
        let mut steps = Steps::default();
        for (at, (kind, name, number)) in events.iter().enumerate() {
            let name = (!name.is_empty()).then(|| (*name).to_owned());
            let id = i64::try_from(at).unwrap() + 1;
            let at = kind.ends_with("Entered").then(|| Timestamp::from_millis(id * 1000));
            let event = Happened {
                id,
                kind: (*kind).to_owned(),
                name,
                number: Some(*number),
                at,
                ..Happened::default()
            };
            steps.take(&definition, &event);
        }
        let seen = steps.tell(&definition, Observation::new(JobState::Running));
        (seen.message, seen.progress)
    }

    fn progress(done: f64, total: Option<f64>) -> Option<Progress> {
        Some(Progress { done, total })
    }

    #[test]
    fn a_way_is_told_by_its_steps() {
        let way = json!({"StartAt": "a", "States": {
            "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Wait", "Next": "c"}, "c": {"Type": "Pass", "End": true},
        }});
        assert_eq!(told(way.clone(), &[("ExecutionStarted", "", 0)]), (None, None));
        let (message, done) = told(
            way,
            &[
                ("ExecutionStarted", "", 0),
                ("PassStateEntered", "a", 0),
                ("PassStateExited", "a", 0),
                ("WaitStateEntered", "b", 0),
            ],
        );
        assert_eq!(message.as_deref(), Some("step 2 of 3: b, since 1970-01-01T00:00:04.000Z"));
        assert_eq!(done, progress(1.0, Some(3.0)));
    }

    #[test]
    fn where_choices_are_made_states_are_counted() {
        let choice = json!({"StartAt": "a", "States": {"a": {"Type": "Choice", "Default": "b"}, "b": {"Type": "Pass", "Next": "a"}}});
        let events =
            [("ChoiceStateEntered", "a", 0), ("ChoiceStateExited", "a", 0), ("PassStateEntered", "b", 0)];
        let (message, done) = told(choice, &events);
        assert!(message.is_some_and(|message| message.starts_with("b, since")));
        assert_eq!(done, progress(1.0, None));
        let (message, _) = told(json!({}), &events);
        assert!(message.is_some_and(|message| message.starts_with("b, since")), "without a definition");
    }

    #[test]
    fn maps_and_branches_are_told_as_counts() {
        let map = json!({"StartAt": "m", "States": {"m": {"Type": "Map", "End": true}}});
        let events = [
            ("MapStateEntered", "m", 0),
            ("MapStateStarted", "", 3),
            ("MapIterationStarted", "m", 0),
            ("PassStateEntered", "inner", 0),
            ("PassStateExited", "inner", 0),
            ("MapIterationSucceeded", "m", 0),
        ];
        let (message, done) = told(map, &events);
        assert!(message.is_some_and(|message| message.starts_with("step 1 of 1: m, 1 of 3 items done")));
        assert_eq!(done, progress(0.0, Some(1.0)));

        let branch = |name: &str| json!({"StartAt": name, "States": {name: {"Type": "Pass", "End": true}}});
        let both = json!({"StartAt": "p", "States": {"p": {"Type": "Parallel", "End": true, "Branches": [branch("l"), branch("r")]}}});
        let events = [
            ("ParallelStateEntered", "p", 0),
            ("PassStateEntered", "l", 0),
            ("PassStateEntered", "r", 0),
            ("PassStateExited", "l", 0),
        ];
        let (message, _) = told(both, &events);
        assert!(message.is_some_and(|message| message.starts_with("step 1 of 1: p, 1 of 2 branches done")));
    }
}
