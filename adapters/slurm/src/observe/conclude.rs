//! The result of an ended job for the client: whether it succeeded, why not and what to change, its resource
//! usage and its output. It reads only what the job left: its logs, result and artifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{Content, JobState, Observation, Output, Timestamp};

use crate::driver::state::State;
use crate::identity::handle::JobId;
use crate::observe::outcome::JobOutcome;
use crate::observe::task_table;
use crate::observe::terminal_state::{Accounting, TerminalEvidence, TerminalState, collect_terminal_states};
use crate::observe::usage::{self, Usage};
use crate::result::outputs::{JobOutputs, MAX_FAILED_LOG_BYTES, MAX_LOG_BYTES};
use crate::store::end_marker::Run;
use crate::store::folder::{Folder, Stream};
use crate::store::plan::Plan;

/// How long to wait for a job's output that cannot be read, because the server of its file system is
/// unavailable.
const OUTPUT_READ_TIMEOUT: Duration = Duration::from_hours(1);

/// Maximum number of failed tasks whose logs are in a result.
const MAX_TASK_LOGS: usize = 3;

/// Whether it is known how a job ended.
pub(crate) enum Conclusion {
    Pending(Observation),
    /// With the runs that were lost before they began: they must never begin.
    Ended(Observation, Vec<Run>),
}

/// Concludes from the facts about a job without pending or running parts. `accounting_wait` is how long to
/// wait for its accounting records.
pub(crate) fn conclude(
    plan: &Plan,
    evidence: &TerminalEvidence,
    folder: &Folder,
    job: JobId,
    accounting_wait: Duration,
) -> Conclusion {
    let terminal_states = collect_terminal_states(plan, evidence);
    let mut outcomes = BTreeMap::new();
    for (task, terminal_state) in &terminal_states {
        match terminal_state.outcome(plan, evidence) {
            Ok(outcome) => {
                outcomes.insert(*task, outcome);
            }
            Err(reason) => return pending_conclusion(reason),
        }
    }
    // Memory usage and the user of a cancellation reach the accounting database a moment later.
    let is_cancelled_by_others = |terminal_state: &TerminalState| {
        terminal_state.state == Some(State::Cancelled) && !evidence.cancel_requested
    };
    let has_records = terminal_states
        .values()
        .filter(|terminal_state| terminal_state.has_started || is_cancelled_by_others(terminal_state))
        .all(|terminal_state| terminal_state.record.as_ref().is_some_and(|r| r.has_ended()));
    if !has_records
        && (evidence.accounting == Accounting::NotQueried || evidence.queried_for < accounting_wait)
    {
        return pending_conclusion("the job has ended; waiting for its accounting record");
    }
    let unstarted_runs = terminal_states
        .iter()
        .filter(|(task, terminal_state)| {
            !terminal_state.has_started && matches!(outcomes[task], JobOutcome::Lost(_))
        })
        .map(|(task, terminal_state)| Run { task: *task, restart: terminal_state.restarts })
        .collect();
    let mut outputs = JobOutputs::default();
    let report = match plan.array {
        Some(_) => array_report(plan, &terminal_states, &outcomes, folder, job, &mut outputs),
        None => {
            single_report(plan, &terminal_states, &outcomes, folder, (job, evidence.preempted), &mut outputs)
        }
    };
    let Some(report) = report else {
        return Conclusion::Ended(Observation::new(JobState::Gone), unstarted_runs);
    };
    let has_root = outputs.check_root(plan, folder);
    let structured = match &plan.result {
        None => Some(report.summary),
        Some(name) if has_root => outputs.read_result(plan, name),
        Some(_) => None,
    };
    let artifacts = if has_root { outputs.list_artifacts(plan) } else { Vec::new() };
    if let Some(read_error) =
        outputs.transient_error.as_ref().filter(|_| evidence.ended_for < OUTPUT_READ_TIMEOUT)
    {
        return pending_conclusion(format!("the job has ended; {read_error}. The read is retried"));
    }
    let mut content = vec![Content::text(report.text)];
    content.extend(outputs.into_content());
    let mut observation = Observation::new(outcome_state(&report.outcome)(Output {
        content,
        structured,
        artifacts,
        ..Output::default()
    }));
    (observation.message, observation.since) =
        (message(&report.outcome, report.advice), latest_end(&terminal_states));
    Conclusion::Ended(observation, unstarted_runs)
}

