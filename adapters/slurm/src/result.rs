//! The result of an ended job for the client: whether it succeeded, why not and what to change, its resource
//! usage and its output. It reads only what the job left: its logs, result and artifacts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{Content, JobState, Observation, Output, Timestamp};

use crate::driver::JobId;
use crate::end::Run;
use crate::folder::{Folder, Stream};
use crate::outputs::{FAILED_LOG_BYTES, JobOutputs, LOG_BYTES};
use crate::plan::Plan;
use crate::state::State;
use crate::table;
use crate::terminal_state::{Accounting, JobOutcome, TerminalEvidence, TerminalState, fates};
use crate::usage::{self, Usage};

/// How long to wait for a job's output that cannot be read, because the server of its file system is
/// unavailable.
const READ_WITHIN: Duration = Duration::from_hours(1);

/// Maximum number of failed tasks whose logs are in a result.
const TASK_LOGS: usize = 3;

/// Whether it is known how a job ended.
pub(crate) enum Conclusion {
    NotYet(Observation),
    /// With the runs that were lost before they began: they must never begin.
    Ended(Observation, Vec<Run>),
}

/// Concludes from the facts about a job without pending or running parts. `patience` is how long to wait for
/// its accounting records.
pub(crate) fn conclude(
    plan: &Plan,
    facts: &TerminalEvidence,
    folder: &Folder,
    job: JobId,
    patience: Duration,
) -> Conclusion {
    let fates = fates(plan, facts);
    let mut verdicts = BTreeMap::new();
    for (task, fate) in &fates {
        match fate.verdict(plan, facts) {
            Ok(verdict) => {
                verdicts.insert(*task, verdict);
            }
            Err(why) => return not_yet(why),
        }
    }
    // Memory usage and the user of a cancellation reach the accounting database a moment later.
    let is_of_others = |fate: &TerminalState| fate.state == Some(State::Cancelled) && !facts.cancelled;
    let accounted = fates
        .values()
        .filter(|fate| fate.began || is_of_others(fate))
        .all(|fate| fate.record.as_ref().is_some_and(|r| r.has_ended()));
    if !accounted && (facts.accounting == Accounting::NotAsked || facts.asked_for < patience) {
        return not_yet("it has ended; its accounting is waited for");
    }
    let never_began = fates
        .iter()
        .filter(|(task, fate)| !fate.began && matches!(verdicts[task], JobOutcome::Lost(_)))
        .map(|(task, fate)| Run { task: *task, restart: fate.restarts })
        .collect();
    let mut left = JobOutputs::default();
    let end = match plan.array {
        Some(_) => array(plan, &fates, &verdicts, folder, job, &mut left),
        None => single(plan, &fates, &verdicts, folder, (job, facts.preempted), &mut left),
    };
    let Some(end) = end else {
        return Conclusion::Ended(Observation::new(JobState::Gone), never_began);
    };
    let has_root = left.finds_root(plan, folder);
    let structured = match &plan.result {
        None => Some(end.summary),
        Some(name) if has_root => left.result(plan, name),
        Some(_) => None,
    };
    let artifacts = if has_root { left.artifacts(plan) } else { Vec::new() };
    if let Some(unread) = left.later.as_ref().filter(|_| facts.over_for < READ_WITHIN) {
        return not_yet(format!("it has ended; {unread}. It is tried again"));
    }
    let mut content = vec![Content::text(end.text)];
    content.extend(left.into_content());
    let mut seen = Observation::new(verdict_state(&end.verdict)(Output {
        content,
        structured,
        artifacts,
        ..Output::default()
    }));
    (seen.message, seen.since) = (message(&end.verdict, end.advice), fate_since(&fates));
    Conclusion::Ended(seen, never_began)
}

fn not_yet(why: impl Into<String>) -> Conclusion {
    Conclusion::NotYet(Observation::new(JobState::Running).with_message(why))
}

/// How a job ended, before its output is read.
struct EndReport {
    verdict: JobOutcome,
    text: String,
    advice: Option<String>,
    summary: Value,
}

