//! Jobs whose end is known: succeeded, failed or cancelled, and for which reason.

use taskbridge_sdk::Timestamp;

use super::*;

#[test]
fn end_marker_overrides_slurm_state() {
    // A duplicate run found the fence, and Slurm reported a failure.
    assert_eq!(
        evaluate(Some((State::Failed, ALREADY_RUN_EXIT_CODE)), true, Some((0, None)), 0),
        Ok(JobOutcome::Succeeded)
    );
    // Slurm reports it as completed.
    assert!(is_failed(&evaluate(Some((State::Completed, 0)), true, Some((3, None)), 0), "exit code 3"));
    assert_eq!(
        evaluate(None, true, Some((0, None)), 0),
        Ok(JobOutcome::Succeeded),
        "purged from the controller"
    );
}

/// Slurm signals one process after the other. A script whose child was killed first may end, even with 0,
/// before the signal reaches it or its wrapper. Slurm's time of the end is when it began.
#[test]
fn script_that_slurm_cuts_off_does_not_succeed() {
    let outcome_of = |state, code, marker_end: i64| {
        let run = Run { task: None, restart: 0 };
        let second = |second: i64| Timestamp::from_millis(second * 1000);
        let marker = EndMarker { code, ended_at: Some(second(marker_end)), ..EndMarker::default() };
        let evidence = TerminalEvidence {
            rows: vec![Row { end: Some(second(100)), ..row(state, 0) }],
            started_runs: [(run, false)].into(),
            end_markers: [(run, marker)].into(),
            ..TerminalEvidence::default()
        };
        let plan = Plan::default();
        collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence).unwrap()
    };
    let cancelled = JobOutcome::Cancelled("cancelled".to_owned());
    for code in [0, 1] {
        assert_eq!(outcome_of(State::Cancelled, code, 100), cancelled);
        assert_eq!(outcome_of(State::Cancelled, code, 130), cancelled);
    }
    for state in [State::Timeout, State::Deadline, State::Preempted] {
        assert_eq!(outcome_of(state, 0, 100), JobOutcome::Failed(state.describe().to_owned()));
        let reason = format!("{} (exit code 3)", state.describe());
        assert_eq!(outcome_of(state, 3, 100), JobOutcome::Failed(reason));
    }
    // It ended by itself before that, and Slurm had not noticed yet.
    for state in [State::Cancelled, State::Timeout, State::Deadline, State::Preempted] {
        assert_eq!(outcome_of(state, 0, 99), JobOutcome::Succeeded);
    }
    assert_eq!(outcome_of(State::Cancelled, 3, 99), JobOutcome::Failed("exit code 3".to_owned()));
    // A node that does not answer does not end its scripts.
    assert_eq!(outcome_of(State::NodeFail, 0, 100), JobOutcome::Succeeded);
}

/// A cancelled or timed-out job is reported by Slurm's state, except if it ended by itself before.
#[test]
fn stopped_job_follows_slurm_state() {
    for marker in [(143, Some("TERM")), (0, Some("TERM")), (137, None)] {
        assert_eq!(
            evaluate(Some((State::Cancelled, 0)), true, Some(marker), 0),
            Ok(JobOutcome::Cancelled("cancelled".to_owned()))
        );
        assert!(is_failed(&evaluate(Some((State::Timeout, 0)), true, Some(marker), 0), "time limit"));
    }
    let marker = EndMarker { code: 143, forwarded_signal: Some("TERM".to_owned()), ..EndMarker::default() };
    let outcome =
        |cancel_requested| outcome_from_marker(&marker, Some(State::Failed), false, cancel_requested);
    assert_eq!(
        outcome(true),
        JobOutcome::Cancelled("cancelled".to_owned()),
        "as a killed controller reports it"
    );
    let reason = "the script received a termination signal (exit code 143: ended by SIGTERM), from a user, or from Slurm after a \
                   crash of its controller";
    assert_eq!(outcome(false), JobOutcome::Failed(reason.to_owned()));
    assert!(is_failed(&evaluate(Some((State::OutOfMemory, 0)), true, Some((137, None)), 0), "more memory"));
    assert!(is_failed(
        &evaluate(Some((State::OutOfMemory, 0)), true, Some((1, None)), 0),
        "more memory than requested (exit code 1)"
    ));
    assert!(is_failed(
        &evaluate(Some((State::OutOfMemory, 0)), true, Some((0, None)), 0),
        "more memory than requested (although the script ended with 0)"
    ));
}

