//! Tests of the machine's invariants over random histories: random events in any order, late and duplicated,
//! and a driver that follows [`todo`] against an engine whose replies get lost.

mod deadlines;
mod engine_replies;
mod examples;
mod outcome_unknown;
mod questions;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use taskbridge_sdk::{
    Answer, ErrorKind, GroupKey, JobHandle, JobKey, JobState, Observation, OnBehalfOf, Output, Question,
    Timestamp,
};

use super::*;
use crate::tasks::task::{
    CANNOT_BE_CANCELLED, LogSize, OnExpiry, OnRefusal, Origin, Owner, Spec, TaskId, TaskPolicy,
};

const START: Timestamp = Timestamp::from_millis(1_000_000);

fn any_owner() -> Owner {
    Owner::new("somebody")
}

fn question(id: &str) -> Question {
    Question::form(id, format!("{id}?"), json!({"type": "object", "properties": {}}))
}

fn row(confirm: bool, on_expiry: OnExpiry) -> Task {
    let questions = confirm
        .then(|| TaskQuestion::new("q1".to_owned(), question("confirm"), QuestionSource::Confirm, START));
    with_due_time(Task {
        id: TaskId::from_bytes([1; 20]),
        owner: Owner::new("ana"),
        tool: "deploy".to_owned(),
        backend: "sim".to_owned(),
        key: JobKey::from_bytes([2; 16]),
        origin: Origin::default(),
        terms: TaskPolicy {
            ttl: Duration::from_secs(60),
            keep_result: Duration::from_secs(3600),
            max_runtime: Duration::from_secs(7200),
            max_wait: None,
            outcome_grace: Duration::from_secs(900),
            on_expiry,
            start_within: Duration::from_secs(300),
            settle_window: Duration::from_secs(120),
            on_decline: OnRefusal::Tell,
            on_dismiss: OnRefusal::Tell,
            answer_within: None,
            four_eyes: false,
        },
        slots: vec!["tool:deploy".to_owned()],
        refused_when_full: false,
        created_at: START,
        changed_at: START,
        ended_at: None,
        state: if confirm { TaskState::InputRequired } else { TaskState::Working },
        message: None,
        progress: None,
        furthest: None,
        link: None,
        files_bytes: 0,
        notes: Vec::new(),
        refers_to: Vec::new(),
        printed: None,
        watched_until: None,
        job: Job::Pending {
            spec: Spec {
                target: json!({}),
                arguments: json!({}),
                sealed: None,
                unresolved: Default::default(),
            },
            queued: false,
            attempts: 0,
            not_before: START,
        },
        cancel: None,
        questions: questions.into_iter().collect(),
        trouble: None,
        overdue: None,
        missing: None,
        look_at: None,
        kept_arguments: None,
        variant: None,
        undelivered: None,
        result_read_at: None,
        due_at: None,
        version: 1,
    })
}

/// Returns a poll that began at [`START`].
pub(crate) fn poll(observation: Observation) -> Event {
    poll_at(observation, START)
}

fn poll_at(observation: Observation, polled_at: Timestamp) -> Event {
    let (list_lag, start_lag, new_group) = Default::default();
    Event::Observed { observation, polled_at, list_lag, start_lag, new_group }
}

/// Returns a row with this id, of this channel.
pub(crate) fn row_of(id: &TaskId, channel: &str) -> Task {
    let origin = Origin { channel: Some(channel.to_owned()), ..Origin::default() };
    Task { id: id.clone(), origin, ..row(false, OnExpiry::Cancel) }
}

fn kinds() -> impl Strategy<Value = ErrorKind> {
    prop_oneof![
        Just(ErrorKind::Rejected),
        Just(ErrorKind::Denied),
        Just(ErrorKind::Config),
        Just(ErrorKind::Limited { after: Some(Duration::from_secs(3)) }),
        Just(ErrorKind::Unavailable),
        Just(ErrorKind::Uncertain),
        Just(ErrorKind::Unsupported),
    ]
}

fn failures() -> impl Strategy<Value = Failure> {
    kinds().prop_map(|kind| Failure {
        kind,
        message: format!("it was {kind}"),
        is_final: false,
        retry_after: None,
    })
}

fn observations() -> impl Strategy<Value = Observation> {
    let states = prop_oneof![
        2 => Just(JobState::Queued),
        4 => Just(JobState::Running),
        1 => Just(JobState::Succeeded(Output::text("done"))),
        1 => Just(JobState::Failed(Output::text("boom"))),
        1 => Just(JobState::Cancelled(Output::default())),
        1 => Just(JobState::Gone),
    ];
    (states, proptest::option::of("[a-c]"), 0..3usize).prop_map(|(state, message, asks)| {
        let mut observation = Observation::new(state);
        observation.message = message;
        observation.questions = ["x", "y"].iter().take(asks).map(|id| question(id)).collect();
        observation
    })
}

