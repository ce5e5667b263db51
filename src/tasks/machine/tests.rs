//! The machine's rules, held against random histories: random events in any order, late and doubled, and a driver
//! that does what [`todo`] says against an engine whose replies get lost.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use taskbridge_sdk::{
    Answer, ErrorKind, GroupKey, JobHandle, JobKey, JobState, Observation, OnBehalfOf, Output, Question,
    Timestamp,
};

use super::*;
use crate::tasks::task::{OnRefusal, Origin, Owner, Printed, Spec, TaskId, Terms};

const START: Timestamp = Timestamp::from_millis(1_000_000);

fn somebody() -> Owner {
    Owner::new("somebody")
}

fn question(id: &str) -> Question {
    Question::form(id, format!("{id}?"), json!({"type": "object", "properties": {}}))
}

fn row(confirm: bool, on_expiry: OnExpiry) -> Task {
    let questions = confirm.then(|| Asked {
        key: "q1".to_owned(),
        question: question("confirm"),
        asker: Asker::Confirm,
        at: START,
        status: AskedStatus::Open,
        delivery: None,
        answered_by: None,
        answered_as: None,
    });
    born(Task {
        id: TaskId::from_bytes([1; 20]),
        owner: Owner::new("ana"),
        tool: "deploy".to_owned(),
        backend: "sim".to_owned(),
        key: JobKey::from_bytes([2; 16]),
        origin: Origin::default(),
        terms: Terms {
            ttl: Duration::from_secs(60),
            keep_result: Duration::from_secs(3600),
            max_runtime: Duration::from_secs(7200),
            on_expiry,
            start_within: Duration::from_secs(300),
            settle_window: Duration::from_secs(120),
            on_decline: OnRefusal::Tell,
            on_dismiss: OnRefusal::Tell,
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
        notes: Vec::new(),
        refers_to: Vec::new(),
        printed: None,
        watched_until: None,
        job: Job::Pending {
            spec: Spec { target: json!({}), arguments: json!({}), sealed: None },
            queued: false,
            attempts: 0,
            not_before: START,
        },
        cancel: None,
        questions: questions.into_iter().collect(),
        trouble: None,
        look_at: None,
        undelivered: None,
        due_at: None,
        version: 1,
    })
}

/// A row by this name that this session made.
pub(crate) fn row_of(id: &TaskId, session: &str) -> Task {
    let origin = Origin { session: Some(session.to_owned()), ..Origin::default() };
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
    ]
}

fn failures() -> impl Strategy<Value = Failure> {
    kinds().prop_map(|kind| Failure { kind, message: format!("it was {kind}") })
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
        let mut seen = Observation::new(state);
        seen.message = message;
        seen.questions = ["x", "y"].iter().take(asks).map(|id| question(id)).collect();
        seen
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
        Just(Event::Intended),
        Just(Event::Unsent),
        Just(Event::NoSlot),
        Just(Event::NotFound),
        Just(Event::CancelTaken),
        failures().prop_map(Event::CancelFailed),
        Just(Event::Delivered),
        Just(Event::Abandoned),
        Just(Event::DeadlinePassed),
        Just(Event::RetryNow),
        (0..90u64).prop_map(|after| Event::Watched { until: START + Duration::from_secs(after) }),
        Just(Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }),
        Just(Event::CancelRequested { mode: Cancel::Request, on_behalf_of: None }),
        started,
        (1..4u32, any::<bool>(), failures()).prop_map(|(attempt, may_exist, failure)| Event::StartFailed {
            attempt,
            may_exist,
            failure
        }),
        failures().prop_map(Event::FindFailed),
        failures().prop_map(Event::LookFailed),
        observations().prop_map(Event::Observed),
        (key(), answers).prop_map(|(key, answer)| Event::Answered { key, answer, by: somebody().into() }),
        key().prop_map(|key| Event::AnswerTaken { key }),
        key().prop_map(|key| Event::AnswerTooLate { key }),
        (key(), failures()).prop_map(|(key, failure)| Event::AnswerFailed { key, failure }),
        (key(), 1..3u32).prop_map(|(key, n)| Event::Delivering {
            key,
            n,
            until: START + Duration::from_secs(9)
        }),
        (key(), 1..3u32, any::<bool>()).prop_map(|(key, n, over)| Event::DeliveryEnded {
            key,
            n,
            over,
            problem: None
        }),
    ]
}

