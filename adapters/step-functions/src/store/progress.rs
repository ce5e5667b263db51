//! Progress and questions of an execution, computed from its history. Pure except for [`ExecutionTracker`],
//! which decides when to read a history, reads it, and keeps only what may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Observation, Question, Result, Timestamp};
use tokio::time::Instant;

use crate::driver::api::{Api, ApiResult};
use crate::driver::budget::Bucket;
use crate::driver::definition::Definition;
use crate::driver::machines::Machines;
use crate::identity::handle::ExecutionArn;
use crate::store::history::content::QuestionContent;
use crate::store::history::log_lines;
use crate::store::history::questions::{QuestionChannels, QuestionHistory};
use crate::store::history::{ExecutionEvent, read_newest};
use crate::store::list_cache::ExecutionListCache;

/// Minimum interval between two reads of the history of one execution. The first read, a read after a hint
/// with question channels, and the read for an answer do not wait for it.
const MIN_READ_INTERVAL: Duration = Duration::from_secs(2);
/// How long a new question is held back until its token arrives. Then it is reported without: another server
/// may have received the token.
const TOKEN_GRACE: Duration = Duration::from_secs(5);
/// Maximum number of followed executions. Beyond it, one whose history was never read is dropped, else the
/// one whose history was read longest ago.
const MAX_TRACKED: usize = 5000;

/// Progress of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepProgress {
    /// Id of the newest event that was applied.
    last_event_id: i64,
    /// Number of exits from states that are not nested in another. A loop counts each time.
    exited_states: u32,
    /// Current state, and its start time.
    current_state: Option<(String, Option<Timestamp>)>,
    /// Number of items of the current map, and how many are done.
    items: Option<(i32, i32)>,
    /// Number of finished branches of the current state.
    finished_branches: usize,
}

impl StepProgress {
    /// Applies the next event.
    fn apply(&mut self, definition: &Definition, event: &ExecutionEvent) {
        self.last_event_id = self.last_event_id.max(event.id);
        let name = event.name.as_deref().unwrap_or_default();
        // Without a definition, it is unknown which states are nested, so all are shown.
        let is_top_level = definition.is_top_level(name) || *definition == Definition::default();
        match event.kind.as_str() {
            "MapStateStarted" => self.items = event.number.map(|items| (items, 0)),
            "MapIterationSucceeded" => {
                if let Some((_, done)) = &mut self.items {
                    *done += 1;
                }
            }
            "ExecutionRedriven" => (self.current_state, self.items, self.finished_branches) = (None, None, 0),
            kind if kind.ends_with("StateEntered") && is_top_level => {
                (self.current_state, self.items, self.finished_branches) =
                    (Some((name.to_owned(), event.at)), None, 0);
            }
            kind if kind.ends_with("StateExited") && is_top_level => self.exited_states += 1,
            kind if kind.ends_with("StateExited") => {
                let is_branch_end =
                    self.current_state.as_ref().is_some_and(|(state, _)| definition.ends_branch(state, name));
                self.finished_branches += usize::from(is_branch_end);
            }
            _ => {}
        }
    }

    /// Adds the progress to the observation, as numbers and as text.
    fn add_to(&self, definition: &Definition, observation: Observation) -> Observation {
        let Some((state, since)) = &self.current_state else { return observation };
        let (mut message, progress) = match definition.position(state) {
            Some((at, total)) => {
                (format!("step {} of {total}: {state}", at + 1), (at as f64, Some(total as f64)))
            }
            None => (state.clone(), (f64::from(self.exited_states), None)),
        };
        if let Some((items, done)) = self.items {
            message.push_str(&format!(", {done} of {items} items done"));
        }
        if let Some(branches) = definition.branches(state) {
            message.push_str(&format!(", {} of {branches} branches done", self.finished_branches));
        }
        if let Some(since) = since {
            message.push_str(&format!(", since {since}"));
        }
        observation.with_message(message).with_progress(progress.0, progress.1)
    }
}