/// Slurm's state counts once the end marker had time to appear.
#[test]
fn missing_marker_falls_back_to_slurm() {
    assert!(evaluate(Some((State::Completed, 0)), true, None, 0).is_err(), "the end marker may be delayed");
    assert_eq!(evaluate(Some((State::Completed, 0)), true, None, 6), Ok(JobOutcome::Succeeded));
    assert!(is_failed(&evaluate(Some((State::Failed, 1)), false, None, 0), "exit code 1"));
    assert!(is_failed(&evaluate(Some((State::NodeFail, 0)), true, None, 0), "node"));
    assert!(is_failed(&evaluate(Some((State::Failed, NO_FOLDER_EXIT_CODE)), false, None, 0), "jobs_dir"));
    assert_eq!(
        evaluate(Some((State::Cancelled, 0)), false, None, 0),
        Ok(JobOutcome::Cancelled("cancelled before it began".to_owned()))
    );
}

/// The accounting has one record for all tasks that were cancelled before they began.
#[test]
fn unstarted_array_elements_are_cancelled() {
    // Recorded from Slurm 22.05: of ten tasks, two began.
    let records = "\
1_[2-9%2]|CANCELLED by 0|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-a
1_0|COMPLETED|0:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a
1_1|FAILED|3:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a
";
    let evidence = TerminalEvidence {
        records: crate::driver::accounting_text::records(records),
        started_runs: [0, 1].map(|task| (Run { task: Some(task), restart: 0 }, false)).into(),
        ended_for: Duration::from_secs(60),
        ..TerminalEvidence::default()
    };
    let plan = Plan { array: Some("0-9%2".to_owned()), ..Plan::default() };
    let terminal_states = collect_terminal_states(&plan, &evidence);
    let outcome = |task: u32| terminal_states[&Some(task)].outcome(&plan, &evidence).unwrap();
    assert_eq!(outcome(0), JobOutcome::Succeeded);
    assert_eq!(outcome(1), JobOutcome::Failed("exit code 3".to_owned()));
    for task in 2..10 {
        let words = "cancelled by user 0 before it began";
        assert_eq!(outcome(task), JobOutcome::Cancelled(words.to_owned()), "{task}");
    }
}

#[test]
fn cancellation_names_requesting_user() {
    let record = "7|CANCELLED by 1000|0:15|1|1|2|20|60||00:01|1|4G|vm|tb-a\n";
    let outcome_of = |names: &[(u32, &str)], cancel_requested| {
        let evidence = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            started_runs: [(Run { task: None, restart: 0 }, false)].into(),
            user_names: names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect(),
            cancel_requested,
            ..TerminalEvidence::default()
        };
        collect_terminal_states(&Plan::default(), &evidence)[&None]
            .outcome(&Plan::default(), &evidence)
            .unwrap()
    };
    let cancelled_with = |words: &str| JobOutcome::Cancelled(words.to_owned());
    assert_eq!(outcome_of(&[(1000, "asmith")], false), cancelled_with("cancelled by asmith"));
    assert_eq!(outcome_of(&[], false), cancelled_with("cancelled by user 1000"));
    assert_eq!(outcome_of(&[(1000, "asmith")], true), cancelled_with("cancelled"), "the task was cancelled");
}

