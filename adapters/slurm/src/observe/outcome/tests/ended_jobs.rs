//! Tests of the verdicts for all kinds of ends, by the available facts.

use super::*;
use crate::driver::{Row, Tasks};
use crate::observe::terminal_state::collect_terminal_states;
use crate::store::end_marker::Run;

fn row(state: State, code: u32) -> Row {
    Row {
        job: 7,
        tasks: Tasks::Single,
        name: "tb-a".to_owned(),
        state,
        reason: "None".to_owned(),
        exit: Some(Exit { code, signal: 0 }),
        submitted: None,
        start: None,
        end: None,
        time_limit: None,
        restarts: 0,
        partition: "debug".to_owned(),
        nodes: String::new(),
        comment: None,
    }
}

fn evaluate(
    state: Option<(State, u32)>,
    has_started: bool,
    end_marker: Option<(u32, Option<&str>)>,
    ended_for: u64,
) -> Result<JobOutcome, String> {
    let run = Run { task: None, restart: 0 };
    let evidence = TerminalEvidence {
        rows: state.map(|(state, code)| row(state, code)).into_iter().collect(),
        started_runs: has_started.then_some((run, false)).into_iter().collect(),
        end_markers: end_marker
            .map(|(code, signal)| {
                (run, EndMarker { code, forwarded_signal: signal.map(str::to_owned), ..EndMarker::default() })
            })
            .into_iter()
            .collect(),
        ended_for: Duration::from_secs(ended_for),
        ..TerminalEvidence::default()
    };
    let plan = Plan::default();
    collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence).map_err(str::to_owned)
}

fn is_failed(outcome: &Result<JobOutcome, String>, part: &str) -> bool {
    matches!(outcome, Ok(JobOutcome::Failed(why)) if why.contains(part))
}

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
    // It ended by itself before it was cancelled.
    assert_eq!(evaluate(Some((State::Cancelled, 0)), true, Some((0, None)), 0), Ok(JobOutcome::Succeeded));
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
    let outcome = |cancel_requested| outcome_from_marker(&marker, Some(State::Failed), cancel_requested);
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
    // It ended before the time limit.
    assert_eq!(evaluate(Some((State::Timeout, 0)), true, Some((0, None)), 0), Ok(JobOutcome::Succeeded));
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

/// A job that Slurm cancelled after a controller crash is lost, and one that a user cancelled is not.
#[test]
fn cancel_by_slurm_is_loss() {
    // Recorded from Slurm 22.05 after its controller was killed: the node was already running a job of that
    // number.
    let by_node = "20|CANCELLED by 0|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
    let by_user = "20|CANCELLED by 1000|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
    let without_node =
        "20|CANCELLED by 0|0:0|1795339653|Unknown|1795339657|0|60||00:00:00|1|50M|None assigned|tb-a";
    let outcome_of = |record: &str, has_started: bool, cancel_requested: bool, ended_for: u64| {
        let evidence = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            started_runs: has_started
                .then_some((Run { task: None, restart: 0 }, false))
                .into_iter()
                .collect(),
            cancel_requested,
            slurmd_uid: Some(0),
            ended_for: Duration::from_secs(ended_for),
            ..TerminalEvidence::default()
        };
        let plan = Plan::default();
        collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence)
    };
    assert!(outcome_of(by_node, false, false, 0).is_err(), "the fence may not be visible yet");
    assert!(
        matches!(outcome_of(by_node, false, false, 6), Ok(JobOutcome::Lost(why)) if why.contains("called again"))
    );
    // Without the accounting database, it is unknown whether a user cancelled it. A user may do so while the
    // node is being prepared.
    let cancelled_row = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
    let evidence = TerminalEvidence {
        rows: vec![cancelled_row],
        ended_for: Duration::from_secs(6),
        ..TerminalEvidence::default()
    };
    let unknown_user =
        collect_terminal_states(&Plan::default(), &evidence)[&None].outcome(&Plan::default(), &evidence);
    assert!(
        matches!(&unknown_user, Ok(JobOutcome::Lost(why)) if why.contains("by a user or by Slurm itself") && why.contains("called again")),
        "{unknown_user:?}"
    );
    for (record, has_started, cancel_requested) in [
        (by_user, false, false),
        (without_node, false, false),
        (by_node, true, false),
        (by_node, false, true),
    ] {
        assert!(
            matches!(outcome_of(record, has_started, cancel_requested, 6), Ok(JobOutcome::Cancelled(_))),
            "{record}"
        );
    }
    // The node of a forgotten job can request this while the new job of the same number is still pending. The
    // new job may be an array.
    let (array_record, by_nobody) =
        (without_node.replace("20|", "20_[0-2]|"), without_node.replace(" by 0", ""));
    for (record, array, is_lost) in
        [(without_node, None, true), (&*array_record, Some("0-2"), true), (&*by_nobody, None, false)]
    {
        let evidence = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            number_reused: true,
            slurmd_uid: Some(0),
            ended_for: Duration::from_secs(6),
            ..TerminalEvidence::default()
        };
        let plan = Plan { array: array.map(str::to_owned), ..Plan::default() };
        for terminal_state in collect_terminal_states(&plan, &evidence).values() {
            let outcome = terminal_state.outcome(&plan, &evidence).unwrap();
            let lost = matches!(&outcome, JobOutcome::Lost(why) if why.contains("number twice") && why.contains("called again"));
            assert_eq!(lost, is_lost, "{record}: {outcome:?}");
        }
    }
    // The node that cancels one job also ends the other job of that number, which the controller has
    // forgotten.
    let end = Some((143, Some("TERM")));
    assert!(is_failed(&evaluate(None, true, end, 0), "no longer knows the job"));
    // Or the controller starts the forgotten job again, and its fence shows that it ran.
    let second_start = Some((State::Completed, 0));
    assert!(is_failed(&evaluate(second_start, true, end, 0), "after a crash of its controller"));
}