fn events() -> impl Strategy<Value = Event> {
    let key = || prop_oneof![Just("q1".to_owned()), Just("q2".to_owned()), Just("q9".to_owned())];
    let answers = prop_oneof![
        Just(Answer::Accept(serde_json::Map::new())),
        Just(Answer::Decline),
        Just(Answer::Cancel)
    ];
    let started = proptest::option::of(observations()).prop_map(|first| Event::Started {
        handle: JobHandle::new("h"),
        group: GroupKey::new(""),
        first,
    });
    prop_oneof![
        Just(Event::StartCommitted),
        Just(Event::StartNotSent),
        Just(resolved()),
        Just(Event::ReferenceLost { parameter: "after".to_owned() }),
        Just(Event::NoSlot),
        Just(Event::NotFound),
        (0u64..120).prop_map(|lag| Event::CancelTaken { start_lag: Duration::from_secs(lag) }),
        failures().prop_map(Event::CancelFailed),
        Just(Event::ResultDelivered),
        Just(Event::ResultRead { by: Owner::new("reader") }),
        Just(Event::CallAbandoned),
        (0..90u64).prop_map(|after| Event::CallAttached { until: START + Duration::from_secs(after) }),
        Just(Event::DeadlinePassed),
        (5..7u32).prop_map(|times| Event::PollCrashed { times }),
        Just(Event::RetryNow),
        Just(Event::AnswersDue),
        Just(Event::OutcomeUnknown),
        (0..90u64).prop_map(|after| Event::Watched { until: START + Duration::from_secs(after) }),
        Just(Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }),
        Just(Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: None }),
        started,
        (1..4u32, any::<bool>(), failures()).prop_map(|(attempt, may_exist, failure)| Event::StartFailed {
            attempt,
            may_exist,
            failure
        }),
        failures().prop_map(Event::FindFailed),
        failures().prop_map(Event::PollFailed),
        observations().prop_map(poll),
        (key(), answers).prop_map(|(key, answer)| Event::Answered { key, answer, by: any_owner().into() }),
        key().prop_map(|key| Event::AnswerTaken { key }),
        key().prop_map(|key| Event::AnswerTooLate { key }),
        key().prop_map(|key| Event::AnswerNotAllowed { key }),
        (key(), failures()).prop_map(|(key, failure)| Event::AnswerFailed { key, failure }),
        key().prop_map(|key| Event::QuestionSent { key }),
    ]
}

/// Returns a row that waits for another task to start.
fn referring(mut task: Task) -> Task {
    let Job::Pending { spec, .. } = &mut task.job else { panic!("it has started") };
    spec.unresolved.insert("after".to_owned(), TaskId::from_wire("another"));
    task
}

fn resolved() -> Event {
    Event::Resolved { handles: vec![("after".to_owned(), JobHandle::new("h"))] }
}