/// Recorded from Slurm 22.05 without control groups. slurmstepd killed the job.
#[test]
fn oom_kill_is_recognized() {
    let failure_reason = |requested: &[(&str, &str)], peak: &str, end: Option<u32>| {
        let run = Run { task: None, restart: 0 };
        let records = format!(
            "7|FAILED|0:9|1|1|2|2|60||00:00.398|2|20M|vm|tb-a\n7.batch|CANCELLED by 0|0:9|1|1|2|2||{peak}|00:00.398|2||vm|batch\n"
        );
        let evidence = TerminalEvidence {
            records: crate::driver::accounting_text::records(&records),
            started_runs: [(run, false)].into(),
            end_markers: end
                .map(|code| (run, EndMarker { code, ..EndMarker::default() }))
                .into_iter()
                .collect(),
            ended_for: Duration::from_secs(60),
            ..TerminalEvidence::default()
        };
        let requested =
            requested.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = Plan { asked: requested, ..Plan::default() };
        match collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence) {
            Ok(JobOutcome::Failed(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    let memory = "used more memory than requested";
    assert_eq!(failure_reason(&[], "137516K", None), format!("{memory} (ended by SIGKILL)"));
    assert_eq!(failure_reason(&[("mem", "100M")], "137516K", None), format!("{memory} (ended by SIGKILL)"));
    assert_eq!(failure_reason(&[("mem", "1G")], "137516K", None), "ended by SIGKILL");
    assert_eq!(
        failure_reason(&[("mem-per-cpu", "100M")], "137516K", None),
        "ended by SIGKILL",
        "the job had two CPUs"
    );
    let killed = "exit code 137: ended by SIGKILL";
    assert_eq!(failure_reason(&[], "137516K", Some(137)), format!("{memory} ({killed})"));
    assert_eq!(failure_reason(&[], "1024K", Some(137)), killed);
    assert_eq!(failure_reason(&[], "137516K", Some(1)), "exit code 1");
}

/// Each task that never began keeps a row of its own, without the list of all.
#[test]
fn large_array_shares_memory() {
    // squeue shows one row for all of them.
    let tasks: Vec<u32> = (0..5_000).collect();
    let mut all = row(State::Cancelled, 0);
    all.tasks = Tasks::Many(tasks);
    let evidence = TerminalEvidence { rows: vec![all], ..TerminalEvidence::default() };
    let terminal_states =
        collect_terminal_states(&Plan { array: Some("0-4999%5".to_owned()), ..Plan::default() }, &evidence);
    let has_bare_row =
        |terminal_state: &TerminalState| terminal_state.row.as_ref().is_some_and(|row| row.count() == 1);
    assert!(
        terminal_states.len() == 5_000 && terminal_states.values().all(has_bare_row),
        "no row lists all tasks"
    );
}

/// The accounting alone shows that a dependency of the job failed. A user's cancel stays a cancel.
#[test]
fn unmet_dependency_is_failure() {
    // Recorded from Slurm 22.05. A cancel by a user is marked as one.
    let record = |id: &str, state: &str| {
        format!(
            "{id}|{state}|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-a\n"
        )
    };
    let failed = JobOutcome::Failed("the job that it depends on did not end as required".to_owned());
    let stopped = JobOutcome::Cancelled("cancelled before it began".to_owned());
    let by_user = JobOutcome::Cancelled("cancelled by user 0 before it began".to_owned());
    for (id, state, depends, expected) in [
        ("2", "CANCELLED", true, &failed),
        ("2", "CANCELLED by 0", true, &by_user),
        ("2", "CANCELLED", false, &stopped),
        ("2_[0-3]", "CANCELLED", true, &failed),
        ("2_[0-3]", "CANCELLED by 0", true, &by_user),
    ] {
        let evidence = TerminalEvidence {
            records: crate::driver::accounting_text::records(&record(id, state)),
            ended_for: Duration::from_secs(60),
            ..TerminalEvidence::default()
        };
        let dependency = ("dependency".to_owned(), "afterok:1".to_owned());
        let plan = Plan {
            array: id.contains('_').then(|| "0-3".to_owned()),
            asked: depends.then_some(dependency).into_iter().collect(),
            ..Plan::default()
        };
        for (task, terminal_state) in collect_terminal_states(&plan, &evidence) {
            assert_eq!(
                terminal_state.outcome(&plan, &evidence).as_ref(),
                Ok(expected),
                "{id} {task:?} {state} {depends}"
            );
        }
    }
}
