//! Formats tasks and their histories as text for people. Pure. Control characters in text from clients and
//! engines are removed, because a terminal would execute them.

use std::fmt::Write as _;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::view::TaskView;
use crate::tasks::history::{AnswerKind, EngineOperation, Fact, HistoryEntry};

/// Number of characters of an id in a table.
const ID_CHARS: usize = 12;

/// Maximum column width, so that one long name does not distort the table.
const MAX_COLUMN_CHARS: usize = 32;

const HEADERS: [&str; 8] = ["ID", "STATE", "JOB", "TOOL", "BACKEND", "OWNER", "AGE", "DUE"];

/// Formats a table with one line per task, in aligned columns.
pub(super) fn table(views: &[TaskView], now: Timestamp) -> String {
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(views.iter().map(|view| {
        [
            view.id.chars().take(ID_CHARS).collect(),
            view.state.to_owned(),
            view.job.to_owned(),
            truncate(&view.tool),
            truncate(&view.backend),
            truncate(&view.owner),
            format_duration(now.since(view.created_at)),
            due(view, now),
        ]
    }));
    let notes = std::iter::once("NOTE".to_owned()).chain(views.iter().map(note));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for (row, note) in rows.iter().zip(notes) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        line.push_str(&note);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats what blocks a task, or the operation in progress.
fn note(view: &TaskView) -> String {
    if let Some(trouble) = &view.trouble {
        return format!("trouble: {}", truncate(&trouble.reason));
    }
    match (&view.cancel, view.job) {
        (Some(cancel), "open") if cancel.unsupported => "cannot be stopped".to_owned(),
        (Some(cancel), "open" | "starting") if !cancel.taken => "to be cancelled".to_owned(),
        (Some(_), "open") => "stopping".to_owned(),
        (_, "queued") => format!("waits for {}", truncate(&view.slots.join(", "))),
        _ => String::new(),
    }
}

fn due(view: &TaskView, now: Timestamp) -> String {
    match view.due_at {
        None => "-".to_owned(),
        Some(due) if due <= now => "now".to_owned(),
        Some(due) => format!("in {}", format_duration(due.since(now))),
    }
}

/// Replaces control characters by spaces.
pub(super) fn strip_control(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub(super) fn truncate(text: &str) -> String {
    let text = strip_control(text);
    if text.chars().count() <= MAX_COLUMN_CHARS {
        return text;
    }
    text.chars().take(MAX_COLUMN_CHARS - 1).chain(['…']).collect()
}

/// Formats an approximate duration: 340ms, 12s, 5m, 3h, 9d.
pub(super) fn format_duration(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{}ms", span.as_millis()),
        s @ 1..120 => format!("{s}s"),
        s @ 120..7_200 => format!("{}m", s / 60),
        s @ 7_200..172_800 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// Formats all fields of one task.
pub(super) fn task(view: &TaskView, now: Timestamp) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<11} {}", strip_control(&value));
    };
    let at = |at: Timestamp| format!("{at} ({} ago)", format_duration(now.since(at)));
    line("task", view.id.clone());
    line("state", view.state.to_owned());
    let attempts = view.attempts.map(|n| format!(", {}", count_text(n, "attempt"))).unwrap_or_default();
    line("job", format!("{}{attempts}", view.job));
    line("tool", view.tool.clone());
    line("backend", view.backend.clone());
    line("owner", view.owner.clone());
    line("key", view.key.clone());
    if let Some(handle) = &view.handle {
        line("handle", handle.clone());
    }
    if let Some(group) = view.group.as_ref().filter(|group| !group.is_empty()) {
        line("group", group.clone());
    }
    line("created", at(view.created_at));
    line("changed", at(view.changed_at));
    if let Some(ended) = view.ended_at {
        line("ended", at(ended));
    }
    if let Some(expires) = view.expires_at {
        line("expires", expires.to_string());
    }
    match view.due_at {
        Some(due) => line("due", format!("{due} ({})", self::due(view, now))),
        None => line("due", "no pending action".to_owned()),
    }
    if let Some(message) = &view.message {
        line("message", message.clone());
    }
    if let Some(progress) = view.progress {
        line("progress", progress_text(progress.done, progress.total));
    }
    if !view.slots.is_empty() {
        line("slots", view.slots.join(", "));
    }
    if let Some(trouble) = &view.trouble {
        line("trouble", format!("{}, since {}", trouble.reason, at(trouble.since)));
    }
    if let Some(cancel) = &view.cancel {
        let engine_state = match (cancel.unsupported, cancel.taken) {
            (true, _) => "the engine cannot stop the job",
            (false, true) => "accepted by the engine",
            (false, false) => "not accepted by the engine yet",
        };
        let failed = count_text(cancel.failed, "time");
        line("cancel", format!("requested {}; {engine_state}; failed {failed}", at(cancel.at)));
    }
    for question in &view.questions {
        let mut description =
            format!("{}, asked by the {} {}", question.status, question.asker, at(question.at));
        if let Some(by) = &question.answered_by {
            description.push_str(&format!(", answered by {by}"));
        }
        line(&format!("question {}", question.key), description);
    }
    if let Some(lease) = &view.lease {
        line("lease", format!("{} until {}", lease.replica, lease.until));
    }
    line("result", if view.result_kept { "kept" } else { "none" }.to_owned());
    line("version", view.version.to_string());
    text
}