fn rows() -> impl Strategy<Value = Task> {
    let rule = || prop_oneof![Just(OnRefusal::Tell), Just(OnRefusal::Fail), Just(OnRefusal::Cancel)];
    (any::<bool>(), any::<bool>(), rule(), rule()).prop_map(|(confirm, cancel, on_decline, on_dismiss)| {
        let mut task = row(confirm, if cancel { OnExpiry::Cancel } else { OnExpiry::Abandon });
        task.terms.on_decline = on_decline;
        task.terms.on_dismiss = on_dismiss;
        task
    })
}

/// What must hold of every row, whatever happened to it.
fn sound(task: &Task) {
    let may_run = !matches!(task.job, Job::Closed { .. });
    assert_eq!(may_run, task.due_at.is_some(), "a row is due exactly while its job may run: {task:?}");
    assert!(task.has_ended() || may_run, "an unfinished task has a job that can still run: {task:?}");
    assert_eq!(task.has_ended(), task.ended_at.is_some());
    let asks = task.open_questions().next().is_some();
    assert_eq!(asks, task.state == TaskState::InputRequired, "{task:?}");
    assert!(!task.has_ended() || task.message.is_some(), "an ended task says how it ended: {task:?}");
    if task.has_ended() || task.cancel.is_some() {
        let later = START + Duration::from_secs(100_000_000);
        let starts = matches!(todo(task, later), Action::Start { .. });
        assert!(!starts, "nothing is started that nobody wants any more: {task:?}");
    }
    let mut keys: Vec<_> = task.questions.iter().map(|asked| &asked.key).collect();
    keys.dedup();
    assert_eq!(keys.len(), task.questions.len(), "question keys are never reused");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Any events, in any order, at any time: rows stay sound, what is final stays as it is, a result comes once.
    #[test]
    fn rows_stay_sound_and_final_states_final(
        first in rows(),
        history in proptest::collection::vec((events(), 0..400_000u64), 1..40),
    ) {
        let (mut task, mut now, mut outputs) = (first, START, 0);
        for (event, later) in history {
            now = now + Duration::from_millis(later);
            let step = next(&task, event, now);
            sound(&step.task);
            outputs += usize::from(step.output.is_some());
            if task.has_ended() {
                prop_assert_eq!(step.task.state, task.state);
                prop_assert_eq!(step.task.ended_at, task.ended_at);
                prop_assert_eq!(step.task.status_message(), task.status_message());
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

    /// A fact or a wish that is heard twice says nothing new the second time.
    #[test]
    fn hearing_a_fact_twice_is_harmless(
        first in rows(),
        history in proptest::collection::vec(events(), 0..20),
        event in events(),
    ) {
        let counts_failures = matches!(
            event,
            Event::CancelFailed(_) | Event::AnswerFailed { .. } | Event::NotFound | Event::FindFailed(_)
                | Event::StartFailed { .. } | Event::Unsent
        );
        prop_assume!(!counts_failures);
        let task = history.into_iter().fold(first, |task, event| next(&task, event, START).task);
        let once = next(&task, event.clone(), START).task;
        let twice = next(&once, event, START).task;
        prop_assert_eq!(once, twice);
    }

    /// A driver that does what `todo` says, loses replies and crashes, never sends a second start that could run
    /// beside a first: whatever was sent either is known not to have started, or is only looked for.
    #[test]
    fn no_path_sends_a_second_start_while_a_first_may_have_arrived(
        first in rows(),
        moves in proptest::collection::vec((0..10u8, 1..20_000u64, failures()), 1..60),
    ) {
        let (mut task, mut now) = (first, START);
        let mut unresolved = 0;
        for (choice, later, failure) in moves {
            now = now + Duration::from_millis(later);
            match todo(&task, now) {
                Action::Start { may_exist: false } => {
                    task = next(&task, Event::Intended, now).task;
                    let Job::Starting { attempts, .. } = task.job else { panic!("an intent was not taken") };
                    if choice == 0 {
                        // A crash between the commit and the request: nothing was sent, and nobody knows that.
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
                Action::Expire => task = next(&task, Event::DeadlinePassed, now).task,
                Action::Cancel | Action::Look | Action::Answer { .. } => unreachable!("the job never started"),
                Action::Rest => {
                    if choice == 9 {
                        task = next(&task, Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }, now).task;
                    }
                    let key = "q1".to_owned();
                    task = next(&task, Event::Answered { key, answer: Answer::Accept(Default::default()), by: somebody().into() }, now).task;
                }
            }
            sound(&task);
        }
    }
}

#[test]
fn whatever_is_left_alone_comes_to_an_end() {
    // Nobody answers, the engine never does: the deadlines alone bring every row to a state where nothing is owed.
    for confirm in [false, true] {
        let mut task = row(confirm, OnExpiry::Abandon);
        let mut now = START;
        for _ in 0..10_000 {
            let Some(due) = task.due_at else { break };
            now = now.max(due);
            let event = match todo(&task, now) {
                Action::Start { may_exist: false } => Event::Intended,
                Action::Start { may_exist: true } => {
                    let Job::Starting { attempts, .. } = task.job else { unreachable!() };
                    let failure = Failure { kind: ErrorKind::Unavailable, message: "down".to_owned() };
                    Event::StartFailed { attempt: attempts, may_exist: true, failure }
                }
                Action::Expire => Event::DeadlinePassed,
                other => panic!("{other:?} is owed for {task:?}"),
            };
            task = next(&task, event, now).task;
        }
        assert_eq!(task.due_at, None, "{task:?}");
        assert_eq!(task.outcome(), Some(Outcome::Broken));
    }
}

#[test]
fn a_cancelled_start_that_turns_up_later_is_cancelled_in_the_engine() {
    let task = next(&row(false, OnExpiry::Cancel), Event::Intended, START).task;
    let task = next(&task, Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }, START).task;
    assert_eq!(task.outcome(), Some(Outcome::Cancelled));
    assert_eq!(todo(&task, START), Action::Find);
    let event = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&task, event, START).task;
    assert_eq!(todo(&task, START), Action::Cancel);
    let task = next(&task, Event::CancelTaken, START).task;
    assert_eq!(todo(&task, START), Action::Rest);
    assert!(task.due_at.is_some(), "it stays due until the job is known to have ended");
    let ended = Observation::new(JobState::Succeeded(Output::text("too late")));
    let step = next(&task, Event::Observed(ended), START);
    assert_eq!(step.task.outcome(), Some(Outcome::Cancelled), "success after a cancellation changes nothing");
    assert_eq!((step.task.due_at, step.output), (None, None));
}

#[test]
fn an_outage_before_the_start_is_told_and_ends_after_start_within() {
    let failure = Failure { kind: ErrorKind::Unavailable, message: "connection refused".to_owned() };
    let mut task = row(false, OnExpiry::Cancel);
    let mut now = START;
    while !task.has_ended() {
        now = now.max(task.due_at.unwrap());
        assert_eq!(todo(&task, now), Action::Start { may_exist: false });
        task = next(&task, Event::Intended, now).task;
        let Job::Starting { attempts, .. } = task.job else { unreachable!() };
        task = next(
            &task,
            Event::StartFailed { attempt: attempts, may_exist: false, failure: failure.clone() },
            now,
        )
        .task;
        if !task.has_ended() {
            assert!(task.status_message().unwrap().starts_with("connection refused (since "));
        }
    }
    assert_eq!(task.outcome(), Some(Outcome::Broken));
    assert_eq!(task.status_message().unwrap(), "not started: connection refused");
    assert!(now.since(START) >= task.terms.start_within && now.since(START) < task.terms.start_within * 2);
}

#[test]
fn a_message_that_is_over_is_not_prolonged_and_an_answer_ends_it() {
    let until = START + Duration::from_secs(30);
    let out = Event::Delivering { key: "q1".to_owned(), n: 1, until };
    let asked = next(&row(true, OnExpiry::Cancel), out.clone(), START).task;
    assert!(asked.questions[0].is_out(START));

    let ended = Event::DeliveryEnded { key: "q1".to_owned(), n: 1, over: false, problem: None };
    let ended = next(&asked, ended, START).task;
    assert!(!next(&ended, out, START).task.questions[0].is_out(START));
    let again = Event::Delivering { key: "q1".to_owned(), n: 2, until };
    assert!(next(&ended, again, START).task.questions[0].is_out(START));

    let answer = Event::Answered { key: "q1".to_owned(), answer: Answer::Decline, by: somebody().into() };
    let answered = next(&asked, answer, START).task;
    assert!(answered.questions[0].delivery.as_ref().unwrap().over);
    // One that is closed without an answer is still in front of a person.
    let cancelled =
        next(&asked, Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }, START).task;
    assert_eq!(cancelled.questions[0].status, AskedStatus::Closed);
    assert!(cancelled.questions[0].is_out(START));
}

#[test]
fn progress_that_steps_back_does_not_step_back_in_what_was_reached() {
    let mut task = row(false, OnExpiry::Cancel);
    task = next(&task, Event::Intended, START).task;
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    task = next(&task, started, START).task;
    for done in [3.0, 7.0, 1.0] {
        let seen = Observation::new(JobState::Running).with_progress(done, None);
        task = next(&task, Event::Observed(seen), START).task;
    }
    assert_eq!(task.progress.map(|progress| progress.done), Some(1.0));
    assert_eq!(task.furthest, Some(7.0));
}

#[test]
fn the_reply_to_a_start_that_comes_after_looks_tells_only_of_an_end() {
    let mut task = row(false, OnExpiry::Cancel);
    task = next(&task, Event::Intended, START).task;
    let started = |first| Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first };
    task = next(&task, started(None), START).task;
    let asks = Observation { questions: vec![question("go")], ..Observation::new(JobState::Running) };
    task = next(&task, Event::Observed(asks), START).task;
    let late = started(Some(Observation::new(JobState::Running).with_progress(1.0, None)));
    assert_eq!(next(&task, late, START).task, task, "the question was asked since");
    let over = started(Some(Observation::new(JobState::Succeeded(Output::text("done")))));
    assert_eq!(next(&task, over, START).task.outcome(), Some(Outcome::Succeeded));
}