fn pending_conclusion(message: impl Into<String>) -> Conclusion {
    Conclusion::Pending(Observation::new(JobState::Running).with_message(message))
}

/// How a job ended, before its output is read.
struct EndReport {
    outcome: JobOutcome,
    text: String,
    advice: Option<String>,
    summary: Value,
}

fn single_report(
    plan: &Plan,
    terminal_states: &BTreeMap<Option<u32>, TerminalState>,
    outcomes: &BTreeMap<Option<u32>, JobOutcome>,
    folder: &Folder,
    (job, preempted): (JobId, bool),
    outputs: &mut JobOutputs,
) -> Option<EndReport> {
    let (terminal_state, outcome) = (terminal_states.values().next()?, outcomes.values().next()?);
    let usage = Usage::of(plan, terminal_state);
    let mut lines = vec![headline(terminal_state, outcome)];
    lines.extend(usage.lines());
    let advice = advice(plan, terminal_state, outcome, &usage);
    lines.extend(advice.clone());
    if terminal_state.restarts > 0 {
        let prefix = if preempted { "Slurm preempted it and" } else { "Slurm" };
        lines.push(format!(
            "{prefix} put it back into the queue; this was run {}.",
            terminal_state.restarts + 1
        ));
    }
    let mut summary = usage.json();
    summary["job"] = json!(job);
    summary["state"] = json!(terminal_state.state.map(State::name));
    summary["exit_code"] = json!(
        terminal_state.end_marker.as_ref().map(|end| end.code).or(terminal_state.exit.map(|exit| exit.code))
    );
    if plan.attached.is_none() {
        let max_bytes = if *outcome == JobOutcome::Succeeded { MAX_LOG_BYTES } else { MAX_FAILED_LOG_BYTES };
        for stream in [Stream::Out, Stream::Err] {
            outputs.read_log(folder, stream, None, max_bytes);
        }
    }
    Some(EndReport { outcome: outcome.clone(), text: lines.join("\n"), advice, summary })
}

fn array_report(
    plan: &Plan,
    terminal_states: &BTreeMap<Option<u32>, TerminalState>,
    outcomes: &BTreeMap<Option<u32>, JobOutcome>,
    folder: &Folder,
    job: JobId,
    outputs: &mut JobOutputs,
) -> Option<EndReport> {
    let total = terminal_states.len();
    let count =
        |predicate: fn(&JobOutcome) -> bool| outcomes.values().filter(|outcome| predicate(outcome)).count();
    let succeeded = count(|outcome| *outcome == JobOutcome::Succeeded);
    let cancelled = count(|outcome| matches!(outcome, JobOutcome::Cancelled(_)));
    let lost = count(|outcome| matches!(outcome, JobOutcome::Lost(_)));
    let failed = total - succeeded - cancelled - lost;
    let mut counts = format!("{succeeded} of {total} tasks succeeded");
    for (number, status) in [(failed, "failed"), (cancelled, "were cancelled"), (lost, "were lost")] {
        if number > 0 {
            counts.push_str(&format!(", {number} {status}"));
        }
    }
    let overall = match () {
        () if succeeded == total => JobOutcome::Succeeded,
        () if lost == total => all_lost(outcomes.values()),
        () if cancelled > 0 && failed == 0 && lost == 0 => JobOutcome::Cancelled(counts.clone()),
        () => JobOutcome::Failed(counts.clone()),
    };
    let usages: BTreeMap<Option<u32>, Usage> = terminal_states
        .iter()
        .map(|(task, terminal_state)| (*task, Usage::of(plan, terminal_state)))
        .collect();
    let mut text = format!("{counts}.\n\n{}", task_table::text(terminal_states, outcomes, &usages));
    let advice = terminal_states
        .iter()
        .find_map(|(task, terminal_state)| advice(plan, terminal_state, &outcomes[task], &usages[task]));
    if let Some(advice) = &advice {
        text.push_str(&format!("\n{advice}"));
    }
    let unsuccessful =
        outcomes.iter().filter(|(_, outcome)| matches!(outcome, JobOutcome::Failed(_) | JobOutcome::Lost(_)));
    for (task, _) in unsuccessful.take(MAX_TASK_LOGS) {
        for stream in [Stream::Out, Stream::Err] {
            outputs.read_log(folder, stream, *task, MAX_FAILED_LOG_BYTES / MAX_TASK_LOGS);
        }
    }
    if succeeded == total {
        outputs.read_log(
            folder,
            Stream::Out,
            terminal_states.keys().next().copied().flatten(),
            MAX_LOG_BYTES,
        );
    }
    let summary = json!({
        "job": job, "succeeded": succeeded, "failed": failed, "cancelled": cancelled, "lost": lost, "total": total,
        "tasks": task_table::json(terminal_states, outcomes, &usages),
    });
    Some(EndReport { outcome: overall, text, advice, summary })
}

