//! Tests of what an engine can report beyond the state of a job: a new name, that it cannot stop the job, and
//! that it does not list it.

use super::*;

fn open_row() -> Task {
    let task = next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task;
    let event = Event::Started { handle: JobHandle::new("h"), group: GroupKey::new(""), first: None };
    next(&task, event, START).task
}

fn unsupported() -> Event {
    Event::CancelFailed(Failure {
        kind: ErrorKind::Unsupported,
        message: "no such request".to_owned(),
        is_final: false,
        retry_after: None,
    })
}

/// The engine is asked once to stop a job that it cannot stop. The job is still polled to its end.
#[test]
fn unsupported_cancel_is_not_repeated() {
    for mode in [CancelMode::Request, CancelMode::Immediate] {
        let asked = next(&open_row(), Event::CancelRequested { mode, on_behalf_of: None }, START).task;
        let task = next(&asked, unsupported(), START).task;
        assert!(task.status_message().unwrap().contains(CANNOT_BE_CANCELLED), "{task:?}");
        assert_eq!(task.outcome(), asked.outcome());
        let again = next(&task, Event::CancelRequested { mode, on_behalf_of: None }, START).task;
        assert_eq!(again.status_message(), task.status_message());
        let retried = next(&task, Event::RetryNow, START).task;
        assert_eq!(todo(&retried, START), Action::Poll);
        assert!(task.due_at.is_some(), "it stays due until the job is known to have ended");
        let ended = Observation::new(JobState::Succeeded(Output::text("done")));
        let step = next(&task, poll(ended), START);
        assert_eq!(step.task.due_at, None);
        assert_eq!(step.output.is_some(), mode == CancelMode::Request);
    }
}

/// A job that runs too long and cannot be stopped ends its task, and is polled on.
#[test]
fn unsupported_cancel_ends_no_deadline() {
    let task =
        next(&open_row(), Event::CancelRequested { mode: CancelMode::Request, on_behalf_of: None }, START)
            .task;
    let task = next(&task, unsupported(), START).task;
    let late = START + task.terms.max_runtime;
    assert_eq!(todo(&task, late), Action::Poll);
    let task = next(&task, poll_at(Observation::new(JobState::Running), late), late).task;
    assert_eq!(task.outcome(), Some(Outcome::Broken));
    assert_eq!(todo(&task, late + Duration::from_secs(86_400)), Action::Wait);
}

/// Five polls in a row, at least a quarter of the lag apart, make a job lost. A failed poll, one that finds
/// the job, and a long gap start the count over.
#[test]
fn job_is_lost_after_five_polls() {
    let lag = Duration::from_secs(60);
    let gone_at = |task: &Task, seconds: u64| {
        let polled_at = START + Duration::from_secs(seconds);
        let event = Event::Observed {
            observation: Observation::new(JobState::Gone),
            polled_at,
            list_lag: Duration::ZERO,
            start_lag: lag,
            new_group: None,
        };
        next(task, event, polled_at).task
    };
    let times = |task: &Task| task.missing.map_or(0, |missing| missing.times);
    let mut task = open_row();
    for (seconds, counted) in [(0, 1), (14, 1), (15, 2), (29, 2), (30, 3), (45, 4), (59, 4)] {
        task = gone_at(&task, seconds);
        assert_eq!((times(&task), task.outcome()), (counted, None), "{seconds}");
    }
    let lost = gone_at(&task, 60);
    assert_eq!(lost.outcome(), Some(Outcome::Broken), "{lost:?}");
    assert_eq!(lost.due_at, None);
    let failure = Failure {
        kind: ErrorKind::Unavailable,
        message: "away".to_owned(),
        is_final: false,
        retry_after: None,
    };
    let found = poll_at(Observation::new(JobState::Running), START + Duration::from_secs(60));
    for interruption in [Event::PollFailed(failure), found] {
        let interrupted = next(&task, interruption, START + Duration::from_secs(60)).task;
        assert_eq!(times(&gone_at(&interrupted, 61)), 1);
    }
    assert_eq!(times(&gone_at(&task, 45 + 1800)), 0, "the row counts as lost");
    assert_eq!(times(&gone_at(&task, 45 + 1801)), 1, "all processes may have been down");
}

/// A new name is stored with its group, also by the poll that sees the end.
#[test]
fn new_name_is_stored() {
    for state in [JobState::Running, JobState::Succeeded(Output::default())] {
        let ended = state.has_ended();
        let event = Event::Observed {
            observation: Observation::new(state).with_new_name(JobHandle::new("build 7")),
            polled_at: START,
            list_lag: Duration::ZERO,
            start_lag: Duration::ZERO,
            new_group: Some(GroupKey::new("builds")),
        };
        let task = next(&open_row(), event, START).task;
        assert_eq!(task.handle(), Some(&JobHandle::new("build 7")));
        match &task.job {
            Job::Open { group, started_at, .. } => {
                assert_eq!((group.as_str(), *started_at), ("builds", START))
            }
            job => assert!(ended, "{job:?}"),
        }
    }
}
