//! Tests of single steps of the machine. The invariants of all steps are tested in the parent module.

use super::*;

#[test]
fn abandoned_task_always_ends() {
    // No person answers, and the engine never does. The deadlines alone bring every row to a state
    // without pending work.
    for confirm in [false, true] {
        let mut task = row(confirm, OnExpiry::Abandon);
        let mut now = START;
        for _ in 0..10_000 {
            let Some(due) = task.due_at else { break };
            now = now.max(due);
            let event = match todo(&task, now) {
                Action::Start { may_exist: false } => Event::StartCommitted,
                Action::Start { may_exist: true } => {
                    let Job::Starting { attempts, .. } = task.job else { unreachable!() };
                    let failure = Failure {
                        kind: ErrorKind::Unavailable,
                        message: "down".to_owned(),
                        is_final: false,
                        retry_after: None,
                    };
                    Event::StartFailed { attempt: attempts, may_exist: true, failure }
                }
                Action::Expire => Event::DeadlinePassed,
                other => panic!("unexpected action {other:?} for {task:?}"),
            };
            task = next(&task, event, now).task;
        }
        assert_eq!(task.due_at, None, "{task:?}");
        assert_eq!(task.outcome(), Some(Outcome::Broken));
    }
}

/// A start that is found after its task was cancelled is cancelled in the engine.
#[test]
fn late_cancelled_start_is_cancelled() {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let task =
        next(&task, Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }, START).task;
    assert_eq!(task.outcome(), Some(Outcome::Cancelled));
    assert_eq!(todo(&task, START), Action::Find);
    let event = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&task, event, START).task;
    assert_eq!(todo(&task, START), Action::Cancel);
    let task = next(&task, Event::CancelTaken { start_lag: Duration::ZERO }, START).task;
    assert_eq!(todo(&task, START), Action::Wait);
    assert!(task.due_at.is_some(), "it stays due until the job is known to have ended");
    let ended = Observation::new(JobState::Succeeded(Output::text("too late")));
    let step = next(&task, poll(ended), START);
    assert_eq!(step.task.outcome(), Some(Outcome::Cancelled), "success after a cancellation changes nothing");
    assert_eq!((step.task.due_at, step.output), (None, None));
}

/// Uncertainty that no later search can settle is reported at once.
#[test]
fn final_uncertainty_ends_task() {
    let started = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    for (may_exist, is_final) in [(false, true), (true, true), (false, false)] {
        let message = "see https://github.com/o/r/actions".to_owned();
        let failure = Failure { kind: ErrorKind::Uncertain, message, is_final, retry_after: None };
        let task = next(&started, Event::StartFailed { attempt: 1, may_exist, failure }, START).task;
        assert_eq!(task.outcome(), is_final.then_some(Outcome::Broken));
        assert!(!is_final || task.message.unwrap().ends_with("https://github.com/o/r/actions"));
    }
}

/// The task does not end as cancelled, because its job may run.
#[test]
fn final_uncertainty_ends_search() {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let task =
        next(&task, Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: None }, START).task;
    let message = "see https://github.com/o/r/actions".to_owned();
    let failure = Failure { kind: ErrorKind::Uncertain, message, is_final: true, retry_after: None };
    let task = next(&task, Event::FindFailed(failure), START).task;
    assert_eq!((task.outcome(), task.due_at), (Some(Outcome::Broken), None));
    let message = task.message.unwrap();
    assert!(message.starts_with("it is uncertain") && message.ends_with("/o/r/actions"), "{message}");
}

/// An engine that does not list a job yet treats its cancellation like that of a job that has ended.
#[test]
fn cancel_of_new_job_is_repeated() {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let event = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&task, event, START).task;
    let task =
        next(&task, Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }, START).task;
    let taken_after = |age: Duration| {
        let taken = Event::CancelTaken { start_lag: Duration::from_secs(60) };
        let task = next(&task, taken, START + age).task;
        task.due_at.expect("it stays due").since(START + age)
    };
    assert_eq!(taken_after(Duration::from_secs(59)), Duration::from_secs(10));
    assert_eq!(taken_after(Duration::from_secs(60)), CANCEL_RETRY_DELAY);
}