/// Cached state of a followed execution.
#[derive(Clone, Default)]
struct TrackedExecution {
    steps: StepProgress,
    question_history: QuestionHistory,
    /// True if its history was read, and no hint has arrived since.
    is_read: bool,
    /// Number of hints that arrived.
    hint_count: u32,
    /// Length of its log in bytes, as far as its history was read.
    log_bytes: u64,
    /// Time from which each question is reported even if its token is not here.
    report_from: HashMap<String, Instant>,
    definition: Arc<Definition>,
    last_read: Option<Instant>,
    tracked_since: Option<Instant>,
}

/// Poll of an execution, before its history is added.
pub(crate) struct PollContext<'a> {
    /// Observation without its history.
    pub(crate) observation: Observation,
    /// Contents that arrived with tokens.
    pub(crate) token_contents: &'a [QuestionContent],
    /// True if this server started it recently.
    pub(crate) is_new: bool,
    /// True if a client watches the progress.
    pub(crate) watched: bool,
}

impl TrackedExecution {
    /// Returns the questions to report.
    fn questions(
        &mut self,
        token_contents: &[QuestionContent],
        is_first: bool,
        now: Instant,
    ) -> Vec<Question> {
        let mut questions = self.question_history.questions(token_contents);
        let default_from = if is_first { now } else { now + TOKEN_GRACE };
        let earlier = std::mem::take(&mut self.report_from);
        questions.retain(|question| {
            let has_token = token_contents.iter().any(|content| question.id.starts_with(&content.digest));
            let report_from = earlier.get(&question.id).copied().unwrap_or(default_from);
            let report_from = if has_token { report_from.min(now) } else { report_from };
            self.report_from.insert(question.id.clone(), report_from);
            report_from <= now
        });
        questions
    }
}

/// Followed executions, and the limit of calls for their progress.
pub(crate) struct ExecutionTracker {
    read_budget: Mutex<Bucket>,
    /// Configured ways in which steps can ask.
    channels: QuestionChannels,
    list_cache: Arc<ExecutionListCache>,
    executions: Mutex<HashMap<String, TrackedExecution>>,
}

impl ExecutionTracker {
    pub(crate) fn new(
        calls_per_minute: u16,
        channels: QuestionChannels,
        list_cache: Arc<ExecutionListCache>,
    ) -> Self {
        let bucket =
            Bucket::full(u32::from(calls_per_minute), f64::from(calls_per_minute) / 60.0, Instant::now());
        Self { read_budget: Mutex::new(bucket), channels, list_cache, executions: Mutex::default() }
    }

    /// Adds the progress and the questions to the observation of a running execution.
    ///
    /// The history is read if a client watches or question channels are configured, a read is due, and a call
    /// of `progress_calls_per_minute` is left. A read is due `MIN_READ_INTERVAL` after the last one, and not
    /// before a tenth of the time for which the execution is followed. Questions must be known even if no
    /// client watches: an observation without a question means that it is no longer asked. A question whose
    /// token went to another server appears only in the history. So with question channels, a history that
    /// was not read since the last hint, or that has an open question and was not read for
    /// `MIN_READ_INTERVAL`, is read without taking a call.
    ///
    /// A failed read fails the poll only if question channels are configured and the history was not read
    /// since the last hint.
    pub(crate) async fn add_progress(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
        context: PollContext<'_>,
    ) -> Result<Observation> {
        let now = Instant::now();
        let mut tracked = self.get_or_insert(arn.as_str(), now);
        let age = tracked.tracked_since.map_or(Duration::ZERO, |since| now - since);
        let read_within =
            |interval: Duration| tracked.last_read.is_some_and(|last_read| now - last_read < interval);
        let has_channels = !self.channels.is_empty();
        let must_read = has_channels
            && (!tracked.is_read || (tracked.question_history.has_open() && !read_within(MIN_READ_INTERVAL)));
        // A question from before this server started is reported at once: it may have been reported before.
        let is_first = tracked.last_read.is_none() && !context.is_new;
        let may_read = (context.watched || has_channels) && !read_within(MIN_READ_INTERVAL.max(age / 10));
        if must_read || (may_read && self.read_budget.lock().take(now).is_ok()) {
            tracked.last_read = Some(now);
            match self.read(api, machines, arn, &mut tracked).await {
                Err(failure) if has_channels && !tracked.is_read => return Err(failure.into()),
                _ => {}
            }
        }
        let mut observation = tracked.steps.add_to(&tracked.definition, context.observation);
        observation.questions = tracked.questions(context.token_contents, is_first, now);
        observation.log_bytes = (tracked.log_bytes > 0).then_some(tracked.log_bytes);
        self.store(arn.as_str(), tracked);
        Ok(observation)
    }

