//! How a job ended, for the client: whether it did well, why not and what to change, what it used, the ends of its logs, its result
//! and its artifacts. It reads the job's folder and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{Content, JobState, Observation, Output, Timestamp};

use crate::driver::JobId;
use crate::end::Run;
use crate::fate::{Accounting, Facts, Fate, Verdict, fates};
use crate::folder::{Folder, Stream};
use crate::plan::Plan;
use crate::state::State;
use crate::usage::{self, Usage};
use crate::{artifacts, log, table};

/// The most bytes of a result's file.
const RESULT_BYTES: u64 = 1024 * 1024;

/// The most bytes of each log in a result.
const LOG_BYTES: usize = 4 * 1024;

/// The most tasks whose logs are in a result: those that failed.
const TASK_LOGS: usize = 5;

/// Whether it is known how a job ended.
pub(crate) enum Conclusion {
    NotYet(Observation),
    /// With the runs that were lost before they began: they must never begin.
    Ended(Observation, Vec<Run>),
}

/// Concludes from all that is known of a job that nothing waits or runs of any more.
pub(crate) fn conclude(
    plan: &Plan,
    facts: &Facts,
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
    // The accounting knows how much memory was used, a moment later.
    let accounted = fates
        .values()
        .filter(|fate| fate.began)
        .all(|fate| fate.record.as_ref().is_some_and(|r| r.has_ended()));
    if !accounted && (facts.accounting == Accounting::NotAsked || facts.asked_for < patience) {
        return not_yet("it has ended; its accounting is waited for");
    }
    let never_began = fates
        .iter()
        .filter(|(task, fate)| !fate.began && matches!(verdicts[task], Verdict::Lost(_)))
        .map(|(task, fate)| Run { task: *task, restart: fate.restarts })
        .collect();
    let seen = match plan.array {
        Some(_) => array(plan, &fates, &verdicts, folder, job),
        None => single(plan, &fates, &verdicts, folder, job),
    };
    Conclusion::Ended(seen, never_began)
}

fn not_yet(why: &str) -> Conclusion {
    Conclusion::NotYet(Observation::new(JobState::Running).with_message(why))
}

fn single(
    plan: &Plan,
    fates: &BTreeMap<Option<u32>, Fate>,
    verdicts: &BTreeMap<Option<u32>, Verdict>,
    folder: &Folder,
    job: JobId,
) -> Observation {
    let (Some(fate), Some(verdict)) = (fates.values().next(), verdicts.values().next()) else {
        return Observation::new(JobState::Gone);
    };
    let usage = Usage::of(plan, fate);
    let mut lines = vec![headline(fate, verdict)];
    lines.extend(usage.lines());
    let advice = advice(plan, fate, verdict, &usage);
    lines.extend(advice.clone());
    if fate.restarts > 0 {
        lines.push(format!("Slurm put it back into the queue; this was run {}.", fate.restarts + 1));
    }
    let mut summary = usage.json();
    summary["job"] = json!(job);
    summary["state"] = json!(fate.state.map(State::name));
    summary["exit_code"] = json!(fate.end.as_ref().map(|end| end.code).or(fate.exit.map(|exit| exit.code)));
    let mut output = Output { content: vec![Content::text(lines.join("\n"))], ..Output::default() };
    if plan.attached.is_none() {
        for stream in [Stream::Out, Stream::Err] {
            push_log(&mut output, &folder.log(stream, None), stream, None);
        }
    }
    finish(plan, output, summary, verdict_state(verdict), message(verdict, advice), fate_since(fates))
}

fn array(
    plan: &Plan,
    fates: &BTreeMap<Option<u32>, Fate>,
    verdicts: &BTreeMap<Option<u32>, Verdict>,
    folder: &Folder,
    job: JobId,
) -> Observation {
    let total = fates.len();
    let count = |wanted: fn(&Verdict) -> bool| verdicts.values().filter(|verdict| wanted(verdict)).count();
    let good = count(|verdict| *verdict == Verdict::Good);
    let stopped = count(|verdict| matches!(verdict, Verdict::Stopped(_)));
    let lost = count(|verdict| matches!(verdict, Verdict::Lost(_)));
    let bad = total - good - stopped - lost;
    let mut words = format!("{good} of {total} tasks succeeded");
    for (number, what) in [(bad, "failed"), (stopped, "were cancelled"), (lost, "were lost")] {
        if number > 0 {
            words.push_str(&format!(", {number} {what}"));
        }
    }
    let overall = match () {
        () if good == total => Verdict::Good,
        () if lost == total => all_lost(verdicts.values()),
        () if stopped > 0 && bad == 0 && lost == 0 => Verdict::Stopped(words.clone()),
        () => Verdict::Bad(words.clone()),
    };
    let usages: BTreeMap<Option<u32>, Usage> =
        fates.iter().map(|(task, fate)| (*task, Usage::of(plan, fate))).collect();
    let mut text = format!("{words}.\n\n{}", table::text(fates, verdicts, &usages));
    let advice = fates.iter().find_map(|(task, fate)| advice(plan, fate, &verdicts[task], &usages[task]));
    if let Some(advice) = &advice {
        text.push_str(&format!("\n{advice}"));
    }
    let mut output = Output { content: vec![Content::text(text)], ..Output::default() };
    let failed = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Bad(_) | Verdict::Lost(_)));
    for (task, _) in failed.take(TASK_LOGS) {
        for stream in [Stream::Out, Stream::Err] {
            push_log(&mut output, &folder.log(stream, *task), stream, *task);
        }
    }
    if good == total {
        push_log(
            &mut output,
            &folder.log(Stream::Out, fates.keys().next().copied().flatten()),
            Stream::Out,
            fates.keys().next().copied().flatten(),
        );
    }
    let summary = json!({
        "job": job, "succeeded": good, "failed": bad, "cancelled": stopped, "lost": lost, "total": total,
        "tasks": table::json(fates, verdicts, &usages),
    });
    let state = verdict_state(&overall);
    finish(plan, output, summary, state, message(&overall, advice), fate_since(fates))
}

