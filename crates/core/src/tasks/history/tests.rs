//! Tests of the history entry of each event, and of the bounds on repeated events.

use serde_json::json;
use taskbridge_sdk::{Answer, ErrorKind, GroupKey, JobState, Observation, Output, Question, Timestamp};

use super::*;
use crate::tasks::machine::tests::{poll, row_of};
use crate::tasks::machine::{self, CancelMode, Failure};
use crate::tasks::task::TaskId;

/// A row and its history.
struct TestHistory {
    task: Task,
    now: Timestamp,
    transitions: Vec<Transition>,
}

impl TestHistory {
    fn new() -> Self {
        let task = row_of(&TaskId::from_wire("t"), "s");
        Self { now: task.created_at, transitions: recorder(true).creation(&task).into_iter().collect(), task }
    }

    /// Applies the event after `later`, and returns the facts that are kept.
    fn apply(&mut self, event: Event, later: Duration) -> Vec<Fact> {
        self.now = self.now + later;
        let fact = event_fact(&self.task, &event);
        let after = machine::next(&self.task, event, self.now).task;
        let transition = recorder(true).transition(&self.task, fact, &after, None);
        self.task = after;
        self.transitions.extend(transition.clone());
        transition.map(|transition| transition.what).unwrap_or_default()
    }

    fn apply_now(&mut self, event: Event) -> Vec<Fact> {
        self.apply(event, Duration::from_millis(10))
    }

    fn opened() -> Self {
        let mut history = Self::new();
        history.apply_now(Event::StartCommitted);
        history.apply_now(started());
        history
    }
}

fn recorder(enabled: bool) -> HistoryRecorder {
    HistoryRecorder { replica: Holder("here".to_owned()), enabled }
}

fn started() -> Event {
    Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None }
}

fn failure() -> Failure {
    Failure {
        kind: ErrorKind::Unavailable,
        message: "the secret words of an engine".to_owned(),
        is_final: false,
        retry_after: None,
    }
}

fn observed(state: JobState) -> Event {
    poll(Observation::new(state))
}

fn outage() -> Fact {
    Fact::LooksFail { kind: "unavailable".to_owned() }
}

/// Each transition of a task is recorded once, in order and in few bytes.
#[test]
fn history_lists_transitions_in_order() {
    let mut history = TestHistory::new();
    assert!(matches!(history.transitions[0].what[..], [Fact::Created { .. }]));
    assert_eq!(history.apply_now(Event::StartCommitted), [Fact::Attempt(1)]);
    let failed = Event::StartFailed { attempt: 1, may_exist: false, failure: failure() };
    assert_eq!(history.apply_now(failed), [Fact::StartFailed { attempt: 1, kind: "unavailable".to_owned() }]);
    assert_eq!(history.apply_now(Event::StartCommitted), [Fact::Attempt(2)]);
    assert_eq!(history.apply_now(started()), [Fact::Accepted(JobHandle::new("h"))]);
    assert_eq!(history.apply_now(Event::PollFailed(failure())), [outage()]);
    assert_eq!(history.apply_now(Event::PollFailed(failure())), [], "it is known");
    assert_eq!(history.apply_now(observed(JobState::Running)), [Fact::LooksAgain]);
    let mut observation = Observation::new(JobState::Running);
    observation.questions = vec![Question::form("x", "x?", json!({"type": "object", "properties": {}}))];
    let key = || "q1".to_owned();
    assert_eq!(history.apply_now(poll(observation.clone())), [Fact::Asked(key())]);
    let row = history.task.clone();
    assert_eq!(history.apply_now(Event::QuestionSent { key: key() }), [Fact::Sent(key())]);
    assert_eq!(history.task, row, "who has sent it is recorded elsewhere");
    assert_eq!(history.apply_now(Event::QuestionSent { key: "q2".to_owned() }), [], "there is none");
    let secret = json!({"password": "hunter2"});
    let answer = Answer::Accept(secret.as_object().unwrap().clone());
    let ben = Owner::new("ben");
    let answered = Event::Answered { key: key(), answer, by: ben.clone().into() };
    assert_eq!(
        history.apply_now(answered.clone()),
        [Fact::Answered { key: key(), how: AnswerKind::Accepted, by: Some(ben) }]
    );
    assert_eq!(history.apply_now(answered), [], "the first stands");
    assert_eq!(history.apply_now(Event::QuestionSent { key: key() }), [], "it is not open any more");
    assert_eq!(history.apply_now(Event::AnswerTaken { key: key() }), [Fact::AnswerTaken(key())]);
    assert_eq!(
        history.apply_now(Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: None }),
        [Fact::CancelWished]
    );
    assert_eq!(history.apply_now(Event::CancelTaken { start_lag: Duration::ZERO }), [Fact::CancelTaken]);
    assert_eq!(
        history.apply_now(Event::CancelTaken { start_lag: Duration::ZERO }),
        [],
        "asked again ten minutes later"
    );
    assert_eq!(
        history.apply_now(observed(JobState::Cancelled(Output::text("secret result")))),
        [Fact::Ended(Outcome::Cancelled)]
    );
    assert_eq!(history.apply_now(observed(JobState::Running)), []);
    let all = serde_json::to_string(&history.transitions).unwrap();
    for secret in ["hunter2", "password", "secret"] {
        assert!(!all.contains(secret), "{all}");
    }
    let read: Vec<Transition> = serde_json::from_str(&all).unwrap();
    assert_eq!(read, history.transitions);
    let largest =
        history.transitions.iter().map(|transition| serde_json::to_string(transition).unwrap().len()).max();
    assert!(largest < Some(200), "{largest:?}");
}

