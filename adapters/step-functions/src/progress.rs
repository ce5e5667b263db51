//! Progress and questions of an execution, computed from its history. Pure except for [`ExecutionTracker`],
//! which decides when to read a history, reads it, and keeps only what may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Observation, Question, Result, Timestamp};
use tokio::time::Instant;

use crate::api::{Api, ApiResult};
use crate::arn::ExecutionArn;
use crate::budget::Bucket;
use crate::content::QuestionContent;
use crate::definition::Definition;
use crate::history::{ExecutionEvent, newest};
use crate::list_cache::ExecutionListCache;
use crate::log;
use crate::machines::Machines;
use crate::question_history::{QuestionChannels, QuestionHistory};

/// Minimum interval between two reads of the history of one execution. The first read, a read after a hint
/// with question channels, and the read for an answer do not wait for it.
const QUICKEST: Duration = Duration::from_secs(2);
/// How long a new question is held back until its token arrives. Then it is reported without: another server
/// may have received the token.
const SOON: Duration = Duration::from_secs(5);
/// Maximum number of followed executions. Beyond it, one whose history was never read is dropped, else the
/// one whose history was read longest ago.
const MOST: usize = 5000;

/// Progress of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepProgress {
    /// Id of the newest event that was applied.
    known: i64,
    /// Number of exits from states that are not nested in another. A loop counts each time.
    left: u32,
    /// Current state, and its start time.
    at: Option<(String, Option<Timestamp>)>,
    /// Number of items of the current map, and how many are done.
    items: Option<(i32, i32)>,
    /// Number of finished branches of the current state.
    branches: usize,
}

impl StepProgress {
    /// Applies the next event.
    fn take(&mut self, definition: &Definition, event: &ExecutionEvent) {
        self.known = self.known.max(event.id);
        let name = event.name.as_deref().unwrap_or_default();
        // Without a definition, it is unknown which states are nested, so all are shown.
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

    /// Adds the progress to the observation, as numbers and as text.
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

/// Cached state of a followed execution.
#[derive(Clone, Default)]
struct TrackedExecution {
    steps: StepProgress,
    asks: QuestionHistory,
    /// True if its history was read, and no hint has arrived since.
    is_read: bool,
    /// Number of hints that arrived.
    news: u32,
    /// Length of its log in bytes, as far as its history was read.
    printed: u64,
    /// Time from which each question is reported even if its token is not here.
    told_from: HashMap<String, Instant>,
    definition: Arc<Definition>,
    looked: Option<Instant>,
    first: Option<Instant>,
}

/// Poll of an execution, before its history is added.
pub(crate) struct PollContext<'a> {
    /// Observation without its history.
    pub(crate) seen: Observation,
    /// Contents that arrived with tokens.
    pub(crate) held: &'a [QuestionContent],
    /// True if this server started it recently.
    pub(crate) is_new: bool,
    /// True if a client watches the progress.
    pub(crate) watched: bool,
}

impl TrackedExecution {
    /// Returns the questions to report.
    fn questions(&mut self, held: &[QuestionContent], is_first: bool, now: Instant) -> Vec<Question> {
        let mut questions = self.asks.questions(held);
        let from = if is_first { now } else { now + SOON };
        let before = std::mem::take(&mut self.told_from);
        questions.retain(|question| {
            let has_token = held.iter().any(|content| question.id.starts_with(&content.digest));
            let from = before.get(&question.id).copied().unwrap_or(from);
            let from = if has_token { from.min(now) } else { from };
            self.told_from.insert(question.id.clone(), from);
            from <= now
        });
        questions
    }
}

/// Followed executions, and the limit of calls for their progress.
pub(crate) struct ExecutionTracker {
    calls: Mutex<Bucket>,
    /// Configured ways in which steps can ask.
    ways: QuestionChannels,
    lists: Arc<ExecutionListCache>,
    followed: Mutex<HashMap<String, TrackedExecution>>,
}

impl ExecutionTracker {
    pub(crate) fn new(calls_per_minute: u16, ways: QuestionChannels, lists: Arc<ExecutionListCache>) -> Self {
        let bucket =
            Bucket::full(u32::from(calls_per_minute), f64::from(calls_per_minute) / 60.0, Instant::now());
        Self { calls: Mutex::new(bucket), ways, lists, followed: Mutex::default() }
    }