/// The task fails after `start_within`, and its message has the cause of the outage.
#[test]
fn outage_before_start_respects_start_within() {
    let failure = Failure {
        kind: ErrorKind::Unavailable,
        message: "connection refused".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let mut task = row(false, OnExpiry::Cancel);
    let mut now = START;
    while !task.has_ended() {
        now = now.max(task.due_at.unwrap());
        if todo(&task, now) == Action::Expire {
            task = next(&task, Event::DeadlinePassed, now).task;
            continue;
        }
        assert_eq!(todo(&task, now), Action::Start { may_exist: false });
        task = next(&task, Event::StartCommitted, now).task;
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

/// Reported progress may decrease; the furthest value does not.
#[test]
fn furthest_progress_never_decreases() {
    let mut task = row(false, OnExpiry::Cancel);
    task = next(&task, Event::StartCommitted, START).task;
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    task = next(&task, started, START).task;
    for done in [3.0, 7.0, 1.0] {
        let observation = Observation::new(JobState::Running).with_progress(done, None);
        task = next(&task, poll(observation), START).task;
    }
    assert_eq!(task.progress.map(|progress| progress.done), Some(1.0));
    assert_eq!(task.furthest, Some(7.0));
}

/// A start reply after a poll is only used if the job has ended.
#[test]
fn late_start_reply_only_ends_task() {
    let mut task = row(false, OnExpiry::Cancel);
    task = next(&task, Event::StartCommitted, START).task;
    let started = |first| Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first };
    task = next(&task, started(None), START).task;
    let observation = Observation { questions: vec![question("go")], ..Observation::new(JobState::Running) };
    task = next(&task, poll(observation), START).task;
    let late = started(Some(Observation::new(JobState::Running).with_progress(1.0, None)));
    assert_eq!(next(&task, late, START).task, task, "the question was asked since");
    let over = started(Some(Observation::new(JobState::Succeeded(Output::text("done")))));
    assert_eq!(next(&task, over, START).task.outcome(), Some(Outcome::Succeeded));
}

/// A declined question fails or cancels the task, or goes to the job, as the tool configures.
#[test]
fn refused_answer_follows_tool_rule() {
    let observation = Observation {
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
                first: Some(observation.clone()),
            };
            let task = next(&next(&task, Event::StartCommitted, START).task, started, START).task;
            let answered =
                Event::Answered { key: "q1".to_owned(), answer: answer.clone(), by: any_owner().into() };
            let task = next(&task, answered, START).task;
            assert_eq!(task.outcome(), outcome, "{rule:?}");
            if outcome.is_none() {
                assert_eq!(todo(&task, START), Action::Answer { key: "q1".to_owned() });
                continue;
            }
            assert_eq!(
                task.message.as_deref(),
                Some(format!("the question \"go?\" {what}, so the job is stopped").as_str())
            );
            assert_eq!(todo(&task, START), Action::Cancel, "the job is stopped, and gets no answer");
            assert!(task.questions.iter().all(|question| question.status == QuestionStatus::Closed));
        }
    }
}

/// A question that MCP does not allow fails the task with a reason, and is never sent.
#[test]
fn unanswerable_question_fails_task() {
    let secret = json!({"type": "object", "properties": {"password": {"type": "string"}}});
    let mut observation = Observation::new(JobState::Running);
    observation.questions = vec![question("go"), Question::form("login", "Log in", secret)];
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task =
        next(&next(&row(false, OnExpiry::Abandon), Event::StartCommitted, START).task, started, START).task;
    let task = next(&task, poll(observation), START).task;
    assert_eq!(task.outcome(), Some(Outcome::Failed));
    let message = task.message.as_deref().unwrap();
    assert!(
        message.starts_with(
            "the job's question \"login\" cannot be asked: its field `password` asks for a secret"
        )
    );
    assert_eq!(todo(&task, START), Action::Cancel, "the job is stopped");
    assert!(
        task.questions.iter().all(|task_question| task_question.question.id != "login"),
        "and the question never goes out"
    );
    assert_invariants(&task);
}