/// Returns why all tasks of an array are lost. A reason common to all, as after a crash of the controller, is
/// more useful than their number.
fn all_lost<'a>(outcomes: impl ExactSizeIterator<Item = &'a JobOutcome>) -> JobOutcome {
    let total = outcomes.len();
    let reasons: BTreeSet<&str> = outcomes
        .filter_map(|outcome| match outcome {
            JobOutcome::Lost(reason) => Some(reason.as_str()),
            JobOutcome::Succeeded | JobOutcome::Failed(_) | JobOutcome::Cancelled(_) => None,
        })
        .collect();
    match Vec::from_iter(reasons).as_slice() {
        [one] => JobOutcome::Lost((*one).to_owned()),
        several => JobOutcome::Lost(format!("all of its {total} tasks are lost: {}", several.join("; "))),
    }
}

fn outcome_state(outcome: &JobOutcome) -> fn(Output) -> JobState {
    match outcome {
        JobOutcome::Succeeded => JobState::Succeeded,
        JobOutcome::Failed(_) => JobState::Failed,
        JobOutcome::Cancelled(_) => JobState::Cancelled,
        JobOutcome::Lost(_) => |_| JobState::Gone,
    }
}

fn message(outcome: &JobOutcome, advice: Option<String>) -> Option<String> {
    match outcome {
        JobOutcome::Succeeded => None,
        JobOutcome::Failed(reason) => Some(match advice {
            Some(advice) => format!("{reason}. {advice}"),
            None => reason.clone(),
        }),
        JobOutcome::Cancelled(reason) | JobOutcome::Lost(reason) => Some(reason.clone()),
    }
}

fn headline(terminal_state: &TerminalState, outcome: &JobOutcome) -> String {
    let name = terminal_state.state.map_or("", State::name);
    match outcome {
        JobOutcome::Succeeded => "The job succeeded.".to_owned(),
        JobOutcome::Failed(reason) => format!("The job failed: {reason}{}.", in_brackets(name)),
        JobOutcome::Cancelled(reason) => format!("The job was {reason}{}.", in_brackets(name)),
        JobOutcome::Lost(reason) => format!("The job is lost: {reason}."),
    }
}

fn in_brackets(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" [{name}]") }
}

