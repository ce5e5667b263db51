//! Tests of the history entry of each event, and of the bounds on repeated events.

use serde_json::json;
use taskbridge_sdk::{GroupKey, JobState, Observation, Output, Question, Timestamp};

use super::*;
use crate::tasks::machine::tests::{poll, row_of};
use crate::tasks::machine::{self, Cancel, Failure};
use crate::tasks::task::TaskId;

/// A row and its history.
struct Told {
    task: Task,
    now: Timestamp,
    kept: Vec<Transition>,
}

impl Told {
    fn new() -> Self {
        let task = row_of(&TaskId::from_wire("t"), "s");
        Self { now: task.created_at, kept: scribe(true).born(&task).into_iter().collect(), task }
    }

    /// Applies the event after `later`, and returns the facts that are kept.
    fn hears(&mut self, event: Event, later: Duration) -> Vec<Fact> {
        self.now = self.now + later;
        let said = said(&self.task, &event);
        let after = machine::next(&self.task, event, self.now).task;
        let transition = scribe(true).transition(&self.task, said, &after, None);
        self.task = after;
        self.kept.extend(transition.clone());
        transition.map(|transition| transition.what).unwrap_or_default()
    }

    fn now_hears(&mut self, event: Event) -> Vec<Fact> {
        self.hears(event, Duration::from_millis(10))
    }

    fn opened() -> Self {
        let mut told = Self::new();
        told.now_hears(Event::Intended);
        told.now_hears(started());
        told
    }
}

fn scribe(keeps: bool) -> HistoryRecorder {
    HistoryRecorder { replica: Holder("here".to_owned()), keeps }
}

fn started() -> Event {
    Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None }
}

fn failure() -> Failure {
    Failure {
        kind: ErrorKind::Unavailable,
        message: "the secret words of an engine".to_owned(),
        is_final: false,
    }
}

fn seen(state: JobState) -> Event {
    poll(Observation::new(state))
}

fn outage() -> Fact {
    Fact::LooksFail { kind: "unavailable".to_owned() }
}

/// Each transition of a task is recorded once, in order and in few bytes.
#[test]
fn history_lists_transitions_in_order() {
    let mut told = Told::new();
    assert!(matches!(told.kept[0].what[..], [Fact::Created { .. }]));
    assert_eq!(told.now_hears(Event::Intended), [Fact::Attempt(1)]);
    let failed = Event::StartFailed { attempt: 1, may_exist: false, failure: failure() };
    assert_eq!(told.now_hears(failed), [Fact::StartFailed { attempt: 1, kind: "unavailable".to_owned() }]);
    assert_eq!(told.now_hears(Event::Intended), [Fact::Attempt(2)]);
    assert_eq!(told.now_hears(started()), [Fact::Accepted(JobHandle::new("h"))]);
    assert_eq!(told.now_hears(Event::LookFailed(failure())), [outage()]);
    assert_eq!(told.now_hears(Event::LookFailed(failure())), [], "it is known");
    assert_eq!(told.now_hears(seen(JobState::Running)), [Fact::LooksAgain]);
    let mut asks = Observation::new(JobState::Running);
    asks.questions = vec![Question::form("x", "x?", json!({"type": "object", "properties": {}}))];
    let key = || "q1".to_owned();
    assert_eq!(told.now_hears(poll(asks.clone())), [Fact::Asked(key())]);
    let until = told.now + Duration::from_secs(60);
    for (n, expected) in [(1, vec![Fact::Sent(key())]), (1, vec![]), (2, vec![])] {
        let delivering = Event::Delivering { key: key(), n, until: until + Duration::from_secs(n.into()) };
        assert_eq!(told.now_hears(delivering), expected);
    }
    let secret = json!({"password": "hunter2"});
    let answer = Answer::Accept(secret.as_object().unwrap().clone());
    let ben = Owner::new("ben");
    let answered = Event::Answered { key: key(), answer, by: ben.clone().into() };
    assert_eq!(
        told.now_hears(answered.clone()),
        [Fact::Answered { key: key(), how: AnswerKind::Accepted, by: Some(ben) }]
    );
    assert_eq!(told.now_hears(answered), [], "the first stands");
    assert_eq!(told.now_hears(Event::AnswerTaken { key: key() }), [Fact::AnswerTaken(key())]);
    assert_eq!(
        told.now_hears(Event::CancelRequested { mode: Cancel::Request, on_behalf_of: None }),
        [Fact::CancelWished]
    );
    assert_eq!(told.now_hears(Event::CancelTaken { start_lag: Duration::ZERO }), [Fact::CancelTaken]);
    assert_eq!(
        told.now_hears(Event::CancelTaken { start_lag: Duration::ZERO }),
        [],
        "asked again ten minutes later"
    );
    assert_eq!(
        told.now_hears(seen(JobState::Cancelled(Output::text("secret result")))),
        [Fact::Ended(Outcome::Cancelled)]
    );
    assert_eq!(told.now_hears(seen(JobState::Running)), []);
    let all = serde_json::to_string(&told.kept).unwrap();
    for secret in ["hunter2", "password", "secret"] {
        assert!(!all.contains(secret), "{all}");
    }
    let read: Vec<Transition> = serde_json::from_str(&all).unwrap();
    assert_eq!(read, told.kept);
    let largest = told.kept.iter().map(|kept| serde_json::to_string(kept).unwrap().len()).max();
    assert!(largest < Some(200), "{largest:?}");
}

/// The end of a job that outlives its cancelled task is recorded.
#[test]
fn history_records_job_after_cancel() {
    let mut told = Told::opened();
    assert_eq!(
        told.now_hears(Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }),
        [Fact::CancelWished, Fact::Ended(Outcome::Cancelled)]
    );
    assert_eq!(told.now_hears(seen(JobState::Gone)), [Fact::JobOver]);
}

/// A question that the engine no longer asks is recorded as withdrawn.
#[test]
fn history_records_withdrawn_question() {
    let mut told = Told::opened();
    let mut asks = Observation::new(JobState::Running);
    asks.questions = vec![Question::form("x", "x?", json!({"type": "object", "properties": {}}))];
    told.now_hears(poll(asks));
    assert_eq!(told.now_hears(seen(JobState::Running)), [Fact::Withdrawn("q1".to_owned())]);
}

/// Progress every second for a day is kept in about twenty entries.
#[test]
fn history_thins_out_progress() {
    let mut told = Told::opened();
    for second in 0..86_400 {
        let seen = Observation::new(JobState::Running).with_progress(f64::from(second), None);
        told.hears(poll(seen), Duration::from_secs(1));
    }
    let of_progress = told.kept.iter().filter(|kept| matches!(kept.what[..], [Fact::Progress(_)])).count();
    assert!((15..21).contains(&of_progress), "{of_progress}");
}

/// A failure that repeats for ever is kept less and less often.
#[test]
fn history_thins_out_failures() {
    let mut told = Told::opened();
    told.now_hears(Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None });
    let before = told.kept.len();
    for _ in 0..100_000 {
        told.hears(Event::CancelFailed(failure()), Duration::from_secs(60));
    }
    assert_eq!(told.kept.len() - before, 8 + 13, "the first eight, 16, 32, ... 65,536");
}

/// No entries are made where none are kept, or where nothing changed.
#[test]
fn disabled_history_records_nothing() {
    let told = Told::new();
    assert_eq!(scribe(false).born(&told.task), None);
    let after = machine::next(&told.task, Event::Intended, told.now).task;
    assert_eq!(scribe(false).transition(&told.task, None, &after, None), None);
    assert_eq!(scribe(true).transition(&after, Some(Fact::TakenBack), &after, None), None);
}