/// A job that was shown as running until its time limit, and never began, is lost.
#[test]
fn timeout_without_start_is_loss() {
    let timed_out = Some((State::Timeout, 0));
    assert!(evaluate(timed_out, false, None, 0).is_err(), "the fence may not be visible yet");
    let lost = evaluate(timed_out, false, None, 6);
    assert!(
        matches!(&lost, Ok(JobOutcome::Lost(why)) if why.contains("until its time limit") && why.contains("called again")),
        "{lost:?}"
    );
    assert!(is_failed(&evaluate(timed_out, true, None, 6), "time limit"));
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

/// A job that the accounting may know is not lost while the accounting does not answer.
#[test]
fn silent_accounting_delays_loss() {
    let outcome_of = |rows: Vec<Row>, has_started: bool, accounting: Accounting| {
        let evidence = TerminalEvidence {
            rows,
            started_runs: has_started
                .then_some((Run { task: None, restart: 0 }, false))
                .into_iter()
                .collect(),
            accounting,
            ended_for: Duration::from_secs(86_400),
            ..TerminalEvidence::default()
        };
        let plan = Plan::default();
        collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence)
    };
    let cancelled_row = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
    for (rows, has_started) in [(Vec::new(), false), (Vec::new(), true), (vec![cancelled_row], false)] {
        for accounting in [Accounting::Unavailable, Accounting::NotQueried] {
            assert!(outcome_of(rows.clone(), has_started, accounting).is_err(), "{rows:?} {has_started}");
        }
        assert!(matches!(outcome_of(rows, has_started, Accounting::Complete), Ok(JobOutcome::Lost(_))));
    }
    assert_eq!(
        outcome_of(vec![row(State::Completed, 0)], true, Accounting::Unavailable),
        Ok(JobOutcome::Succeeded),
        "the controller still knows the job"
    );
}

#[test]
fn job_without_evidence_is_lost() {
    assert!(evaluate(Some((State::Failed, ALREADY_RUN_EXIT_CODE)), true, None, 10).is_err());
    assert!(matches!(
        evaluate(Some((State::Failed, ALREADY_RUN_EXIT_CODE)), true, None, 61),
        Ok(JobOutcome::Lost(_))
    ));
    assert!(evaluate(None, true, None, 10).is_err() && evaluate(None, false, None, 10).is_err());
    assert!(
        matches!(evaluate(None, true, None, 61), Ok(JobOutcome::Lost(why)) if why.contains("left no end"))
    );
    assert!(
        matches!(evaluate(None, false, None, 21), Ok(JobOutcome::Lost(why)) if why.contains("never began"))
    );
}
