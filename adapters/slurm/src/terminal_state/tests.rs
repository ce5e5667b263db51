//! Tests of the verdicts for all kinds of ends, by the available facts.

use super::*;

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
        limit: None,
        restarts: 0,
        partition: "debug".to_owned(),
        nodes: String::new(),
        comment: None,
    }
}

fn told(
    state: Option<(State, u32)>,
    began: bool,
    end: Option<(u32, Option<&str>)>,
    over_for: u64,
) -> Result<JobOutcome, String> {
    let run = Run { task: None, restart: 0 };
    let facts = TerminalEvidence {
        rows: state.map(|(state, code)| row(state, code)).into_iter().collect(),
        ran: began.then_some((run, false)).into_iter().collect(),
        ends: end
            .map(|(code, told)| {
                (run, EndMarker { code, told: told.map(str::to_owned), ..EndMarker::default() })
            })
            .into_iter()
            .collect(),
        over_for: Duration::from_secs(over_for),
        ..TerminalEvidence::default()
    };
    let plan = Plan::default();
    fates(&plan, &facts)[&None].verdict(&plan, &facts).map_err(str::to_owned)
}

fn is_bad(verdict: &Result<JobOutcome, String>, part: &str) -> bool {
    matches!(verdict, Ok(JobOutcome::Bad(why)) if why.contains(part))
}

#[test]
fn end_marker_overrides_slurm_state() {
    // A duplicate run found the fence, and Slurm reported a failure.
    assert_eq!(told(Some((State::Failed, NOT_AGAIN)), true, Some((0, None)), 0), Ok(JobOutcome::Good));
    // Slurm reports it as completed.
    assert!(is_bad(&told(Some((State::Completed, 0)), true, Some((3, None)), 0), "exit code 3"));
    assert_eq!(told(None, true, Some((0, None)), 0), Ok(JobOutcome::Good), "purged from the controller");
    // It ended by itself before it was cancelled.
    assert_eq!(told(Some((State::Cancelled, 0)), true, Some((0, None)), 0), Ok(JobOutcome::Good));
}

/// A cancelled or timed-out job is reported by Slurm's state, except if it ended by itself before.
#[test]
fn stopped_job_follows_slurm_state() {
    for end in [(143, Some("TERM")), (0, Some("TERM")), (137, None)] {
        assert_eq!(
            told(Some((State::Cancelled, 0)), true, Some(end), 0),
            Ok(JobOutcome::Stopped("cancelled".to_owned()))
        );
        assert!(is_bad(&told(Some((State::Timeout, 0)), true, Some(end), 0), "time limit"));
    }
    let end = EndMarker { code: 143, told: Some("TERM".to_owned()), ..EndMarker::default() };
    let asked = |cancelled| by_marker(&end, Some(State::Failed), cancelled);
    assert_eq!(asked(true), JobOutcome::Stopped("cancelled".to_owned()), "as a killed controller tells it");
    let why = "its script was told to end (exit code 143: ended by SIGTERM), by somebody's signal, or by Slurm after its controller \
                   broke down";
    assert_eq!(asked(false), JobOutcome::Bad(why.to_owned()));
    assert!(is_bad(&told(Some((State::OutOfMemory, 0)), true, Some((137, None)), 0), "more memory"));
    assert!(is_bad(
        &told(Some((State::OutOfMemory, 0)), true, Some((1, None)), 0),
        "more memory than it had asked for (exit code 1)"
    ));
    assert!(is_bad(
        &told(Some((State::OutOfMemory, 0)), true, Some((0, None)), 0),
        "more memory than it had asked for (though the script ended with 0)"
    ));
    // It ended before the time limit.
    assert_eq!(told(Some((State::Timeout, 0)), true, Some((0, None)), 0), Ok(JobOutcome::Good));
}