    /// Adds the progress and the questions to the observation of a running execution.
    ///
    /// The history is read if a client watches or question channels are configured, a read is due, and a call
    /// of `progress_calls_per_minute` is left. A read is due `QUICKEST` after the last one, and not before a
    /// tenth of the time for which the execution is followed. Questions must be known even if no client
    /// watches: an observation without a question means that it is no longer asked. A question whose token
    /// went to another server appears only in the history. So with question channels, a history that was not
    /// read since the last hint, or that has an open question and was not read for `QUICKEST`, is read
    /// without taking a call.
    ///
    /// A failed read fails the poll only if question channels are configured and the history was not read
    /// since the last hint.
    pub(crate) async fn add_progress(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
        look: PollContext<'_>,
    ) -> Result<Observation> {
        let now = Instant::now();
        let mut followed = self.known(arn.as_str(), now);
        let age = followed.first.map_or(Duration::ZERO, |first| now - first);
        let rests = |pause: Duration| followed.looked.is_some_and(|looked| now - looked < pause);
        let asking = !self.ways.are_closed();
        let must = asking && (!followed.is_read || (followed.asks.are_open() && !rests(QUICKEST)));
        // A question from before this server started is reported at once: it may have been reported before.
        let is_first = followed.looked.is_none() && !look.is_new;
        let may = (look.watched || asking) && !rests(QUICKEST.max(age / 10));
        if must || (may && self.calls.lock().take(now).is_ok()) {
            followed.looked = Some(now);
            match self.read(api, machines, arn, &mut followed).await {
                Err(failure) if asking && !followed.is_read => return Err(failure.into()),
                _ => {}
            }
        }
        let mut seen = followed.steps.tell(&followed.definition, look.seen);
        seen.questions = followed.questions(look.held, is_first, now);
        seen.log_bytes = (followed.printed > 0).then_some(followed.printed);
        self.keep(arn.as_str(), followed);
        Ok(seen)
    }

    /// Reads the new events, and returns the questions of an execution with their outcomes.
    pub(crate) async fn asks(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
    ) -> ApiResult<QuestionHistory> {
        let mut followed = self.known(arn.as_str(), Instant::now());
        self.read(api, machines, arn, &mut followed).await?;
        let asks = followed.asks.clone();
        self.keep(arn.as_str(), followed);
        Ok(asks)
    }

    /// Reads and applies the new events.
    async fn read(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
        followed: &mut TrackedExecution,
    ) -> ApiResult<()> {
        let (events, whole) =
            newest(api, arn.as_str(), followed.steps.known, !self.ways.are_closed()).await?;
        followed.definition = machines.definition(api, &arn.machine()).await;
        for event in &events {
            followed.steps.take(&followed.definition, event);
            followed.asks.take(&self.ways, event);
            followed.printed += log::length(event);
        }
        if !whole {
            // Some events that count were not read.
            followed.steps.items = None;
        }
        followed.is_read = true;
        Ok(())
    }

    /// Records a hint. For a while the cached list is not used for the execution, so that polls describe it.
    /// If it is followed here and question channels are configured, the next poll also reads its history.
    pub(crate) fn has_news(&self, arn: &str) {
        self.lists.mark_changed(arn, Instant::now());
        if let Some(followed) = self.followed.lock().get_mut(arn) {
            followed.is_read = false;
            followed.news += 1;
        }
    }

    /// Returns the time since the last read of its history, divided by the time for which the execution is
    /// followed. Infinite if its history was never read here.
    pub(crate) fn urgency(&self, arn: &str, now: Instant) -> f64 {
        let followed = self.followed.lock();
        let Some(it) = followed.get(arn) else { return f64::INFINITY };
        let (Some(first), Some(looked)) = (it.first, it.looked) else { return f64::INFINITY };
        let unread = now.saturating_duration_since(looked).as_secs_f64();
        unread / now.saturating_duration_since(first).as_secs_f64().max(1.0)
    }