/// Returns a task whose job runs and has asked, and whose question `q1` was answered.
fn answered() -> Task {
    let observation = Observation { questions: vec![question("go")], ..Observation::new(JobState::Running) };
    let started =
        Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: Some(observation) };
    let committed = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let task = next(&committed, started, START).task;
    let answer = Event::Answered { key: "q1".to_owned(), answer: Answer::Decline, by: any_owner().into() };
    next(&task, answer, START).task
}

/// The retry interval of an answer stays short, however often the engine fails to take it.
#[test]
fn failed_answer_is_retried_soon() {
    let (key, mut task) = (|| "q1".to_owned(), answered());
    let (mut now, failure) = (
        START,
        Failure {
            kind: ErrorKind::Unavailable,
            message: "no token".to_owned(),
            is_final: false,
            retry_after: None,
        },
    );
    for _ in 0..20 {
        task = next(&task, Event::AnswerFailed { key: key(), failure: failure.clone() }, now).task;
        assert_eq!(todo(&task, now), Action::Wait);
        now = now + Duration::from_secs(10);
        assert_eq!(todo(&task, now), Action::Answer { key: key() });
    }
}

/// An answer that the engine rejects is not sent again: the person reads why, and is asked again.
#[test]
fn rejected_answer_is_asked_again() {
    let failure = Failure {
        kind: ErrorKind::Rejected,
        message: "422: no reason".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let task = next(&answered(), Event::AnswerFailed { key: "q1".to_owned(), failure }, START).task;
    let asked: Vec<&str> = task.open_questions().map(|question| question.key.as_str()).collect();
    assert_eq!(asked, ["q2"]);
    let message = "the engine refused the answer (422: no reason): the question is asked again";
    assert_eq!(task.message.as_deref(), Some(message));
    assert_invariants(&task);
}

/// If the engine refuses an answer of one caller, others may still answer, a bounded number of times.
#[test]
fn refused_answerer_leaves_question_open() {
    let observation = Observation { questions: vec![question("go")], ..Observation::new(JobState::Running) };
    let started = Event::Started {
        handle: JobHandle::new("h"),
        group: GroupKey::new(""),
        first: Some(observation.clone()),
    };
    let mut task =
        next(&next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task, started, START).task;
    let answered = |key: &str| Event::Answered {
        key: key.to_owned(),
        answer: Answer::Accept(serde_json::Map::new()),
        by: any_owner().into(),
    };
    let open = |task: &Task| {
        task.open_questions().map(|question| question.key.clone()).collect::<Vec<_>>().join(" ")
    };
    for n in 1..10 {
        let key = format!("q{n}");
        assert_eq!(open(&task), key);
        task = next(&task, answered(&key), START).task;
        task = next(&task, Event::AnswerNotAllowed { key: key.clone() }, START).task;
        assert!(task.message.as_deref().unwrap().ends_with("asked again"));
        assert_eq!(
            next(&task, Event::AnswerNotAllowed { key }, START).task,
            task,
            "a repeated event changes nothing"
        );
        task = next(&task, poll(observation.clone()), START).task;
        assert_invariants(&task);
    }
    task = next(&task, answered("q10"), START).task;
    task = next(&task, Event::AnswerNotAllowed { key: "q10".to_owned() }, START).task;
    task = next(&task, poll(observation), START).task;
    assert_eq!(open(&task), "", "the question is not asked again");
    assert_invariants(&task);
}

/// Log bytes are stored only while a client follows the log.
#[test]
fn log_growth_matters_only_when_followed() {
    let observation = |bytes| Observation { log_bytes: Some(bytes), ..Observation::new(JobState::Running) };
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task =
        next(&next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task, started, START).task;
    assert_eq!(next(&task, poll(observation(7)), START).task, task);
    let until = START + Duration::from_secs(60);
    let task = next(&task, Event::LogFollowed { until }, START).task;
    let task = next(&task, Event::LogFollowed { until: START }, START).task;
    let task = next(&task, poll(observation(7)), START).task;
    assert_eq!(task.printed, Some(LogSize { bytes: 7, wanted_until: until }));
    let ended =
        Observation { log_bytes: Some(9), ..Observation::new(JobState::Succeeded(Output::default())) };
    let over = next(&task, poll(ended), START).task;
    assert_eq!(over.printed.map(|observation| observation.bytes), Some(9));
    assert_eq!(next(&over, Event::LogFollowed { until: until + Duration::from_secs(9) }, START).task, over);
    assert_eq!(next(&task, poll(observation(8)), until).task.printed, None, "no client asked again");
}

/// A watched row changes in nothing else, and an ended one not at all.
#[test]
fn watch_deadline_only_extends() {
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task =
        next(&next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task, started, START).task;
    let (soon, late) = (START + Duration::from_secs(60), START + Duration::from_secs(90));
    let watched = next(&task, Event::Watched { until: late }, soon).task;
    let watched = next(&watched, Event::Watched { until: soon }, soon).task;
    assert_eq!(watched, Task { watched_until: Some(late), ..task });
    let over = next(&watched, poll(Observation::new(JobState::Cancelled(Output::default()))), late).task;
    assert_eq!(next(&over, Event::Watched { until: late + Duration::from_secs(9) }, late).task, over);
}

/// A manual retry is due at once, and the number of attempts continues.
#[test]
fn retry_now_keeps_attempt_count() {
    let now = START + Duration::from_secs(1);
    let failure = || Failure {
        kind: ErrorKind::Unavailable,
        message: "away".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, now).task;
    let task = next(&task, Event::StartFailed { attempt: 1, may_exist: false, failure: failure() }, now).task;
    assert_eq!(todo(&task, now), Action::Wait);
    let task = next(&task, Event::RetryNow, now).task;
    assert_eq!((todo(&task, now), task.due_at), (Action::Start { may_exist: false }, Some(now)));
    let task = next(&task, Event::StartCommitted, now).task;
    assert!(matches!(task.job, Job::Starting { attempts: 2, .. }), "{task:?}");
    let started = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    let task = next(&task, started, now).task;
    assert_eq!(todo(&task, now), Action::Wait);
    for event in [poll(Observation::new(JobState::Running)), Event::PollFailed(failure())] {
        let retried = next(&task, Event::RetryNow, now).task;
        assert_eq!((todo(&retried, now), retried.due_at), (Action::Poll, Some(now)));
        let after = next(&retried, event, now).task;
        assert_eq!((todo(&after, now), after.look_at), (Action::Wait, None));
    }
    let task =
        next(&task, Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }, now).task;
    let task = next(&task, Event::CancelFailed(failure()), now).task;
    assert_eq!(todo(&task, now), Action::Wait);
    let task = next(&task, Event::RetryNow, now).task;
    assert_eq!(todo(&task, now), Action::Cancel);
}

