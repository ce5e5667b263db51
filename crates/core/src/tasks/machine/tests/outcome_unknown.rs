//! Tests of tasks that an operator abandoned, in each unfinished state, and of facts that arrive afterwards.

use super::*;

fn pending() -> Task {
    row(false, OnExpiry::Cancel)
}

fn starting() -> Task {
    next(&pending(), Event::StartCommitted, START).task
}

fn started() -> Event {
    Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None }
}

fn open() -> Task {
    next(&starting(), started(), START).task
}

/// Returns an open job with an open question and an answer that the engine has not accepted.
fn asking() -> Task {
    let mut observation = Observation::new(JobState::Running);
    observation.questions = vec![question("x"), question("y")];
    let task = next(&open(), poll(observation), START).task;
    let answer = Answer::Accept(serde_json::Map::new());
    next(&task, Event::Answered { key: "q1".to_owned(), answer, by: any_owner().into() }, START).task
}

/// Returns a task that was cancelled and whose job has not stopped.
fn stopping() -> Task {
    next(&open(), Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }, START).task
}

fn abandon(task: &Task) -> Task {
    next(task, Event::OutcomeUnknown, START).task
}

#[test]
fn abandon_ends_every_unfinished_task() {
    for (task, says) in [
        (pending(), "not started"),
        (row(true, OnExpiry::Cancel), "not started"),
        (starting(), "may have been started"),
        (open(), "may still run"),
        (asking(), "may still run"),
    ] {
        let after = abandon(&task);
        assert_invariants(&after);
        assert_eq!((after.outcome(), after.due_at), (Some(Outcome::Broken), None), "{task:?}");
        let message = after.status_message().unwrap();
        assert!(message.contains("an operator abandoned") && message.contains(says), "{message}");
        assert_eq!(after.handle(), task.handle());
    }
}

/// A job whose polls crash the adapter is closed only after the engine has accepted a pending cancellation.
#[test]
fn crashed_poll_keeps_pending_cancel() {
    let crashed = |task: &Task| next(task, Event::PollCrashed { times: 5 }, START).task;
    let crashed_task = crashed(&stopping());
    assert_eq!(
        (crashed_task.outcome(), todo(&crashed_task, START)),
        (Some(Outcome::Cancelled), Action::Cancel)
    );
    let taken = next(&crashed_task, Event::CancelTaken { start_lag: Duration::ZERO }, START).task;
    assert!(matches!(crashed(&taken).job, Job::Closed { .. }), "{taken:?}");
}

/// An attempt that was taken back counts: no later attempt reuses its number.
#[test]
fn unsent_attempt_keeps_its_number() {
    let number = |task: &Task| match task.job {
        Job::Pending { attempts, .. } | Job::Starting { attempts, .. } => attempts,
        _ => panic!("{task:?}"),
    };
    let back = next(&starting(), Event::StartNotSent, START).task;
    let again = next(&back, Event::StartCommitted, START).task;
    assert_eq!((number(&starting()), number(&back), number(&again)), (1, 1, 2));
}

/// The client keeps the outcome that it saw.
#[test]
fn abandon_closes_cancelled_open_job() {
    let after = abandon(&stopping());
    assert_eq!((after.outcome(), after.due_at), (Some(Outcome::Cancelled), None));
    assert_eq!(after.job, Job::Closed { handle: Some(JobHandle::new("h")) });
}

/// The reply to a start that was in progress only adds the handle.
#[test]
fn late_start_leaves_abandoned_job_closed() {
    let after = next(&abandon(&starting()), started(), START).task;
    assert_eq!((after.outcome(), after.due_at), (Some(Outcome::Broken), None));
    assert_eq!(after.job, Job::Closed { handle: Some(JobHandle::new("h")) });
}

#[test]
fn late_facts_leave_abandoned_job_closed() {
    for task in [open(), asking(), stopping()] {
        let abandoned = abandon(&task);
        let ended = Observation::new(JobState::Succeeded(Output::text("late")));
        for fact in [
            started(),
            poll(Observation::new(JobState::Running)),
            poll(ended),
            Event::CancelTaken { start_lag: Duration::ZERO },
            Event::AnswerTaken { key: "q1".to_owned() },
            Event::RetryNow,
        ] {
            let step = next(&abandoned, fact.clone(), START);
            assert_eq!((&step.task.job, &step.output), (&abandoned.job, &None), "{fact:?}");
            assert_eq!((step.task.outcome(), step.task.due_at), (abandoned.outcome(), None), "{fact:?}");
        }
    }
}

#[test]
fn abandon_leaves_finished_task_alone() {
    let ended = Observation::new(JobState::Succeeded(Output::text("done")));
    let task = next(&open(), poll(ended), START).task;
    assert_eq!(abandon(&task), task);
}