#[test]
fn a_refusal_means_what_the_tool_said() {
    let seen = Observation {
        questions: vec![question("go"), question("on")],
        ..Observation::new(JobState::Running)
    };
    for (answer, what) in
        [(Answer::Decline, "was declined"), (Answer::Cancel, "was closed without an answer")]
    {
        for (rule, outcome) in [
            (OnRefusal::Tell, None),
            (OnRefusal::Fail, Some(Outcome::Failed)),
            (OnRefusal::Cancel, Some(Outcome::Cancelled)),
        ] {
            let mut task = row(false, OnExpiry::Cancel);
            match answer {
                Answer::Decline => task.terms.on_decline = rule,
                _ => task.terms.on_dismiss = rule,
            }
            let started = Event::Started {
                handle: JobHandle::new("h"),
                group: GroupKey::new(""),
                first: Some(seen.clone()),
            };
            let task = next(&next(&task, Event::Intended, START).task, started, START).task;
            let said =
                Event::Answered { key: "q1".to_owned(), answer: answer.clone(), by: somebody().into() };
            let task = next(&task, said, START).task;
            assert_eq!(task.outcome(), outcome, "{rule:?}");
            if outcome.is_none() {
                assert_eq!(todo(&task, START), Action::Answer { key: "q1".to_owned() });
                continue;
            }
            assert_eq!(
                task.message.as_deref(),
                Some(format!("the question \"go?\" {what}, so the job is stopped").as_str())
            );
            assert_eq!(todo(&task, START), Action::Cancel, "the job is stopped, and not told");
            assert!(task.questions.iter().all(|asked| asked.status == AskedStatus::Closed));
        }
    }
}