/// Slurm's state counts once the end marker had time to appear.
#[test]
fn missing_marker_falls_back_to_slurm() {
    assert!(told(Some((State::Completed, 0)), true, None, 0).is_err(), "it may be on its way");
    assert_eq!(told(Some((State::Completed, 0)), true, None, 6), Ok(JobOutcome::Good));
    assert!(is_bad(&told(Some((State::Failed, 1)), false, None, 0), "exit code 1"));
    assert!(is_bad(&told(Some((State::NodeFail, 0)), true, None, 0), "node"));
    assert!(is_bad(&told(Some((State::Failed, NO_FOLDER)), false, None, 0), "jobs_dir"));
    assert_eq!(
        told(Some((State::Cancelled, 0)), false, None, 0),
        Ok(JobOutcome::Stopped("cancelled before it began".to_owned()))
    );
}

/// A job that Slurm cancelled after a controller crash is lost, and one that a user cancelled is not.
#[test]
fn cancel_by_slurm_is_loss() {
    // Recorded from Slurm 22.05 after its controller was killed: the node was already running a job of that
    // number.
    let by_node = "20|CANCELLED by 0|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
    let by_user = "20|CANCELLED by 1000|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
    let waited =
        "20|CANCELLED by 0|0:0|1795339653|Unknown|1795339657|0|60||00:00:00|1|50M|None assigned|tb-a";
    let judged = |record: &str, began: bool, cancelled: bool, over_for: u64| {
        let facts = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            ran: began.then_some((Run { task: None, restart: 0 }, false)).into_iter().collect(),
            cancelled,
            slurmd_user: Some(0),
            over_for: Duration::from_secs(over_for),
            ..TerminalEvidence::default()
        };
        let plan = Plan::default();
        fates(&plan, &facts)[&None].verdict(&plan, &facts)
    };
    assert!(judged(by_node, false, false, 0).is_err(), "its fence may not be seen yet");
    assert!(
        matches!(judged(by_node, false, false, 6), Ok(JobOutcome::Lost(why)) if why.contains("called again"))
    );
    // Without the accounting database, it is unknown whether a user cancelled it. A user may do so while the
    // node is being prepared.
    let cancelled = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
    let facts = TerminalEvidence {
        rows: vec![cancelled],
        over_for: Duration::from_secs(6),
        ..TerminalEvidence::default()
    };
    let unsaid = fates(&Plan::default(), &facts)[&None].verdict(&Plan::default(), &facts);
    assert!(
        matches!(&unsaid, Ok(JobOutcome::Lost(why)) if why.contains("somebody did, or Slurm itself") && why.contains("called again")),
        "{unsaid:?}"
    );
    for (record, began, cancelled) in
        [(by_user, false, false), (waited, false, false), (by_node, true, false), (by_node, false, true)]
    {
        assert!(matches!(judged(record, began, cancelled, 6), Ok(JobOutcome::Stopped(_))), "{record}");
    }
    // The node of a forgotten job can request this while the new job of the same number is still pending. The
    // new job may be an array.
    let (waits, by_nobody) = (waited.replace("20|", "20_[0-2]|"), waited.replace(" by 0", ""));
    for (record, array, is_lost) in
        [(waited, None, true), (&*waits, Some("0-2"), true), (&*by_nobody, None, false)]
    {
        let facts = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            number_given_again: true,
            slurmd_user: Some(0),
            over_for: Duration::from_secs(6),
            ..TerminalEvidence::default()
        };
        let plan = Plan { array: array.map(str::to_owned), ..Plan::default() };
        for fate in fates(&plan, &facts).values() {
            let verdict = fate.verdict(&plan, &facts).unwrap();
            let lost = matches!(&verdict, JobOutcome::Lost(why) if why.contains("number twice") && why.contains("called again"));
            assert_eq!(lost, is_lost, "{record}: {verdict:?}");
        }
    }
    // The node that cancels one job also ends the other job of that number, which the controller has
    // forgotten.
    let end = Some((143, Some("TERM")));
    assert!(is_bad(&told(None, true, end, 0), "no longer knows the job"));
    // Or the controller starts the forgotten job again, and its fence shows that it ran.
    let again = Some((State::Completed, 0));
    assert!(is_bad(&told(again, true, end, 0), "after its controller broke down"));
}

