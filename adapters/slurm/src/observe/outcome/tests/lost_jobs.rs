//! Jobs whose end is unknown: when they count as lost, and when the verdict has to wait.

use super::*;

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

/// A node that still had another job of this number reports the end of that one.
#[test]
fn completion_without_start_is_loss() {
    let completed = Some((State::Completed, 0));
    assert!(evaluate(completed, false, None, 59).is_err(), "the traces may not be visible yet");
    let lost = evaluate(completed, false, None, 60);
    assert!(
        matches!(&lost, Ok(JobOutcome::Lost(why)) if why.contains("left no trace") && !why.contains("called again")),
        "{lost:?}"
    );
    assert_eq!(evaluate(completed, true, None, 60), Ok(JobOutcome::Succeeded));
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