fn single(
    plan: &Plan,
    fates: &BTreeMap<Option<u32>, TerminalState>,
    verdicts: &BTreeMap<Option<u32>, JobOutcome>,
    folder: &Folder,
    (job, preempted): (JobId, bool),
    left: &mut JobOutputs,
) -> Option<EndReport> {
    let (fate, verdict) = (fates.values().next()?, verdicts.values().next()?);
    let usage = Usage::of(plan, fate);
    let mut lines = vec![headline(fate, verdict)];
    lines.extend(usage.lines());
    let advice = advice(plan, fate, verdict, &usage);
    lines.extend(advice.clone());
    if fate.restarts > 0 {
        let why = if preempted { "Slurm preempted it and" } else { "Slurm" };
        lines.push(format!("{why} put it back into the queue; this was run {}.", fate.restarts + 1));
    }
    let mut summary = usage.json();
    summary["job"] = json!(job);
    summary["state"] = json!(fate.state.map(State::name));
    summary["exit_code"] = json!(fate.end.as_ref().map(|end| end.code).or(fate.exit.map(|exit| exit.code)));
    if plan.attached.is_none() {
        let most = if *verdict == JobOutcome::Good { LOG_BYTES } else { FAILED_LOG_BYTES };
        for stream in [Stream::Out, Stream::Err] {
            left.log(folder, stream, None, most);
        }
    }
    Some(EndReport { verdict: verdict.clone(), text: lines.join("\n"), advice, summary })
}

fn array(
    plan: &Plan,
    fates: &BTreeMap<Option<u32>, TerminalState>,
    verdicts: &BTreeMap<Option<u32>, JobOutcome>,
    folder: &Folder,
    job: JobId,
    left: &mut JobOutputs,
) -> Option<EndReport> {
    let total = fates.len();
    let count = |wanted: fn(&JobOutcome) -> bool| verdicts.values().filter(|verdict| wanted(verdict)).count();
    let good = count(|verdict| *verdict == JobOutcome::Good);
    let stopped = count(|verdict| matches!(verdict, JobOutcome::Stopped(_)));
    let lost = count(|verdict| matches!(verdict, JobOutcome::Lost(_)));
    let bad = total - good - stopped - lost;
    let mut words = format!("{good} of {total} tasks succeeded");
    for (number, what) in [(bad, "failed"), (stopped, "were cancelled"), (lost, "were lost")] {
        if number > 0 {
            words.push_str(&format!(", {number} {what}"));
        }
    }
    let overall = match () {
        () if good == total => JobOutcome::Good,
        () if lost == total => all_lost(verdicts.values()),
        () if stopped > 0 && bad == 0 && lost == 0 => JobOutcome::Stopped(words.clone()),
        () => JobOutcome::Bad(words.clone()),
    };
    let usages: BTreeMap<Option<u32>, Usage> =
        fates.iter().map(|(task, fate)| (*task, Usage::of(plan, fate))).collect();
    let mut text = format!("{words}.\n\n{}", table::text(fates, verdicts, &usages));
    let advice = fates.iter().find_map(|(task, fate)| advice(plan, fate, &verdicts[task], &usages[task]));
    if let Some(advice) = &advice {
        text.push_str(&format!("\n{advice}"));
    }
    let failed =
        verdicts.iter().filter(|(_, verdict)| matches!(verdict, JobOutcome::Bad(_) | JobOutcome::Lost(_)));
    for (task, _) in failed.take(TASK_LOGS) {
        for stream in [Stream::Out, Stream::Err] {
            left.log(folder, stream, *task, FAILED_LOG_BYTES / TASK_LOGS);
        }
    }
    if good == total {
        left.log(folder, Stream::Out, fates.keys().next().copied().flatten(), LOG_BYTES);
    }
    let summary = json!({
        "job": job, "succeeded": good, "failed": bad, "cancelled": stopped, "lost": lost, "total": total,
        "tasks": table::json(fates, verdicts, &usages),
    });
    Some(EndReport { verdict: overall, text, advice, summary })
}

