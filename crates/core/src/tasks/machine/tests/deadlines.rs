//! Tests of the machine's deadlines: for the wait, for the run, and for an outcome that cannot be read.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a job that was accepted at this time and may run for ten minutes.
fn open_at(accepted: Timestamp, on_expiry: OnExpiry) -> Task {
    let mut task = row(false, on_expiry);
    task.terms.max_runtime = 10 * MINUTE;
    let task = next(&task, Event::StartCommitted, accepted).task;
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    next(&task, started, accepted).task
}

fn failure(kind: ErrorKind) -> Failure {
    let retry_after = match kind {
        ErrorKind::Limited { after } => after,
        _ => None,
    };
    Failure { kind, message: "connection refused".to_owned(), is_final: false, retry_after }
}

/// A result that is first polled after `max_runtime` is delivered.
#[test]
fn late_poll_delivers_result() {
    let task = open_at(START, OnExpiry::Cancel);
    let back = START + 30 * MINUTE;
    assert_eq!(todo(&task, back), Action::Poll, "a deadline is decided by a poll");
    let ended = Observation::new(JobState::Succeeded(Output::text("done")));
    let step = next(&task, poll_at(ended, back), back);
    assert_eq!(step.task.outcome(), Some(Outcome::Succeeded));
    assert_eq!(step.output, Some(Output::text("done")));
}

/// A job that a poll finds running after the deadline is stopped or abandoned, by `on_expiry`.
#[test]
fn overdue_job_follows_on_expiry() {
    let back = START + 10 * MINUTE;
    let runs = || poll_at(Observation::new(JobState::Running), back);
    let stopped = next(&open_at(START, OnExpiry::Cancel), runs(), back).task;
    assert_eq!((stopped.outcome(), todo(&stopped, back)), (Some(Outcome::Broken), Action::Cancel));
    let message = "ran longer than max_runtime (10m), so the job is stopped; ask for less work in one call, or raise \
                   max_runtime";
    assert_eq!(stopped.message.as_deref(), Some(message));
    let abandoned = next(&open_at(START, OnExpiry::Abandon), runs(), back).task;
    assert_eq!((abandoned.outcome(), abandoned.due_at), (Some(Outcome::Broken), None));
    // A poll that began before the deadline decides nothing, however late it is written.
    let early = poll_at(Observation::new(JobState::Running), back - Duration::from_millis(1));
    let task = next(&open_at(START, OnExpiry::Cancel), early, back).task;
    assert_eq!((task.outcome(), todo(&task, back)), (None, Action::Poll));
}

/// Without a successful poll after the deadline, the task ends as unknown after `outcome_grace`,
/// and the cancellation stays pending.
#[test]
fn unreachable_engine_ends_as_unknown() {
    let mut task = open_at(START, OnExpiry::Cancel);
    let mut now = START + 3 * 24 * 60 * MINUTE;
    let back = now;
    while !task.has_ended() {
        assert_eq!(todo(&task, now), Action::Poll);
        task = next(&task, Event::PollFailed(failure(ErrorKind::Unavailable)), now).task;
        now = now.max(task.due_at.expect("the job may still run"));
        assert!(now.since(back) < 17 * MINUTE, "it goes on for ever");
    }
    assert!(now.since(back) >= 15 * MINUTE, "after {:?}", now.since(back));
    let message = task.message.as_deref().unwrap();
    assert!(message.starts_with("the outcome is unknown: max_runtime (10m) is over"), "{message}");
    assert_eq!(todo(&task, now), Action::Cancel);
    task = next(&task, Event::CancelFailed(failure(ErrorKind::Unavailable)), now).task;
    assert!(task.due_at.is_some_and(|due| due <= now + 2 * MINUTE), "it is tried again");
}

/// An engine that requests a delay is not polled earlier, even after the deadline.
#[test]
fn overdue_poll_respects_retry_after() {
    let after = Some(5 * MINUTE);
    let task = open_at(START, OnExpiry::Cancel);
    let now = START + 60 * MINUTE;
    let task = next(&task, Event::PollFailed(failure(ErrorKind::Limited { after })), now).task;
    assert_eq!(task.due_at, Some(now + 5 * MINUTE), "{task:?}");
}