#[test]
fn a_question_that_nobody_could_answer_ends_the_task_and_says_why() {
    let secret = json!({"type": "object", "properties": {"password": {"type": "string"}}});
    let mut seen = Observation::new(JobState::Running);
    seen.questions = vec![question("go"), Question::form("login", "Log in", secret)];
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&next(&row(false, OnExpiry::Abandon), Event::Intended, START).task, started, START).task;
    let task = next(&task, Event::Observed(seen), START).task;
    assert_eq!(task.outcome(), Some(Outcome::Failed));
    let message = task.message.as_deref().unwrap();
    assert!(
        message.starts_with(
            "the job's question \"login\" cannot be asked: its field `password` asks for a secret"
        )
    );
    assert_eq!(todo(&task, START), Action::Cancel, "the job is stopped");
    assert!(
        task.questions.iter().all(|asked| asked.question.id != "login"),
        "and the question never goes out"
    );
    sound(&task);
}

#[test]
fn an_answer_is_offered_again_soon_however_often_the_engine_could_not_take_it() {
    let asks = Observation { questions: vec![question("go")], ..Observation::new(JobState::Running) };
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: Some(asks) };
    let task = next(&next(&row(false, OnExpiry::Cancel), Event::Intended, START).task, started, START).task;
    let key = || "q1".to_owned();
    let mut task =
        next(&task, Event::Answered { key: key(), answer: Answer::Decline, by: somebody().into() }, START)
            .task;
    let (mut now, failure) =
        (START, Failure { kind: ErrorKind::Unavailable, message: "no token".to_owned() });
    for _ in 0..20 {
        task = next(&task, Event::AnswerFailed { key: key(), failure: failure.clone() }, now).task;
        assert_eq!(todo(&task, now), Action::Rest);
        now = now + Duration::from_secs(10);
        assert_eq!(todo(&task, now), Action::Answer { key: key() });
    }
}