/// What an answer lacked arrives during an attempt that fails without it: the next attempt comes soon.
#[test]
fn answer_that_becomes_due_in_an_attempt_is_sent_soon() {
    let failure = Failure {
        kind: ErrorKind::Unavailable,
        message: "no token".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let failed = || Event::AnswerFailed { key: "q1".to_owned(), failure: failure.clone() };
    let mut task = answered();
    for _ in 0..9 {
        task = next(&task, failed(), START).task;
    }
    assert!(task.due_at > Some(START + Duration::from_secs(5)), "{task:?}");
    let hastened = next(&task, Event::AnswersDue, START).task;
    assert_eq!(todo(&hastened, START), Action::Answer { key: "q1".to_owned() });
    let task = next(&hastened, failed(), START).task;
    assert!(task.due_at < Some(START + Duration::from_secs(1)), "{task:?}");
}

/// An answer or a cancel goes to the engine on behalf of the caller who sent it.
#[test]
fn engine_command_carries_requesting_caller() {
    let on_behalf_of = |name: &str| Some(OnBehalfOf::named(name));
    let asking_task = || {
        let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
        let mut first = Observation::new(JobState::Running);
        first.questions.push(question("x"));
        let (handle, group) = (JobHandle::new("h"), GroupKey::new(""));
        next(&task, Event::Started { handle, group, first: Some(first) }, START).task
    };
    let answered = |task: &Task, by: &str, answer| {
        let by = Answerer { owner: Owner::new(by), person: on_behalf_of(by) };
        next(task, Event::Answered { key: "q1".to_owned(), answer, by }, START).task
    };
    let task = answered(&asking_task(), "ann", Answer::Accept(serde_json::Map::new()));
    // The first answer counts, and so does the person who gave it.
    let task = answered(&task, "bob", Answer::Accept(serde_json::Map::new()));
    assert_eq!(task.questions[0].answered_as, on_behalf_of("ann"));

    let mut strict = asking_task();
    strict.terms.on_decline = OnRefusal::Fail;
    let stopped = answered(&strict, "ann", Answer::Decline).cancel.expect("it is stopped");
    assert_eq!(stopped.on_behalf_of, on_behalf_of("ann"), "on behalf of the person who declined");

    let cancelled = |task: &Task, by: Option<OnBehalfOf>| {
        let event = Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: by };
        next(task, event, START).task
    };
    let by = |task: &Task| task.cancel.clone().expect("a cancellation is pending").on_behalf_of;
    let task = cancelled(&asking_task(), on_behalf_of("ann"));
    let failure = Failure {
        kind: ErrorKind::Denied,
        message: "no token".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let task = next(&task, Event::CancelFailed(failure), START).task;
    assert_eq!(by(&task), on_behalf_of("ann"));
    let task = cancelled(&task, None);
    assert_eq!(by(&task), None, "the latest requester replaces an earlier one");
    let task = next(&task, Event::CancelTaken { start_lag: Duration::ZERO }, START).task;
    assert_eq!(by(&cancelled(&task, on_behalf_of("bob"))), None);
}

/// The message names the slots of tools, and not whose limit is reached.
#[test]
fn full_slot_message_hides_owner() {
    let owner = r#"["https://login.example","7f3"]"#;
    let message = |slots: &[String]| {
        let task = Task { slots: slots.to_vec(), refused_when_full: true, ..row(false, OnExpiry::Cancel) };
        next(&task, Event::NoSlot, START).task.message.unwrap()
    };
    let (shared, own) = ("tool:deploy".to_owned(), format!("owner:{owner}"));
    assert_eq!(
        message(std::slice::from_ref(&shared)),
        "not started: the limit of `tool:deploy` is reached; try again later"
    );
    assert_eq!(
        message(&[own, format!("tool:deploy/owner:{owner}"), shared]),
        "not started: the limit of `tool:deploy` or running tasks per owner is reached; try again later"
    );
}

#[test]
fn reference_without_job_delays_the_start() {
    let task = with_due_time(referring(row(false, OnExpiry::Cancel)));
    assert_eq!(todo(&task, START), Action::Resolve);
    assert_eq!(task.status_message().unwrap(), "waiting for task another to start");
    assert_eq!(next(&task, Event::StartCommitted, START).task, task, "it is not started");

    let still = next(&task, Event::Resolved { handles: Vec::new() }, START).task;
    assert_eq!(todo(&still, START), Action::Wait);
    assert_eq!(todo(&still, still.due_at.unwrap()), Action::Resolve);
    let resolved = next(&still, resolved(), START).task;
    let Job::Pending { spec, .. } = &resolved.job else { panic!("{resolved:?}") };
    assert_eq!((spec.arguments["after"].as_str(), resolved.status_message()), (Some("h"), None));
    assert_eq!(todo(&resolved, resolved.due_at.unwrap()), Action::Start { may_exist: false });

    let lost = next(&still, Event::ReferenceLost { parameter: "after".to_owned() }, START).task;
    assert_eq!((lost.outcome(), lost.due_at), (Some(Outcome::Failed), None));
    let message = lost.status_message().unwrap();
    assert_eq!(message, "not started: task another, which `after` names, ended before it was started");
}