/// Returns what to do next time, if the job failed because it requested too little memory or time, or because
/// of a node.
fn advice(
    plan: &Plan,
    terminal_state: &TerminalState,
    outcome: &JobOutcome,
    usage: &Usage,
) -> Option<String> {
    if !matches!(outcome, JobOutcome::Failed(_)) {
        return None;
    }
    let raise = |options: &[&str]| {
        let option = options.iter().find(|option| plan.asked.contains_key(**option)).or(options.first())?;
        Some(match plan.parameters.get(*option) {
            Some(parameter) => format!("Raise `{parameter}`."),
            None => format!("Raise `--{option}`."),
        })
    };
    let state =
        if terminal_state.is_out_of_memory(plan) { State::OutOfMemory } else { terminal_state.state? };
    match state {
        State::OutOfMemory => {
            let requested =
                usage.requested_memory.clone().unwrap_or_else(|| "its partition's default".to_owned());
            let usage_text = usage.max_memory.map_or_else(String::new, |bytes| {
                format!(" and used at least {}", crate::notation::amount::size_in_words(bytes))
            });
            Some(format!(
                "It requested {requested} of memory{usage_text}. {}",
                raise(&["mem", "mem-per-cpu"])?
            ))
        }
        State::Timeout => {
            let limit = usage
                .limit
                .map_or_else(|| "its partition's default".to_owned(), crate::notation::amount::time_in_words);
            let elapsed_text = usage.elapsed.map_or_else(String::new, |elapsed| {
                format!(" and ran for {}", crate::notation::amount::time_in_words(elapsed))
            });
            Some(format!("It requested {limit}{elapsed_text}. {}", raise(&["time"])?))
        }
        State::NodeFail | State::BootFail | State::LaunchFailed => {
            Some("The node is at fault, not the job: call the tool again.".to_owned())
        }
        _ => None,
    }
}