/// Returns why all tasks of an array are lost. A reason common to all, as after a crash of the controller, is
/// more useful than their number.
fn all_lost<'a>(verdicts: impl ExactSizeIterator<Item = &'a JobOutcome>) -> JobOutcome {
    let total = verdicts.len();
    let reasons: BTreeSet<&str> = verdicts
        .filter_map(|verdict| match verdict {
            JobOutcome::Lost(why) => Some(why.as_str()),
            JobOutcome::Good | JobOutcome::Bad(_) | JobOutcome::Stopped(_) => None,
        })
        .collect();
    match Vec::from_iter(reasons).as_slice() {
        [one] => JobOutcome::Lost((*one).to_owned()),
        several => JobOutcome::Lost(format!("all of its {total} tasks are lost: {}", several.join("; "))),
    }
}

fn verdict_state(verdict: &JobOutcome) -> fn(Output) -> JobState {
    match verdict {
        JobOutcome::Good => JobState::Succeeded,
        JobOutcome::Bad(_) => JobState::Failed,
        JobOutcome::Stopped(_) => JobState::Cancelled,
        JobOutcome::Lost(_) => |_| JobState::Gone,
    }
}

fn message(verdict: &JobOutcome, advice: Option<String>) -> Option<String> {
    match verdict {
        JobOutcome::Good => None,
        JobOutcome::Bad(why) => Some(match advice {
            Some(advice) => format!("{why}. {advice}"),
            None => why.clone(),
        }),
        JobOutcome::Stopped(why) | JobOutcome::Lost(why) => Some(why.clone()),
    }
}

fn headline(fate: &TerminalState, verdict: &JobOutcome) -> String {
    let name = fate.state.map_or("", State::name);
    match verdict {
        JobOutcome::Good => "The job succeeded.".to_owned(),
        JobOutcome::Bad(why) => format!("The job failed: {why}{}.", in_brackets(name)),
        JobOutcome::Stopped(why) => format!("The job was {why}{}.", in_brackets(name)),
        JobOutcome::Lost(why) => format!("The job is lost: {why}."),
    }
}

fn in_brackets(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" [{name}]") }
}

/// Returns what to do next time, if the job failed because it requested too little memory or time, or because
/// of a node.
fn advice(plan: &Plan, fate: &TerminalState, verdict: &JobOutcome, usage: &Usage) -> Option<String> {
    if !matches!(verdict, JobOutcome::Bad(_)) {
        return None;
    }
    let raise = |options: &[&str]| {
        let option = options.iter().find(|option| plan.asked.contains_key(**option)).or(options.first())?;
        Some(match plan.parameters.get(*option) {
            Some(parameter) => format!("Raise `{parameter}`."),
            None => format!("Raise `--{option}`."),
        })
    };
    let state = if fate.is_out_of_memory(plan) { State::OutOfMemory } else { fate.state? };
    match state {
        State::OutOfMemory => {
            let asked = usage.asked_memory.clone().unwrap_or_else(|| "its partition's default".to_owned());
            let used = usage.max_memory.map_or_else(String::new, |used| {
                format!(" and was seen to use {}", crate::amount::size_in_words(used))
            });
            Some(format!("It asked for {asked} of memory{used}. {}", raise(&["mem", "mem-per-cpu"])?))
        }
        State::Timeout => {
            let limit = usage
                .limit
                .map_or_else(|| "its partition's default".to_owned(), crate::amount::time_in_words);
            let ran = usage.elapsed.map_or_else(String::new, |ran| {
                format!(" and ran for {}", crate::amount::time_in_words(ran))
            });
            Some(format!("It asked for {limit}{ran}. {}", raise(&["time"])?))
        }
        State::NodeFail | State::BootFail | State::LaunchFailed => {
            Some("The node is at fault, not the job: call the tool again.".to_owned())
        }
        _ => None,
    }
}