/// Why all tasks of an array are lost. One reason for all, as after a crash of the controller, says more than their number.
fn all_lost<'a>(verdicts: impl ExactSizeIterator<Item = &'a Verdict>) -> Verdict {
    let total = verdicts.len();
    let reasons: BTreeSet<&str> = verdicts
        .filter_map(|verdict| match verdict {
            Verdict::Lost(why) => Some(why.as_str()),
            Verdict::Good | Verdict::Bad(_) | Verdict::Stopped(_) => None,
        })
        .collect();
    match Vec::from_iter(reasons).as_slice() {
        [one] => Verdict::Lost((*one).to_owned()),
        several => Verdict::Lost(format!("all of its {total} tasks are lost: {}", several.join("; "))),
    }
}

fn finish(
    plan: &Plan,
    mut output: Output,
    summary: Value,
    state: fn(Output) -> JobState,
    message: Option<String>,
    since: Option<Timestamp>,
) -> Observation {
    let mut notes = Vec::new();
    output.structured = match &plan.result {
        None => Some(summary),
        Some(name) => match result(plan, name) {
            Ok(value) => value,
            Err(why) => {
                notes.push(why);
                None
            }
        },
    };
    let found = artifacts::list(plan);
    notes.extend(found.left_out);
    output.artifacts = found.artifacts;
    output.content.extend((!notes.is_empty()).then(|| Content::text(notes.join("\n"))));
    let mut seen = Observation::new(state(output));
    (seen.message, seen.since) = (message, since);
    seen
}

/// The result that the script wrote; `None` if it wrote none.
fn result(plan: &Plan, name: &str) -> Result<Option<Value>, String> {
    let unreadable = |why: String| format!("The result `{name}` {why}.");
    let file = match artifacts::open_within(plan, name) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(None),
        Err(e) => return Err(unreadable(format!("cannot be read: {e}"))),
    };
    let mut bytes = Vec::new();
    file.take(RESULT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > RESULT_BYTES {
        return Err(unreadable(format!("is larger than {RESULT_BYTES} bytes")));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|e| unreadable(format!("is no JSON: {e}")))
}

fn verdict_state(verdict: &Verdict) -> fn(Output) -> JobState {
    match verdict {
        Verdict::Good => JobState::Succeeded,
        Verdict::Bad(_) => JobState::Failed,
        Verdict::Stopped(_) => JobState::Cancelled,
        Verdict::Lost(_) => |_| JobState::Gone,
    }
}

fn message(verdict: &Verdict, advice: Option<String>) -> Option<String> {
    match verdict {
        Verdict::Good => None,
        Verdict::Bad(why) => Some(match advice {
            Some(advice) => format!("{why}. {advice}"),
            None => why.clone(),
        }),
        Verdict::Stopped(why) | Verdict::Lost(why) => Some(why.clone()),
    }
}

fn headline(fate: &Fate, verdict: &Verdict) -> String {
    let name = fate.state.map_or("", State::name);
    match verdict {
        Verdict::Good => "The job succeeded.".to_owned(),
        Verdict::Bad(why) => format!("The job failed: {why}{}.", in_brackets(name)),
        Verdict::Stopped(why) => format!("The job was {why}{}.", in_brackets(name)),
        Verdict::Lost(why) => format!("The job is lost: {why}."),
    }
}

fn in_brackets(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" [{name}]") }
}

/// What to ask for next time, where what was asked for was too little.
fn advice(plan: &Plan, fate: &Fate, verdict: &Verdict, usage: &Usage) -> Option<String> {
    if !matches!(verdict, Verdict::Bad(_)) {
        return None;
    }
    let raise = |options: &[&str]| {
        let option = options.iter().find(|option| plan.asked.contains_key(**option)).or(options.first())?;
        Some(match plan.parameters.get(*option) {
            Some(parameter) => format!("Raise `{parameter}`."),
            None => format!("Raise `--{option}`."),
        })
    };
    match fate.state? {
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
        _ => None,
    }
}

fn fate_since(fates: &BTreeMap<Option<u32>, Fate>) -> Option<Timestamp> {
    fates.values().filter_map(usage::ended).max()
}

fn push_log(output: &mut Output, path: &Path, stream: Stream, task: Option<u32>) {
    let Ok(tail) = log::tail(path, LOG_BYTES) else { return };
    if tail.text.trim().is_empty() {
        return;
    }
    let what = match stream {
        Stream::Out => "standard output",
        Stream::Err => "standard error",
    };
    let whose = task.map_or_else(String::new, |task| format!(" of task {task}"));
    let part = if tail.cut { "The end of the" } else { "The" };
    output.content.push(Content::text(format!("{part} {what}{whose}:\n{}", tail.text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::accounting_text;

    #[test]
    fn why_an_array_is_lost_is_told_once_for_each_reason() {
        let lost = |why: &str| Verdict::Lost(why.to_owned());
        assert_eq!(all_lost([lost("a"), lost("a")].iter()), lost("a"));
        let several = all_lost([lost("b"), lost("a"), lost("b")].iter());
        assert_eq!(several, lost("all of its 3 tasks are lost: a; b"));
    }

    #[test]
    fn out_of_memory_in_a_recorded_accounting_says_what_to_raise() {
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
        let facts = Facts {
            records: accounting_text::records(text),
            over_for: Duration::from_secs(30),
            ..Facts::default()
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