/// The end of a job that outlives its cancelled task is recorded.
#[test]
fn history_records_job_after_cancel() {
    let mut history = TestHistory::opened();
    assert_eq!(
        history.apply_now(Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }),
        [Fact::CancelWished, Fact::Ended(Outcome::Cancelled)]
    );
    assert_eq!(history.apply_now(observed(JobState::Cancelled(Output::default()))), [Fact::JobOver]);
}

/// A question that the engine no longer asks is recorded as withdrawn.
#[test]
fn history_records_withdrawn_question() {
    let mut history = TestHistory::opened();
    let mut observation = Observation::new(JobState::Running);
    observation.questions = vec![Question::form("x", "x?", json!({"type": "object", "properties": {}}))];
    history.apply_now(poll(observation));
    assert_eq!(history.apply_now(observed(JobState::Running)), [Fact::Withdrawn("q1".to_owned())]);
}

/// Progress every second for a day is kept in about twenty entries.
#[test]
fn history_thins_out_progress() {
    let mut history = TestHistory::opened();
    for second in 0..86_400 {
        let observation = Observation::new(JobState::Running).with_progress(f64::from(second), None);
        history.apply(poll(observation), Duration::from_secs(1));
    }
    let of_progress = history
        .transitions
        .iter()
        .filter(|transition| matches!(transition.what[..], [Fact::Progress(_)]))
        .count();
    assert!((15..21).contains(&of_progress), "{of_progress}");
}

/// A failure that repeats for ever is kept less and less often.
#[test]
fn history_thins_out_failures() {
    let mut history = TestHistory::opened();
    history.apply_now(Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None });
    let before = history.transitions.len();
    for _ in 0..100_000 {
        history.apply(Event::CancelFailed(failure()), Duration::from_secs(60));
    }
    assert_eq!(history.transitions.len() - before, 8 + 13, "the first eight, 16, 32, ... 65,536");
}

/// The first reading of a result is recorded, by whoever read it; a plain call reads for its owner. Nothing of an
/// unfinished task is read.
#[test]
fn history_records_first_reading() {
    let read = |by: &str| Event::ResultRead { by: Owner::new(by) };
    let fact = |by: &str| vec![Fact::ResultRead { by: Owner::new(by) }];
    let mut history = TestHistory::opened();
    assert_eq!(history.apply_now(read("early")), []);
    assert_eq!(history.apply_now(Event::ResultDelivered), []);
    history.apply_now(observed(JobState::Succeeded(Output::default())));
    let mut plain = TestHistory { transitions: Vec::new(), task: history.task.clone(), now: history.now };
    assert_eq!(history.apply_now(read("ann")), fact("ann"));
    assert_eq!(history.task.result_read_at, Some(history.now));
    assert_eq!(history.apply_now(read("ben")), []);
    assert_eq!(history.apply_now(Event::ResultDelivered), []);
    let owner = plain.task.owner.clone();
    assert_eq!(plain.apply_now(Event::ResultDelivered), fact(owner.as_str()));
}

/// No entries are made where none are kept, or where nothing changed.
#[test]
fn disabled_history_records_nothing() {
    let history = TestHistory::new();
    assert_eq!(recorder(false).creation(&history.task), None);
    let after = machine::next(&history.task, Event::StartCommitted, history.now).task;
    assert_eq!(recorder(false).transition(&history.task, None, &after, None), None);
    assert_eq!(recorder(true).transition(&after, Some(Fact::TakenBack), &after, None), None);
}