fn fate_since(fates: &BTreeMap<Option<u32>, TerminalState>) -> Option<Timestamp> {
    fates.values().filter_map(usage::ended).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::accounting_text;

    #[test]
    fn array_loss_reasons_are_deduplicated() {
        let lost = |why: &str| JobOutcome::Lost(why.to_owned());
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
        let told = |over_for| {
            let records = accounting_text::records("7|COMPLETED|0:0|1|1|2|20|60||00:01|1|4G|n1|tb-a\n");
            let facts = TerminalEvidence { records, over_for, ..TerminalEvidence::default() };
            conclude(&plan, &facts, &folder, 7, Duration::ZERO)
        };
        let Conclusion::NotYet(seen) = told(READ_WITHIN - Duration::from_secs(1)) else {
            panic!("its result may come back")
        };
        assert_eq!(seen.state, JobState::Running);
        let words =
            "it has ended; /proc/self/mem cannot be read: Input/output error (os error 5). It is tried again";
        assert_eq!(seen.message.as_deref(), Some(words));
        let Conclusion::Ended(seen, _) = told(READ_WITHIN) else { panic!("it has ended") };
        let JobState::Succeeded(output) = seen.state else { panic!("{:?}", seen.state) };
        let words = "The result `mem` cannot be read: Input/output error (os error 5).";
        assert!(output.content.contains(&Content::text(words)), "{output:?}");
    }

    /// A working folder of the user that is missing is waited for, and one in our own folder is not.
    #[test]
    fn unmounted_result_folder_is_retried() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, root) = (Folder::new(dir.path(), "tb-a"), dir.path().join("scratch"));
        let result = Some("out.json".to_owned());
        let told = |plan: &Plan, over_for| {
            let records = accounting_text::records("7|COMPLETED|0:0|1|1|2|20|60||00:01|1|4G|n1|tb-a\n");
            let facts = TerminalEvidence { records, over_for, ..TerminalEvidence::default() };
            match conclude(plan, &facts, &folder, 7, Duration::ZERO) {
                Conclusion::NotYet(seen) => Err(seen.message.unwrap()),
                Conclusion::Ended(Observation { state: JobState::Succeeded(output), .. }, _) => Ok(output),
                Conclusion::Ended(seen, _) => panic!("{seen:?}"),
            }
        };
        let named = |output: &Output| {
            output.content.contains(&Content::text(format!(
            "{}, where its script ran, cannot be read: No such file or directory (os error 2). Is its file system mounted here?",
            root.display()
        )))
        };
        let plan = |root: &std::path::Path| Plan { root: root.to_owned(), ..Plan::default() };
        for plan in [
            Plan { result: result.clone(), ..plan(&root) },
            Plan { artifacts: vec!["*.csv".to_owned()], ..plan(&root) },
        ] {
            let why = told(&plan, READ_WITHIN - Duration::from_secs(1)).unwrap_err();
            assert!(why.contains("scratch, where its script ran, is not there. It is tried again"), "{why}");
            let output = told(&plan, READ_WITHIN).unwrap();
            assert!(named(&output), "{output:?}");
        }
        // Nothing needs to be read from it, or the script removed one of our folders.
        assert!(!named(&told(&plan(&root), Duration::ZERO).unwrap()));
        let ours = Plan { result: result.clone(), ..plan(&folder.work()) };
        assert_eq!(told(&ours, Duration::ZERO).unwrap().structured, None);
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("out.json"), "7").unwrap();
        let back = told(&Plan { result, ..plan(&root) }, Duration::ZERO).unwrap();
        assert_eq!(back.structured, Some(json!(7)));
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
        let facts = TerminalEvidence {
            records: accounting_text::records(text),
            over_for: Duration::from_secs(30),
            ..TerminalEvidence::default()
        };
        let folder = Folder::new(dir.path(), "tb-a");
        let Conclusion::Ended(seen, _) = conclude(&plan, &facts, &folder, 7, Duration::ZERO) else {
            panic!("it has ended")
        };
        assert_eq!(
            seen.message.as_deref(),
            Some(
                "it used more memory than it had asked for. It asked for 4G of memory and was seen to use 4.0 GB. Raise \
                 `memory`."
            )
        );
        let JobState::Failed(output) = seen.state else { panic!("{:?}", seen.state) };
        let Content::Text { text } = &output.content[0] else { panic!("{output:?}") };
        assert!(text.contains("max memory 4.0 GB of 4 GB, CPU efficiency 8 % of 2, on n1"), "{text}");
    }
}