/// A job that was shown as running until its time limit, and never began, is lost.
#[test]
fn timeout_without_start_is_loss() {
    let timed_out = Some((State::Timeout, 0));
    assert!(told(timed_out, false, None, 0).is_err(), "its fence may not be seen yet");
    let lost = told(timed_out, false, None, 6);
    assert!(
        matches!(&lost, Ok(JobOutcome::Lost(why)) if why.contains("until its time limit") && why.contains("called again")),
        "{lost:?}"
    );
    assert!(is_bad(&told(timed_out, true, None, 6), "time limit"));
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
    let facts = TerminalEvidence {
        records: crate::driver::accounting_text::records(records),
        over_for: Duration::from_secs(60),
        ..TerminalEvidence::default()
    };
    let plan = Plan { array: Some("0-9%2".to_owned()), ..Plan::default() };
    let fates = fates(&plan, &facts);
    let verdict = |task: u32| fates[&Some(task)].verdict(&plan, &facts).unwrap();
    assert_eq!(verdict(0), JobOutcome::Good);
    assert_eq!(verdict(1), JobOutcome::Bad("exit code 3".to_owned()));
    for task in 2..10 {
        let words = "cancelled by user 0 before it began";
        assert_eq!(verdict(task), JobOutcome::Stopped(words.to_owned()), "{task}");
    }
}

#[test]
fn cancellation_names_requesting_user() {
    let record = "7|CANCELLED by 1000|0:15|1|1|2|20|60||00:01|1|4G|vm|tb-a\n";
    let judged = |names: &[(u32, &str)], cancelled| {
        let facts = TerminalEvidence {
            records: crate::driver::accounting_text::records(record),
            ran: [(Run { task: None, restart: 0 }, false)].into(),
            users: names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect(),
            cancelled,
            ..TerminalEvidence::default()
        };
        fates(&Plan::default(), &facts)[&None].verdict(&Plan::default(), &facts).unwrap()
    };
    let stopped = |words: &str| JobOutcome::Stopped(words.to_owned());
    assert_eq!(judged(&[(1000, "asmith")], false), stopped("cancelled by asmith"));
    assert_eq!(judged(&[], false), stopped("cancelled by user 1000"));
    assert_eq!(judged(&[(1000, "asmith")], true), stopped("cancelled"), "the task was cancelled");
}