/// One failed poll right after a long outage ends nothing.
#[test]
fn failed_poll_alone_ends_nothing() {
    let task = open_at(START, OnExpiry::Abandon);
    let mut now = START + 60 * MINUTE;
    let task = next(&task, Event::PollFailed(failure(ErrorKind::Unavailable)), now).task;
    now = now + 24 * 60 * MINUTE;
    let task = next(&task, Event::PollFailed(failure(ErrorKind::Unavailable)), now).task;
    assert_eq!(task.outcome(), None, "two polls in a day are no search");
    let ended = Observation::new(JobState::Failed(Output::text("boom")));
    let step = next(&task, poll_at(ended, now), now);
    assert_eq!((step.task.outcome(), step.task.overdue), (Some(Outcome::Failed), None));
}

/// Time spent in a queue or waiting for consent does not count towards `max_runtime`.
#[test]
fn runtime_counts_from_acceptance() {
    let accepted = START + 9 * MINUTE;
    let task = open_at(accepted, OnExpiry::Cancel);
    assert_eq!(task.due_at, Some(accepted + 10 * MINUTE));
    assert_eq!(todo(&task, START + 18 * MINUTE), Action::Wait);
}

/// The wait has a limit of its own: `max_wait`, or `max_runtime` if that is not set.
#[test]
fn max_wait_bounds_waiting() {
    for (max_wait, limit) in [(None, 10 * MINUTE), (Some(3 * MINUTE), 3 * MINUTE)] {
        let mut task = row(true, OnExpiry::Cancel);
        (task.terms.max_runtime, task.terms.max_wait) = (10 * MINUTE, max_wait);
        let task = next(&task, Event::Nothing, START).task;
        assert_eq!(task.due_at, Some(START + limit));
        let over = next(&task, Event::DeadlinePassed, START + limit).task;
        let message = format!("not started: it was not confirmed within {}", format_duration(limit));
        assert_eq!(over.message.as_deref(), Some(message.as_str()));
    }
}

/// An engine that requests a delay of two hours does not keep a task alive past `start_within`, and
/// receives no call in the meantime.
#[test]
fn retry_after_respects_start_within() {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let limited = failure(ErrorKind::Limited { after: Some(120 * MINUTE) });
    let event = Event::StartFailed { attempt: 1, may_exist: false, failure: limited };
    let task = next(&task, event, START).task;
    assert_eq!(task.due_at, Some(START + task.terms.start_within));
    assert_eq!(todo(&task, START + 4 * MINUTE), Action::Wait);
    let due = START + 5 * MINUTE;
    assert_eq!(todo(&task, due), Action::Expire);
    let over = next(&task, Event::DeadlinePassed, due).task;
    assert_eq!(over.message.as_deref(), Some("not started: connection refused"));
    assert_eq!(over.due_at, None);
}

/// An unresolved start ends soon after the maximum wait, however long `start_within` is.
#[test]
fn unresolved_start_respects_max_wait() {
    for kind in [ErrorKind::Uncertain, ErrorKind::Unavailable] {
        let mut task = row(false, OnExpiry::Cancel);
        let day = 24 * 60 * MINUTE;
        (task.terms.start_within, task.terms.settle_window) = (day, day);
        (task.terms.max_runtime, task.terms.max_wait) = (day, Some(10 * MINUTE));
        task = next(&task, Event::StartCommitted, START).task;
        let mut now = START;
        while let Some(due) = task.due_at {
            now = now.max(due);
            assert_eq!(todo(&task, now), Action::Start { may_exist: true });
            let Job::Starting { attempts, .. } = task.job else { unreachable!() };
            let event = Event::StartFailed { attempt: attempts, may_exist: true, failure: failure(kind) };
            task = next(&task, event, now).task;
            assert!(now.since(START) < 27 * MINUTE, "{kind}: it goes on for ever");
        }
        assert_eq!(task.outcome(), Some(Outcome::Broken));
        assert!(task.message.as_deref().unwrap().starts_with("it is uncertain whether the job started"));
    }
}

/// An unfinished task never expires; a finished one does.
#[test]
fn unfinished_task_never_expires() {
    let task = open_at(START, OnExpiry::Cancel);
    assert_eq!(task.kept_until(), crate::tasks::task::NEVER);
    let ended = next(&task, poll(Observation::new(JobState::Cancelled(Output::default()))), START).task;
    assert_eq!(ended.kept_until(), ended.expires_at(START));
}