#[test]
fn a_log_that_grows_is_no_news_unless_somebody_follows_it() {
    let printed = |bytes| Observation { log_bytes: Some(bytes), ..Observation::new(JobState::Running) };
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&next(&row(false, OnExpiry::Cancel), Event::Intended, START).task, started, START).task;
    assert_eq!(next(&task, Event::Observed(printed(7)), START).task, task);
    let until = START + Duration::from_secs(60);
    let task = next(&task, Event::LogFollowed { until }, START).task;
    let task = next(&task, Event::LogFollowed { until: START }, START).task;
    let task = next(&task, Event::Observed(printed(7)), START).task;
    assert_eq!(task.printed, Some(Printed { bytes: 7, wanted_until: until }));
    let ended =
        Observation { log_bytes: Some(9), ..Observation::new(JobState::Succeeded(Output::default())) };
    let over = next(&task, Event::Observed(ended), START).task;
    assert_eq!(over.printed.map(|printed| printed.bytes), Some(9));
    assert_eq!(next(&over, Event::LogFollowed { until: until + Duration::from_secs(9) }, START).task, over);
    assert_eq!(next(&task, Event::Observed(printed(8)), until).task.printed, None, "nobody asked again");
}

#[test]
fn who_watches_is_known_for_a_while_and_changes_nothing_that_a_client_sees() {
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&next(&row(false, OnExpiry::Cancel), Event::Intended, START).task, started, START).task;
    let (soon, late) = (START + Duration::from_secs(60), START + Duration::from_secs(90));
    let watched = next(&task, Event::Watched { until: late }, soon).task;
    let watched = next(&watched, Event::Watched { until: soon }, soon).task;
    assert_eq!(watched, Task { watched_until: Some(late), ..task });
    let over = next(&watched, Event::Observed(Observation::new(JobState::Gone)), late).task;
    assert_eq!(next(&over, Event::Watched { until: late + Duration::from_secs(9) }, late).task, over);
}