/// Recorded from Slurm 22.05 without control groups. slurmstepd killed the job.
#[test]
fn oom_kill_is_recognized() {
    let judged = |asked: &[(&str, &str)], peak: &str, end: Option<u32>| {
        let run = Run { task: None, restart: 0 };
        let records = format!(
            "7|FAILED|0:9|1|1|2|2|60||00:00.398|2|20M|vm|tb-a\n7.batch|CANCELLED by 0|0:9|1|1|2|2||{peak}|00:00.398|2||vm|batch\n"
        );
        let facts = TerminalEvidence {
            records: crate::driver::accounting_text::records(&records),
            ran: [(run, false)].into(),
            ends: end.map(|code| (run, EndMarker { code, ..EndMarker::default() })).into_iter().collect(),
            over_for: Duration::from_secs(60),
            ..TerminalEvidence::default()
        };
        let asked = asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = Plan { asked, ..Plan::default() };
        match fates(&plan, &facts)[&None].verdict(&plan, &facts) {
            Ok(JobOutcome::Bad(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let memory = "it used more memory than it had asked for";
    assert_eq!(judged(&[], "137516K", None), format!("{memory} (ended by SIGKILL)"));
    assert_eq!(judged(&[("mem", "100M")], "137516K", None), format!("{memory} (ended by SIGKILL)"));
    assert_eq!(judged(&[("mem", "1G")], "137516K", None), "ended by SIGKILL");
    assert_eq!(judged(&[("mem-per-cpu", "100M")], "137516K", None), "ended by SIGKILL", "it had two");
    let killed = "exit code 137: ended by SIGKILL";
    assert_eq!(judged(&[], "137516K", Some(137)), format!("{memory} ({killed})"));
    assert_eq!(judged(&[], "1024K", Some(137)), killed);
    assert_eq!(judged(&[], "137516K", Some(1)), "exit code 1");
}

/// Each task that never began keeps a row of its own, without the list of all.
#[test]
fn large_array_shares_memory() {
    // squeue shows one row for all of them.
    let tasks: Vec<u32> = (0..5_000).collect();
    let mut all = row(State::Cancelled, 0);
    all.tasks = Tasks::Many(tasks);
    let facts = TerminalEvidence { rows: vec![all], ..TerminalEvidence::default() };
    let fates = fates(&Plan { array: Some("0-4999%5".to_owned()), ..Plan::default() }, &facts);
    let kept = |fate: &TerminalState| fate.row.as_ref().is_some_and(|row| row.count() == 1);
    assert!(fates.len() == 5_000 && fates.values().all(kept), "none has a list of all");
}

/// The accounting alone shows that the job that was to come first failed. A user's cancel stays a cancel.
#[test]
fn unmet_dependency_is_failure() {
    // Recorded from Slurm 22.05. A cancel by a user is marked as one.
    let record = |id: &str, state: &str| {
        format!(
            "{id}|{state}|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-a\n"
        )
    };
    let failed = JobOutcome::Bad("the job that was to come first did not end as required".to_owned());
    let stopped = JobOutcome::Stopped("cancelled before it began".to_owned());
    let by_user = JobOutcome::Stopped("cancelled by user 0 before it began".to_owned());
    for (id, state, depends, wanted) in [
        ("2", "CANCELLED", true, &failed),
        ("2", "CANCELLED by 0", true, &by_user),
        ("2", "CANCELLED", false, &stopped),
        ("2_[0-3]", "CANCELLED", true, &failed),
        ("2_[0-3]", "CANCELLED by 0", true, &by_user),
    ] {
        let facts = TerminalEvidence {
            records: crate::driver::accounting_text::records(&record(id, state)),
            over_for: Duration::from_secs(60),
            ..TerminalEvidence::default()
        };
        let dependency = ("dependency".to_owned(), "afterok:1".to_owned());
        let plan = Plan {
            array: id.contains('_').then(|| "0-3".to_owned()),
            asked: depends.then_some(dependency).into_iter().collect(),
            ..Plan::default()
        };
        for (task, fate) in fates(&plan, &facts) {
            assert_eq!(fate.verdict(&plan, &facts).as_ref(), Ok(wanted), "{id} {task:?} {state} {depends}");
        }
    }
}

/// A job that the accounting may know is not lost while the accounting does not answer.
#[test]
fn silent_accounting_delays_loss() {
    let judged = |rows: Vec<Row>, began: bool, accounting: Accounting| {
        let facts = TerminalEvidence {
            rows,
            ran: began.then_some((Run { task: None, restart: 0 }, false)).into_iter().collect(),
            accounting,
            over_for: Duration::from_secs(86_400),
            ..TerminalEvidence::default()
        };
        let plan = Plan::default();
        fates(&plan, &facts)[&None].verdict(&plan, &facts)
    };
    let cancelled = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
    for (rows, began) in [(Vec::new(), false), (Vec::new(), true), (vec![cancelled], false)] {
        for accounting in [Accounting::Silent, Accounting::NotAsked] {
            assert!(judged(rows.clone(), began, accounting).is_err(), "{rows:?} {began}");
        }
        assert!(matches!(judged(rows, began, Accounting::Heard), Ok(JobOutcome::Lost(_))));
    }
    assert_eq!(
        judged(vec![row(State::Completed, 0)], true, Accounting::Silent),
        Ok(JobOutcome::Good),
        "the controller knows"
    );
}

#[test]
fn job_without_evidence_is_lost() {
    assert!(told(Some((State::Failed, NOT_AGAIN)), true, None, 10).is_err());
    assert!(matches!(told(Some((State::Failed, NOT_AGAIN)), true, None, 61), Ok(JobOutcome::Lost(_))));
    assert!(told(None, true, None, 10).is_err() && told(None, false, None, 10).is_err());
    assert!(matches!(told(None, true, None, 61), Ok(JobOutcome::Lost(why)) if why.contains("left no end")));
    assert!(matches!(told(None, false, None, 21), Ok(JobOutcome::Lost(why)) if why.contains("never began")));
}