    /// Reads the new events, and returns the questions of an execution with their outcomes.
    pub(crate) async fn read_questions(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
    ) -> ApiResult<QuestionHistory> {
        let mut tracked = self.get_or_insert(arn.as_str(), Instant::now());
        self.read(api, machines, arn, &mut tracked).await?;
        let questions = tracked.question_history.clone();
        self.store(arn.as_str(), tracked);
        Ok(questions)
    }

    /// Reads and applies the new events.
    async fn read(
        &self,
        api: &Api,
        machines: &Machines,
        arn: &ExecutionArn<'_>,
        tracked: &mut TrackedExecution,
    ) -> ApiResult<()> {
        let (events, is_complete) =
            read_newest(api, arn.as_str(), tracked.steps.last_event_id, !self.channels.is_empty()).await?;
        tracked.definition = machines.definition(api, &arn.machine()).await;
        for event in &events {
            tracked.steps.apply(&tracked.definition, event);
            tracked.question_history.apply(&self.channels, event);
            tracked.log_bytes += log_lines::length(event);
        }
        if !is_complete {
            // Some events that count were not read.
            tracked.steps.items = None;
        }
        tracked.is_read = true;
        Ok(())
    }

    /// Records a hint. For a while the cached list is not used for the execution, so that polls describe it.
    /// If it is followed here and question channels are configured, the next poll also reads its history.
    pub(crate) fn record_hint(&self, arn: &str) {
        self.list_cache.mark_changed(arn, Instant::now());
        if let Some(tracked) = self.executions.lock().get_mut(arn) {
            tracked.is_read = false;
            tracked.hint_count += 1;
        }
    }

    /// Returns the time since the last read of its history, divided by the time for which the execution is
    /// followed. Infinite if its history was never read here.
    pub(crate) fn urgency(&self, arn: &str, now: Instant) -> f64 {
        let executions = self.executions.lock();
        let Some(tracked) = executions.get(arn) else { return f64::INFINITY };
        let (Some(since), Some(last_read)) = (tracked.tracked_since, tracked.last_read) else {
            return f64::INFINITY;
        };
        let unread_seconds = now.saturating_duration_since(last_read).as_secs_f64();
        unread_seconds / now.saturating_duration_since(since).as_secs_f64().max(1.0)
    }

    /// Returns true if the execution is followed here: it was polled or answered, no poll has seen it end,
    /// and it was not dropped because of `MAX_TRACKED`.
    pub(crate) fn is_tracked(&self, arn: &str) -> bool {
        self.executions.lock().contains_key(arn)
    }

    fn store(&self, arn: &str, tracked: TrackedExecution) {
        // Hints that arrived during the read may not be in the history that was read.
        let mut executions = self.executions.lock();
        let is_read = executions.get(arn).is_none_or(|earlier| earlier.hint_count == tracked.hint_count)
            && tracked.is_read;
        let hint_count = executions.get(arn).map_or(tracked.hint_count, |earlier| earlier.hint_count);
        executions.insert(arn.to_owned(), TrackedExecution { is_read, hint_count, ..tracked });
    }