#[test]
fn a_retry_is_due_at_once_and_attempts_are_counted_on() {
    let now = START + Duration::from_secs(1);
    let failure = || Failure { kind: ErrorKind::Unavailable, message: "away".to_owned() };
    let task = next(&row(false, OnExpiry::Cancel), Event::Intended, now).task;
    let task = next(&task, Event::StartFailed { attempt: 1, may_exist: false, failure: failure() }, now).task;
    assert_eq!(todo(&task, now), Action::Rest);
    let task = next(&task, Event::RetryNow, now).task;
    assert_eq!((todo(&task, now), task.due_at), (Action::Start { may_exist: false }, Some(now)));
    let task = next(&task, Event::Intended, now).task;
    assert!(matches!(task.job, Job::Starting { attempts: 2, .. }), "{task:?}");
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&task, started, now).task;
    assert_eq!(todo(&task, now), Action::Rest);
    for seen in [Event::Observed(Observation::new(JobState::Running)), Event::LookFailed(failure())] {
        let wished = next(&task, Event::RetryNow, now).task;
        assert_eq!((todo(&wished, now), wished.due_at), (Action::Look, Some(now)));
        let seen = next(&wished, seen, now).task;
        assert_eq!((todo(&seen, now), seen.look_at), (Action::Rest, None));
    }
    let task = next(&task, Event::CancelRequested { mode: Cancel::Settle, on_behalf_of: None }, now).task;
    let task = next(&task, Event::CancelFailed(failure()), now).task;
    assert_eq!(todo(&task, now), Action::Rest);
    let task = next(&task, Event::RetryNow, now).task;
    assert_eq!(todo(&task, now), Action::Cancel);
}

#[test]
fn whoever_answers_or_cancels_is_whom_the_engine_hears_it_from() {
    let whom = |name: &str| Some(OnBehalfOf::named(name));
    let asked = || {
        let task = next(&row(false, OnExpiry::Cancel), Event::Intended, START).task;
        let mut first = Observation::new(JobState::Running);
        first.questions.push(question("x"));
        let (handle, group) = (JobHandle::new("h"), GroupKey::new(""));
        next(&task, Event::Started { handle, group, first: Some(first) }, START).task
    };
    let answered = |task: &Task, by: &str, answer| {
        let by = Answerer { owner: Owner::new(by), person: whom(by) };
        next(task, Event::Answered { key: "q1".to_owned(), answer, by }, START).task
    };
    let task = answered(&asked(), "ann", Answer::Accept(serde_json::Map::new()));
    // The first answer stands, and so does whose it is.
    let task = answered(&task, "bob", Answer::Accept(serde_json::Map::new()));
    assert_eq!(task.questions[0].answered_as, whom("ann"));

    let mut strict = asked();
    strict.terms.on_decline = OnRefusal::Fail;
    let stopped = answered(&strict, "ann", Answer::Decline).cancel.expect("it is stopped");
    assert_eq!(stopped.on_behalf_of, whom("ann"), "by whoever said no");

    let cancelled = |task: &Task, by: Option<OnBehalfOf>| {
        let event = Event::CancelRequested { mode: Cancel::Request, on_behalf_of: by };
        next(task, event, START).task
    };
    let by = |task: &Task| task.cancel.clone().expect("it is to be stopped").on_behalf_of;
    let task = cancelled(&asked(), whom("ann"));
    let failure = Failure { kind: ErrorKind::Denied, message: "no token".to_owned() };
    let task = next(&task, Event::CancelFailed(failure), START).task;
    assert_eq!(by(&task), whom("ann"));
    let task = cancelled(&task, None);
    assert_eq!(by(&task), None, "whoever asked for it can, where she could not");
    let task = next(&task, Event::CancelTaken, START).task;
    assert_eq!(by(&cancelled(&task, whom("bob"))), None);
}