    /// Returns true if the execution is followed here: it was polled or answered, and has neither been seen
    /// to end nor been dropped for `MOST`.
    pub(crate) fn follows(&self, arn: &str) -> bool {
        self.followed.lock().contains_key(arn)
    }

    fn keep(&self, arn: &str, it: TrackedExecution) {
        // Hints that arrived during the read may not be in the history that was read.
        let mut followed = self.followed.lock();
        let is_read = followed.get(arn).is_none_or(|before| before.news == it.news) && it.is_read;
        let news = followed.get(arn).map_or(it.news, |before| before.news);
        followed.insert(arn.to_owned(), TrackedExecution { is_read, news, ..it });
    }

    /// Removes an execution that has ended.
    pub(crate) fn forget(&self, arn: &str) {
        self.followed.lock().remove(arn);
    }

    fn known(&self, arn: &str, now: Instant) -> TrackedExecution {
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
        let mut steps = StepProgress::default();
        for (at, (kind, name, number)) in events.iter().enumerate() {
            let name = (!name.is_empty()).then(|| (*name).to_owned());
            let id = i64::try_from(at).unwrap() + 1;
            let at = kind.ends_with("Entered").then(|| Timestamp::from_millis(id * 1000));
            let event = ExecutionEvent {
                id,
                kind: (*kind).to_owned(),
                name,
                number: Some(*number),
                at,
                ..ExecutionEvent::default()
            };
            steps.take(&definition, &event);
        }
        let seen = steps.tell(&definition, Observation::new(JobState::Running));
        (seen.message, seen.progress)
    }

    fn progress(done: f64, total: Option<f64>) -> Option<Progress> {
        Some(Progress { done, total })
    }

    /// Without choices, progress is the number of the step and the total.
    #[test]
    fn linear_progress_counts_steps() {
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

    /// After the first poll, a new question waits briefly for its token. A reported question stays.
    #[test]
    fn question_waits_briefly_for_token() {
        let (asked, ways) =
            (json!({"message": "Well?"}), QuestionChannels { activities: vec!["a".to_owned()], queue: None });
        let content = QuestionContent::of(&asked).unwrap();
        let mut followed = TrackedExecution::default();
        let (resource, parameters) = (Some("a".to_owned()), Some(asked.to_string()));
        let event = ExecutionEvent {
            id: 3,
            previous: 2,
            kind: "ActivityScheduled".to_owned(),
            resource,
            parameters,
            ..ExecutionEvent::default()
        };
        followed.asks.take(&ways, &event);
        let mut begun_anew = followed.clone();
        let now = Instant::now();
        assert_eq!(begun_anew.questions(&[], true, now).len(), 1);
        assert_eq!(begun_anew.questions(&[], false, now).len(), 1);
        assert_eq!(followed.questions(&[], false, now), []);
        assert_eq!(followed.questions(std::slice::from_ref(&content), false, now).len(), 1);
        assert_eq!(followed.questions(&[], false, now).len(), 1, "what was told is told on");
        let mut elsewhere = TrackedExecution { told_from: HashMap::new(), ..followed.clone() };
        assert_eq!(elsewhere.questions(&[], false, now), []);
        assert_eq!(elsewhere.questions(&[], false, now + SOON).len(), 1, "another server has the token");
    }

    /// With a choice or without a definition, progress counts states and has no total.
    #[test]
    fn branching_progress_counts_states() {
        let choice = json!({"StartAt": "a", "States": {"a": {"Type": "Choice", "Default": "b"}, "b": {"Type": "Pass", "Next": "a"}}});
        let events =
            [("ChoiceStateEntered", "a", 0), ("ChoiceStateExited", "a", 0), ("PassStateEntered", "b", 0)];
        let (message, done) = told(choice, &events);
        assert!(message.is_some_and(|message| message.starts_with("b, since")));
        assert_eq!(done, progress(1.0, None));
        let (message, _) = told(json!({}), &events);
        assert!(message.is_some_and(|message| message.starts_with("b, since")), "without a definition");
    }

    /// A map reports how many items are done, and a parallel state how many branches.
    #[test]
    fn maps_and_branches_report_counts() {
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