    /// Removes an execution that has ended.
    pub(crate) fn forget(&self, arn: &str) {
        self.executions.lock().remove(arn);
    }

    fn get_or_insert(&self, arn: &str, now: Instant) -> TrackedExecution {
        let mut executions = self.executions.lock();
        if executions.len() >= MAX_TRACKED && !executions.contains_key(arn) {
            let oldest =
                executions.iter().min_by_key(|(_, tracked)| tracked.last_read).map(|(arn, _)| arn.clone());
            oldest.and_then(|oldest| executions.remove(&oldest));
        }
        let tracked = executions.entry(arn.to_owned()).or_default();
        tracked.tracked_since.get_or_insert(now);
        tracked.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use taskbridge_sdk::{JobState, Progress};

    fn report(definition: Value, events: &[(&str, &str, i32)]) -> (Option<String>, Option<Progress>) {
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
            steps.apply(&definition, &event);
        }
        let observation = steps.add_to(&definition, Observation::new(JobState::Running));
        (observation.message, observation.progress)
    }

    fn progress(done: f64, total: Option<f64>) -> Option<Progress> {
        Some(Progress { done, total })
    }

    /// Without choices, progress is the number of the step and the total.
    #[test]
    fn linear_progress_counts_steps() {
        let machine = json!({"StartAt": "a", "States": {
            "a": {"Type": "Pass", "Next": "b"}, "b": {"Type": "Wait", "Next": "c"}, "c": {"Type": "Pass", "End": true},
        }});
        assert_eq!(report(machine.clone(), &[("ExecutionStarted", "", 0)]), (None, None));
        let (message, done) = report(
            machine,
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
        let (question, channels) =
            (json!({"message": "Well?"}), QuestionChannels { activities: vec!["a".to_owned()], queue: None });
        let content = QuestionContent::of(&question).unwrap();
        let mut tracked = TrackedExecution::default();
        let (resource, parameters) = (Some("a".to_owned()), Some(question.to_string()));
        let event = ExecutionEvent {
            id: 3,
            previous: 2,
            kind: "ActivityScheduled".to_owned(),
            resource,
            parameters,
            ..ExecutionEvent::default()
        };
        tracked.question_history.apply(&channels, &event);
        let mut restarted = tracked.clone();
        let now = Instant::now();
        assert_eq!(restarted.questions(&[], true, now).len(), 1);
        assert_eq!(restarted.questions(&[], false, now).len(), 1);
        assert_eq!(tracked.questions(&[], false, now), []);
        assert_eq!(tracked.questions(std::slice::from_ref(&content), false, now).len(), 1);
        assert_eq!(tracked.questions(&[], false, now).len(), 1, "a reported question stays reported");
        let mut other_server = TrackedExecution { report_from: HashMap::new(), ..tracked.clone() };
        assert_eq!(other_server.questions(&[], false, now), []);
        assert_eq!(
            other_server.questions(&[], false, now + TOKEN_GRACE).len(),
            1,
            "another server has the token"
        );
    }

    /// With a choice or without a definition, progress counts states and has no total.
    #[test]
    fn branching_progress_counts_states() {
        let choice = json!({"StartAt": "a", "States": {"a": {"Type": "Choice", "Default": "b"}, "b": {"Type": "Pass", "Next": "a"}}});
        let events =
            [("ChoiceStateEntered", "a", 0), ("ChoiceStateExited", "a", 0), ("PassStateEntered", "b", 0)];
        let (message, done) = report(choice, &events);
        assert!(message.is_some_and(|message| message.starts_with("b, since")));
        assert_eq!(done, progress(1.0, None));
        let (message, _) = report(json!({}), &events);
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
        let (message, done) = report(map, &events);
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
        let (message, _) = report(both, &events);
        assert!(message.is_some_and(|message| message.starts_with("step 1 of 1: p, 1 of 2 branches done")));
    }
}