/// Returns a job that asks a question at [`START`], with ten minutes to answer.
fn asking_for_ten_minutes() -> Task {
    let mut task = open_at(START, OnExpiry::Abandon);
    (task.terms.max_runtime, task.terms.answer_within) = (60 * MINUTE, Some(10 * MINUTE));
    next(&task, poll_at(asks(&["who"]), START), START).task
}

fn asks(ids: &[&str]) -> Observation {
    let questions = ids.iter().map(|id| question(id)).collect();
    Observation { questions, ..Observation::new(JobState::Running) }
}

/// The job is cancelled, whatever `on_expiry` is.
#[test]
fn unanswered_question_fails_task() {
    let task = asking_for_ten_minutes();
    let due = START + 10 * MINUTE;
    assert_eq!((task.due_at, todo(&task, START + 9 * MINUTE)), (Some(due), Action::Wait));
    assert_eq!(todo(&task, due), Action::Poll, "a deadline is decided by a poll");
    // A poll that began earlier decides nothing, and a newer question has its own deadline.
    let task = next(&task, poll_at(asks(&["who", "why"]), START + 9 * MINUTE), due).task;
    assert_eq!((task.outcome(), todo(&task, due)), (None, Action::Poll));
    let over = next(&task, poll_at(asks(&["who", "why"]), due), due).task;
    assert_eq!((over.outcome(), todo(&over, due)), (Some(Outcome::Failed), Action::Cancel));
    let expected = "the question \"who?\" was not answered within 10m (answer_within), so the job is stopped";
    assert_eq!(over.message.as_deref(), Some(expected));
    assert_eq!(over.open_questions().count(), 0);
    let refused = next(&over, Event::CancelFailed(failure(ErrorKind::Unavailable)), due).task;
    assert!(refused.due_at.is_some_and(|at| at <= due + 2 * MINUTE), "the cancellation stays pending");
}

/// An answer here ends nothing, nor does one that was given in the engine and is seen late.
#[test]
fn answered_question_has_no_deadline() {
    let (task, due) = (asking_for_ten_minutes(), START + 10 * MINUTE);
    let back = START + 30 * MINUTE;
    let answered_in_engine = next(&task, poll_at(asks(&[]), back), back).task;
    assert_eq!((answered_in_engine.outcome(), answered_in_engine.due_at), (None, Some(START + 60 * MINUTE)));
    let answer = Event::Answered { key: "q1".to_owned(), answer: Answer::Decline, by: any_owner().into() };
    let answered = next(&task, answer, due).task;
    let answered = next(&answered, poll_at(asks(&["who"]), back), back).task;
    assert_eq!(answered.outcome(), None, "the engine has yet to take the answer");
    let younger = next(&task, poll_at(asks(&["why"]), due), due).task;
    assert_eq!((younger.outcome(), younger.due_at), (None, Some(due + 10 * MINUTE)));
}

/// While the engine is unreachable the task continues. Polls that failed before `max_runtime` do
/// not count after it.
#[test]
fn unreachable_engine_extends_answer_deadline() {
    let mut task = asking_for_ten_minutes();
    let mut now = START + 10 * MINUTE;
    let mut polls = 0;
    while now < START + 60 * MINUTE {
        assert_eq!(todo(&task, now), Action::Poll);
        task = next(&task, Event::PollFailed(failure(ErrorKind::Unavailable)), now).task;
        (now, polls) = (task.due_at.expect("the job may still run"), polls + 1);
    }
    assert!(polls < 90, "{polls} polls in 50 minutes");
    while !task.has_ended() {
        task = next(&task, Event::PollFailed(failure(ErrorKind::Unavailable)), now).task;
        now = now.max(task.due_at.unwrap_or(now));
    }
    assert!(now >= START + 75 * MINUTE && now < START + 78 * MINUTE, "after {:?}", now.since(START));
}

/// `answer_within` also limits the wait for consent.
#[test]
fn answer_within_bounds_consent() {
    let mut task = row(true, OnExpiry::Cancel);
    (task.terms.max_runtime, task.terms.answer_within) = (10 * MINUTE, Some(3 * MINUTE));
    let task = next(&task, Event::Nothing, START).task;
    assert_eq!(task.due_at, Some(START + 3 * MINUTE));
    let over = next(&task, Event::DeadlinePassed, START + 3 * MINUTE).task;
    assert_eq!(over.message.as_deref(), Some("not started: it was not confirmed within 3m"));
    let answer = Answer::Accept(serde_json::Map::new());
    let consent = Event::Answered { key: "q1".to_owned(), answer, by: any_owner().into() };
    let agreed = next(&task, consent, START).task;
    assert_eq!(todo(&agreed, START + 5 * MINUTE), Action::Start { may_exist: false });
}

