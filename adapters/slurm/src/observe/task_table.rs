//! The results of an array's tasks as a table: which succeeded, and why the others did not. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::driver::state::State;
use crate::notation::amount::{size_in_words, time_in_words};
use crate::observe::outcome::JobOutcome;
use crate::observe::terminal_state::TerminalState;
use crate::observe::usage::Usage;

/// Maximum number of rows of the text table. Unsuccessful tasks come first.
const MAX_ROWS: usize = 15;

/// Maximum number of tasks in the JSON table.
const MAX_JSON_ROWS: usize = 10_000;

type ByTask<T> = BTreeMap<Option<u32>, T>;

fn label(outcome: &JobOutcome) -> (&'static str, &str) {
    match outcome {
        JobOutcome::Succeeded => ("succeeded", ""),
        JobOutcome::Failed(reason) => ("failed", reason),
        JobOutcome::Cancelled(reason) => ("cancelled", reason),
        JobOutcome::Lost(reason) => ("lost", reason),
    }
}

/// Formats the table as text.
pub(crate) fn text(
    terminal_states: &ByTask<TerminalState>,
    outcomes: &ByTask<JobOutcome>,
    usages: &ByTask<Usage>,
) -> String {
    let mut tasks: Vec<_> = terminal_states.keys().collect();
    tasks.sort_by_key(|task| (outcomes[task] == JobOutcome::Succeeded, **task));
    let mut lines = vec!["task | end | why | ran for | max memory | nodes".to_owned()];
    for task in tasks.iter().take(MAX_ROWS) {
        let ((end, reason), usage) = (label(&outcomes[task]), &usages[task]);
        let number = task.map_or_else(String::new, |task| task.to_string());
        let elapsed = usage.elapsed.map(time_in_words).unwrap_or_default();
        let memory = usage.max_memory.map(size_in_words).unwrap_or_default();
        lines.push(format!(
            "{number} | {end} | {reason} | {elapsed} | {memory} | {}",
            usage.nodes.as_deref().unwrap_or_default()
        ));
    }
    if tasks.len() > MAX_ROWS {
        lines.push(format!("... and {} more", tasks.len() - MAX_ROWS));
    }
    lines.join("\n") + "\n"
}

/// Formats the table as JSON.
pub(crate) fn json(
    terminal_states: &ByTask<TerminalState>,
    outcomes: &ByTask<JobOutcome>,
    usages: &ByTask<Usage>,
) -> Value {
    let task_json = |(task, terminal_state): (&Option<u32>, &TerminalState)| {
        let (end, reason) = label(&outcomes[task]);
        let mut object = usages[task].json();
        object["task"] = json!(task);
        object["end"] = json!(end);
        object["state"] = json!(terminal_state.state.map(State::name));
        object["exit_code"] = json!(
            terminal_state
                .end_marker
                .as_ref()
                .map(|end| end.code)
                .or(terminal_state.exit.map(|exit| exit.code))
        );
        if !reason.is_empty() {
            object["why"] = json!(reason);
        }
        object
    };
    terminal_states.iter().take(MAX_JSON_ROWS).map(task_json).collect()
}