/// "1 time", "2 times"
fn count_text(n: impl Into<u64>, unit: &str) -> String {
    let n: u64 = n.into();
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

fn progress_text(done: f64, total: Option<f64>) -> String {
    total.map_or_else(|| done.to_string(), |total| format!("{done} of {total}"))
}

/// Formats a history, one line per entry.
pub(super) fn history(entries: &[HistoryEntry], history_enabled: bool) -> String {
    if entries.is_empty() {
        let reason = if history_enabled { "" } else { ": [store] history is \"0s\"" };
        return format!("\nno history{reason}\n");
    }
    let width = entries.iter().map(|entry| entry.transition.replica.chars().count()).max().unwrap_or(0);
    let mut text = format!("\n{:<24}  {:>4}  {:width$}  {}\n", "TIME", "ROW", "REPLICA", "WHAT");
    for entry in entries {
        let transition = &entry.transition;
        let call = transition.call.map(|call| {
            let operation = match call.to {
                EngineOperation::Start => "start",
                EngineOperation::Find => "find",
                EngineOperation::Look => "look",
                EngineOperation::Cancel => "cancel",
                EngineOperation::Answer => "answer",
            };
            format!("  [{operation}: {} ms]", call.ms)
        });
        let facts: Vec<String> = transition.what.iter().map(describe_fact).collect();
        let _ = writeln!(
            text,
            "{}  {:>4}  {:width$}  {}{}",
            entry.at,
            entry.version,
            strip_control(&transition.replica),
            strip_control(&facts.join("; ")),
            call.unwrap_or_default(),
        );
    }
    text
}

fn describe_fact(fact: &Fact) -> String {
    match fact {
        Fact::Created { owner, tool, backend } => {
            format!("created: {tool} on {backend}, for {}", owner.as_str())
        }
        Fact::Queued => "waits for a free slot".to_owned(),
        Fact::Attempt(n) => format!("start attempt {n}"),
        Fact::TakenBack => "the start was not sent".to_owned(),
        Fact::StartFailed { attempt, kind } => format!("start attempt {attempt} failed: {kind}"),
        Fact::NotFound => "not found in the engine".to_owned(),
        Fact::FindFailed { kind } => format!("the search for the job failed: {kind}"),
        Fact::Accepted(handle) => format!("accepted by the engine as {handle}"),
        Fact::Progress(progress) => format!("progress {}", progress_text(progress.done, progress.total)),
        Fact::LooksFail { kind } => format!("the job cannot be polled: {kind}"),
        Fact::LooksAgain => "the job can be polled again".to_owned(),
        Fact::Asked(key) => format!("question {key} asked"),
        Fact::Sent(key) => format!("question {key} sent to a client"),
        Fact::Answered { key, how, by } => {
            let how = match how {
                AnswerKind::Accepted => "answered",
                AnswerKind::Declined => "declined",
                AnswerKind::Dismissed => "dismissed",
            };
            match by {
                Some(by) => format!("question {key} {how} by {}", by.as_str()),
                None => format!("question {key} {how}"),
            }
        }
        Fact::AnswerTaken(key) => format!("the engine accepted the answer to {key}"),
        Fact::AnswerTooLate(key) => format!("the answer to {key} came too late"),
        Fact::AnswerFailed { key, times, kind } => {
            format!("the answer to {key} could not be delivered (failure {times}): {kind}")
        }
        Fact::Withdrawn(key) => format!("question {key} withdrawn"),
        Fact::CancelWished => "cancellation requested".to_owned(),
        Fact::CancelTaken => "the engine accepted the cancellation".to_owned(),
        Fact::CancelFailed { times, kind } => {
            format!("the engine did not accept the cancellation (failure {times}): {kind}")
        }
        Fact::RetryWished => "retry requested by an operator, or poll requested by a hook".to_owned(),
        Fact::OutcomeUnknown => "abandoned by an operator: the outcome is unknown".to_owned(),
        Fact::DeadlinePassed => {
            "a deadline passed: max_wait or start_within before the start, max_runtime after it".to_owned()
        }
        Fact::CallerGone => "the waiting caller disconnected".to_owned(),
        Fact::JobOver => "no action on the engine is pending".to_owned(),
        Fact::Ended(outcome) => format!("ended: {}", outcome.as_str()),
        Fact::ResultRead { by } => format!("result read by {}", by.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_in_one_unit() {
        let text = |ms| format_duration(Duration::from_millis(ms));
        let all = [0, 340, 1_000, 119_000, 120_000, 7_199_000, 7_200_000, 172_800_000].map(text);
        assert_eq!(all, ["0ms", "340ms", "1s", "119s", "2m", "119m", "2h", "2d"]);
    }

    /// Escape sequences are removed from names, and long names are cut.
    #[test]
    fn long_names_are_cut_for_terminal() {
        assert_eq!(truncate("deploy\u{1b}[2J"), "deploy [2J");
        assert_eq!(truncate(&"ä".repeat(33)).chars().count(), MAX_COLUMN_CHARS);
        assert_eq!(truncate(&"ä".repeat(32)), "ä".repeat(32));
    }
}
