//! The results of an array's tasks as a table: which succeeded, and why the others did not. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::amount::{size_in_words, time_in_words};
use crate::state::State;
use crate::terminal_state::{JobOutcome, TerminalState};
use crate::usage::Usage;

/// Maximum number of rows of the text table. Unsuccessful tasks come first.
const ROWS: usize = 15;

/// Maximum number of tasks in the JSON table.
const MOST: usize = 10_000;

type Of<T> = BTreeMap<Option<u32>, T>;

fn words(verdict: &JobOutcome) -> (&'static str, &str) {
    match verdict {
        JobOutcome::Good => ("succeeded", ""),
        JobOutcome::Bad(why) => ("failed", why),
        JobOutcome::Stopped(why) => ("cancelled", why),
        JobOutcome::Lost(why) => ("lost", why),
    }
}

/// Formats the table as text.
pub(crate) fn text(fates: &Of<TerminalState>, verdicts: &Of<JobOutcome>, usages: &Of<Usage>) -> String {
    let mut tasks: Vec<_> = fates.keys().collect();
    tasks.sort_by_key(|task| (verdicts[task] == JobOutcome::Good, **task));
    let mut lines = vec!["task | end | why | ran for | max memory | nodes".to_owned()];
    for task in tasks.iter().take(ROWS) {
        let ((end, why), usage) = (words(&verdicts[task]), &usages[task]);
        let number = task.map_or_else(String::new, |task| task.to_string());
        let ran = usage.elapsed.map(time_in_words).unwrap_or_default();
        let memory = usage.max_memory.map(size_in_words).unwrap_or_default();
        lines.push(format!(
            "{number} | {end} | {why} | {ran} | {memory} | {}",
            usage.nodes.as_deref().unwrap_or_default()
        ));
    }
    if tasks.len() > ROWS {
        lines.push(format!("... and {} more", tasks.len() - ROWS));
    }
    lines.join("\n") + "\n"
}

/// Formats the table as JSON.
pub(crate) fn json(fates: &Of<TerminalState>, verdicts: &Of<JobOutcome>, usages: &Of<Usage>) -> Value {
    let tell = |(task, fate): (&Option<u32>, &TerminalState)| {
        let (end, why) = words(&verdicts[task]);
        let mut told = usages[task].json();
        told["task"] = json!(task);
        told["end"] = json!(end);
        told["state"] = json!(fate.state.map(State::name));
        told["exit_code"] = json!(fate.end.as_ref().map(|end| end.code).or(fate.exit.map(|exit| exit.code)));
        if !why.is_empty() {
            told["why"] = json!(why);
        }
        told
    };
    fates.iter().take(MOST).map(tell).collect()
}