fn rows() -> impl Strategy<Value = Task> {
    let rule = || prop_oneof![Just(OnRefusal::Tell), Just(OnRefusal::Fail), Just(OnRefusal::Cancel)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (flags, rule(), rule()).prop_map(|((confirm, cancel, refers), on_decline, on_dismiss)| {
        let mut task = row(confirm, if cancel { OnExpiry::Cancel } else { OnExpiry::Abandon });
        if refers {
            task = referring(task);
        }
        task.terms.on_decline = on_decline;
        task.terms.on_dismiss = on_dismiss;
        task
    })
}

/// Asserts the invariants that every row has after any events.
fn assert_invariants(task: &Task) {
    let may_run = !matches!(task.job, Job::Closed { .. });
    assert_eq!(may_run, task.due_at.is_some(), "a row is due exactly while its job may run: {task:?}");
    assert!(task.has_ended() || may_run, "an unfinished task has a job that can still run: {task:?}");
    assert_eq!(task.has_ended(), task.ended_at.is_some());
    let asks = task.open_questions().next().is_some();
    assert_eq!(asks, task.state == TaskState::InputRequired, "{task:?}");
    assert!(!task.has_ended() || task.message.is_some(), "an ended task has a message: {task:?}");
    if task.has_ended() || task.cancel.is_some() {
        let later = START + Duration::from_secs(100_000_000);
        let starts = matches!(todo(task, later), Action::Start { .. });
        assert!(!starts, "an unwanted job is never started: {task:?}");
    }
    let mut keys: Vec<_> = task.questions.iter().map(|asked| &asked.key).collect();
    keys.dedup();
    assert_eq!(keys.len(), task.questions.len(), "question keys are never reused");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// After any events, in any order, at any time, rows stay valid, final states do not change,
    /// and a result comes once.
    #[test]
    fn rows_stay_valid_after_any_events(
        first in rows(),
        history in proptest::collection::vec((events(), 0..400_000u64), 1..40),
    ) {
        let (mut task, mut now, mut outputs) = (first, START, 0);
        for (event, later) in history {
            now = now + Duration::from_millis(later);
            let step = next(&task, event, now);
            assert_invariants(&step.task);
            outputs += usize::from(step.output.is_some());
            if task.has_ended() {
                prop_assert_eq!(step.task.state, task.state);
                prop_assert_eq!(step.task.ended_at, task.ended_at);
                // Only that its engine cannot stop the job may be added to what a client was told.
                let (before, after) = (task.status_message().unwrap(), step.task.status_message().unwrap());
                let added = format!("{before}; {CANNOT_BE_CANCELLED}");
                prop_assert!(after == before || (!task.cannot_be_cancelled() && after == added));
                prop_assert!(step.output.is_none());
            }
            prop_assert_eq!(&step.task.owner, &task.owner);
            prop_assert_eq!(&step.task.key, &task.key);
            if task.handle().is_some() {
                prop_assert_eq!(step.task.handle(), task.handle(), "a handle is never lost");
            }
            task = step.task;
        }
        prop_assert!(outputs <= 1);
    }

    /// A fact or a request that arrives twice changes nothing the second time.
    #[test]
    fn duplicate_event_changes_nothing(
        first in rows(),
        history in proptest::collection::vec(events(), 0..20),
        event in events(),
    ) {
        let counts_failures = matches!(
            event,
            Event::CancelFailed(_) | Event::AnswerFailed { .. } | Event::NotFound | Event::FindFailed(_)
                | Event::StartFailed { .. } | Event::StartNotSent
        );
        prop_assume!(!counts_failures);
        let task = history.into_iter().fold(first, |task, event| next(&task, event, START).task);
        let once = next(&task, event.clone(), START).task;
        let twice = next(&once, event, START).task;
        prop_assert_eq!(once, twice);
    }

    /// A driver that follows `todo`, loses replies and crashes, never sends a second start that could run
    /// beside a first. Whatever was sent is known not to have started, or is only searched for.
    #[test]
    fn uncertain_start_is_never_repeated(
        first in rows(),
        moves in proptest::collection::vec((0..10u8, 1..20_000u64, failures()), 1..60),
    ) {
        let (mut task, mut now) = (first, START);
        let mut unresolved = 0;
        for (choice, later, failure) in moves {
            now = now + Duration::from_millis(later);
            match todo(&task, now) {
                Action::Start { may_exist: false } => {
                    task = next(&task, Event::StartCommitted, now).task;
                    let Job::Starting { attempts, .. } = task.job else { panic!("the start was not committed") };
                    if choice == 0 {
                        // A crash between the commit and the request: nothing was sent, and no
                        // process knows that.
                        unresolved += 1;
                        continue;
                    }
                    unresolved += 1;
                    prop_assert!(unresolved <= 1, "a second start went out while a first was unresolved");
                    let arrived_not = !matches!(failure.kind, ErrorKind::Uncertain);
                    if choice < 8 {
                        task = next(&task, Event::StartFailed { attempt: attempts, may_exist: false, failure }, now).task;
                        unresolved -= u32::from(arrived_not);
                    }
                }
                Action::Start { may_exist: true } => {
                    let Job::Starting { attempts, .. } = task.job else { panic!("nothing was started") };
                    task = next(&task, Event::StartFailed { attempt: attempts, may_exist: true, failure }, now).task;
                }
                Action::Find => task = next(&task, Event::NotFound, now).task,
                Action::Resolve => task = next(&task, resolved(), now).task,
                Action::Expire => task = next(&task, Event::DeadlinePassed, now).task,
                Action::Cancel | Action::Poll | Action::Answer { .. } => unreachable!("the job never started"),
                Action::Wait => {
                    if choice == 9 {
                        task = next(&task, Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }, now).task;
                    }
                    let key = "q1".to_owned();
                    task = next(&task, Event::Answered { key, answer: Answer::Accept(Default::default()), by: any_owner().into() }, now).task;
                }
            }
            assert_invariants(&task);
        }
    }
}