fn latest_end(terminal_states: &BTreeMap<Option<u32>, TerminalState>) -> Option<Timestamp> {
    terminal_states.values().filter_map(usage::ended_at).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::accounting_text;
    use crate::store::end_marker::EndMarker;

    /// Returns the evidence of a job whose script succeeded this long ago.
    fn completed(ended_for: Duration) -> TerminalEvidence {
        let run = Run { task: None, restart: 0 };
        TerminalEvidence {
            records: accounting_text::records("7|COMPLETED|0:0|1|1|2|20|60||00:01|1|4G|n1|tb-a\n"),
            started_runs: [(run, false)].into(),
            end_markers: [(run, EndMarker::default())].into(),
            ended_for,
            ..TerminalEvidence::default()
        }
    }

    #[test]
    fn array_loss_reasons_are_deduplicated() {
        let lost = |reason: &str| JobOutcome::Lost(reason.to_owned());
        assert_eq!(all_lost([lost("a"), lost("a")].iter()), lost("a"));
        let several = all_lost([lost("b"), lost("a"), lost("b")].iter());
        assert_eq!(several, lost("all of its 3 tasks are lost: a; b"));
    }

    /// A result with an I/O error is read again for a while, and then reported as unreadable.
    #[test]
    fn transient_result_error_is_retried() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        // The kernel returns an I/O error for the first byte of this file, like a file system with an
        // unreachable server.
        let plan = Plan { root: "/proc/self".into(), result: Some("mem".to_owned()), ..Plan::default() };
        let conclude_after = |ended_for| conclude(&plan, &completed(ended_for), &folder, 7, Duration::ZERO);
        let Conclusion::Pending(observation) = conclude_after(OUTPUT_READ_TIMEOUT - Duration::from_secs(1))
        else {
            panic!("the result may become readable")
        };
        assert_eq!(observation.state, JobState::Running);
        let expected_message = "the job has ended; /proc/self/mem cannot be read: Input/output error (os error 5). The read is retried";
        assert_eq!(observation.message.as_deref(), Some(expected_message));
        let Conclusion::Ended(observation, _) = conclude_after(OUTPUT_READ_TIMEOUT) else {
            panic!("the job has ended")
        };
        let JobState::Succeeded(output) = observation.state else { panic!("{:?}", observation.state) };
        let expected_text = "The result `mem` cannot be read: Input/output error (os error 5).";
        assert!(output.content.contains(&Content::text(expected_text)), "{output:?}");
    }

    /// A working folder of the user that is missing is waited for, and one in our own folder is not.
    #[test]
    fn unmounted_result_folder_is_retried() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, root) = (Folder::new(dir.path(), "tb-a"), dir.path().join("scratch"));
        let result = Some("out.json".to_owned());
        let conclude_after = |plan: &Plan, ended_for| {
            let conclusion = conclude(plan, &completed(ended_for), &folder, 7, Duration::ZERO);
            match conclusion {
                Conclusion::Pending(observation) => Err(observation.message.unwrap()),
                Conclusion::Ended(Observation { state: JobState::Succeeded(output), .. }, _) => Ok(output),
                Conclusion::Ended(observation, _) => panic!("{observation:?}"),
            }
        };
        let names_missing_root = |output: &Output| {
            output.content.contains(&Content::text(format!(
            "The script's folder {} cannot be read: No such file or directory (os error 2). Check that its file system is mounted on this machine.",
            root.display()
        )))
        };
        let plan = |root: &std::path::Path| Plan { root: root.to_owned(), ..Plan::default() };
        for plan in [
            Plan { result: result.clone(), ..plan(&root) },
            Plan { artifacts: vec!["*.csv".to_owned()], ..plan(&root) },
        ] {
            let message = conclude_after(&plan, OUTPUT_READ_TIMEOUT - Duration::from_secs(1)).unwrap_err();
            assert!(message.contains("scratch does not exist. The read is retried"), "{message}");
            let output = conclude_after(&plan, OUTPUT_READ_TIMEOUT).unwrap();
            assert!(names_missing_root(&output), "{output:?}");
        }
        // Nothing needs to be read from it, or the script removed one of our folders.
        assert!(!names_missing_root(&conclude_after(&plan(&root), Duration::ZERO).unwrap()));
        let own_plan = Plan { result: result.clone(), ..plan(&folder.work()) };
        assert_eq!(conclude_after(&own_plan, Duration::ZERO).unwrap().structured, None);
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("out.json"), "7").unwrap();
        let restored = conclude_after(&Plan { result, ..plan(&root) }, Duration::ZERO).unwrap();
        assert_eq!(restored.structured, Some(json!(7)));
    }

    /// The message of an OUT_OF_MEMORY job names the parameter to raise, and the usage.
    #[test]
    fn oom_from_accounting_names_parameter() {
        let text = "\
7|OUT_OF_MEMORY|0:125|1795339653|1795339754|1795339774|20|60||00:03.120|2|4G|n1|tb-a
7.batch|OUT_OF_MEMORY|0:125|1795339754|1795339754|1795339774|20||4194000K|00:03.120|2||n1|batch
";
        let dir = tempfile::tempdir().unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let plan = Plan {
            asked: [pair("mem", "4G")].into(),
            parameters: [pair("mem", "memory")].into(),
            root: dir.path().to_owned(),
            ..Plan::default()
        };
        let evidence = TerminalEvidence {
            records: accounting_text::records(text),
            ended_for: Duration::from_secs(30),
            ..TerminalEvidence::default()
        };
        let folder = Folder::new(dir.path(), "tb-a");
        let Conclusion::Ended(observation, _) = conclude(&plan, &evidence, &folder, 7, Duration::ZERO) else {
            panic!("the job has ended")
        };
        assert_eq!(
            observation.message.as_deref(),
            Some(
                "used more memory than requested. It requested 4G of memory and used at least 4.0 GB. Raise `memory`."
            )
        );
        let JobState::Failed(output) = observation.state else { panic!("{:?}", observation.state) };
        let Content::Text { text } = &output.content[0] else { panic!("{output:?}") };
        assert!(text.contains("max memory 4.0 GB of 4 GB, CPU efficiency 8 % of 2, on n1"), "{text}");
    }
}