/// Returns a task that was cancelled while its start was unresolved. Its job is searched for.
fn cancelled_during_start() -> Task {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    next(&task, Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: None }, START).task
}

/// Answers every search that is due before `until` with `answer`.
fn search(mut task: Task, from: Timestamp, until: Timestamp, answer: impl Fn() -> Event) -> Task {
    let mut now = from;
    while let Some(due) = task.due_at.filter(|due| *due < until) {
        now = now.max(due);
        assert_eq!(todo(&task, now), Action::Find);
        task = next(&task, answer(), now).task;
    }
    task
}

fn unavailable() -> Event {
    Event::FindFailed(failure(ErrorKind::Unavailable))
}

/// Forty minutes of downtime do not count as search time (seed 582245).
#[test]
fn downtime_ends_no_search() {
    for answer in [unavailable, || Event::NotFound] {
        let task = search(cancelled_during_start(), START, START + Duration::from_millis(500), answer);
        let back = START + 40 * MINUTE;
        let task = search(task, back, back + Duration::from_secs(50), answer);
        assert_eq!((task.outcome(), todo(&task, back + 10 * MINUTE)), (None, Action::Find), "{task:?}");
    }
}

/// A search without a result ends the task after `settle_window`, even after `max_wait`.
#[test]
fn fruitless_search_ends_after_settle_window() {
    let window = cancelled_during_start().terms.settle_window;
    for max_wait in [None, Some(Duration::ZERO)] {
        let mut task = cancelled_during_start();
        task.terms.max_wait = max_wait;
        let early = search(task.clone(), START, START + window, || Event::NotFound);
        assert_eq!(early.outcome(), None);
        let over = search(task, START, START + window + MINUTE, || Event::NotFound);
        assert_eq!((over.outcome(), over.due_at), (Some(Outcome::Cancelled), None));
    }
}

/// The client gets "uncertain", and the cancellation stays pending.
#[test]
fn unreachable_search_ends_as_uncertain() {
    let task = search(cancelled_during_start(), START, START + 60 * MINUTE, unavailable);
    assert_eq!(task.outcome(), Some(Outcome::Broken));
    let message = task.message.as_deref().unwrap();
    assert!(message.starts_with("it is uncertain whether the job started"), "{message}");
    let now = task.due_at.expect("the cancellation is pending");
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let found = next(&task, started, now).task;
    assert_eq!((found.outcome(), todo(&found, now)), (Some(Outcome::Broken), Action::Cancel));
    let absent = next(&task, Event::NotFound, now).task;
    assert_eq!((absent.outcome(), absent.due_at), (Some(Outcome::Broken), None));
}

/// After downtime, an engine that is still unreachable gets the full `outcome_grace`.
#[test]
fn downtime_keeps_outcome_grace() {
    let over = START + 10 * MINUTE;
    let failed = || Event::PollFailed(failure(ErrorKind::Unavailable));
    let task = next(&open_at(START, OnExpiry::Cancel), failed(), over).task;
    let mut now = START + 60 * MINUTE;
    let mut task = next(&task, failed(), now).task;
    let back = now;
    while let Some(due) = task.due_at.filter(|_| !task.has_ended()) {
        now = now.max(due);
        task = next(&task, failed(), now).task;
    }
    assert!(now.since(back) >= task.terms.outcome_grace - MINUTE, "it ended after {:?}", now.since(back));
}

/// After downtime, an engine that is still unreachable gets the full `start_within`.
#[test]
fn downtime_keeps_start_within() {
    let fails = |task: &Task, now: Timestamp| {
        let task = next(task, Event::StartCommitted, now).task;
        let Job::Starting { attempts, .. } = task.job else { panic!("{task:?}") };
        let failure = failure(ErrorKind::Unavailable);
        next(&task, Event::StartFailed { attempt: attempts, may_exist: false, failure }, now).task
    };
    let task = fails(&row(false, OnExpiry::Cancel), START);
    let mut now = START + 40 * MINUTE;
    let mut task = fails(&task, now);
    let back = now;
    while !task.has_ended() {
        now = now.max(task.due_at.unwrap());
        task = fails(&task, now);
    }
    assert!(now.since(back) >= task.terms.start_within, "it ended after {:?}", now.since(back));
}
