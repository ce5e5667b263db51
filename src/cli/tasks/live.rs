//! Formats tasks for `taskbridge tasks watch`: the frames of a terminal, and a line for each change
//! elsewhere. Pure. Text from clients and engines is sanitized, because a terminal would execute it.

use std::collections::HashMap;

use taskbridge_sdk::{Timestamp, sanitize};

use super::print::{format_duration, strip_control, truncate};
use super::view::state as state_word;
use crate::tasks::pace::usual::UsualDuration;
use crate::tasks::task::{Outcome, Task, TaskId, TaskState};

/// Number of characters of an id in a table.
const ID_CHARS: usize = 12;
const HEADERS: [&str; 6] = ["ID", "STATE", "TOOL", "AGE", "DURATION", "MESSAGE"];
/// Lines of a frame that are no task: title and headers.
const FIXED_LINES: usize = 2;

/// What is shown of one task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    id: TaskId,
    state: TaskState,
    tool: String,
    age: String,
    /// How long its jobs usually take, and how much longer this one is expected to run.
    duration: String,
    message: String,
}

impl Row {
    /// Creates the row of a task at this time. `usual` is its tool's.
    pub(super) fn of(task: &Task, usual: Option<UsualDuration>, now: Timestamp) -> Self {
        let age = format_duration(task.ended_at.unwrap_or(now).since(task.created_at));
        let running = task.running_since().zip(usual);
        let duration = match running {
            Some((since, usual)) => usual.text_after(now.since(since)),
            None => usual.map(|usual| usual.text()).unwrap_or_default(),
        };
        let progress = task.progress.filter(|_| !task.has_ended()).map(|progress| match progress.total {
            Some(total) => format!("{} of {total}", progress.done),
            None => progress.done.to_string(),
        });
        let parts = [progress, task.status_message()].into_iter().flatten();
        let message = parts.collect::<Vec<_>>().join("  ");
        Self {
            id: task.id.clone(),
            state: task.state,
            tool: truncate(&sanitize(&task.tool)),
            age,
            duration,
            message: strip_control(&sanitize(&message)),
        }
    }

    fn cells(&self) -> [String; HEADERS.len()] {
        let id = self.id.as_str().chars().take(ID_CHARS).collect();
        let state = state_word(self.state).to_owned();
        [id, state, self.tool.clone(), self.age.clone(), self.duration.clone(), self.message.clone()]
    }

    /// Formats the row for an output that is not a terminal, without what changes all the time.
    pub(super) fn line(&self, now: Timestamp) -> String {
        let parts = [self.id.as_str(), state_word(self.state), &*self.tool, &*self.message];
        format!("{now} {}\n", parts.join("  ").trim_end())
    }
}

/// What was printed of each task: its state and message.
pub(super) type Known = HashMap<TaskId, (TaskState, String)>;

/// Returns the rows that differ from those known, apart from age and estimate, and records them. What is
/// known of tasks that are no longer listed is dropped.
pub(super) fn changes<'r>(known: &mut Known, rows: &'r [Row]) -> Vec<&'r Row> {
    let facts = |row: &Row| (row.state, row.message.clone());
    let changed: Vec<&Row> = rows.iter().filter(|row| known.get(&row.id) != Some(&facts(row))).collect();
    *known = rows.iter().map(|row| (row.id.clone(), facts(row))).collect();
    changed
}

/// Formats a frame of at most `height` lines: a title, then the rows that fit.
pub(super) fn frame(rows: &[Row], title: &str, height: usize, colors: bool) -> Vec<String> {
    let fitting = height.saturating_sub(FIXED_LINES);
    let hidden = rows.len().saturating_sub(fitting);
    let mut title = format!("{}; {}", counts(rows), strip_control(title));
    if hidden > 0 {
        title.push_str(&format!("; {hidden} more do not fit"));
    }
    let shown: Vec<[String; 6]> = rows.iter().take(fitting).map(Row::cells).collect();
    let headers = HEADERS.map(str::to_owned);
    let width = |column: usize| {
        let cells = std::iter::once(&headers).chain(&shown).map(|cells| cells[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut lines = vec![paint(&title, "1", colors), paint(&aligned(&headers, widths, None), "2", colors)];
    lines.extend(rows.iter().zip(&shown).map(|(row, cells)| {
        let color = Some(color(row.state)).filter(|_| colors);
        aligned(cells, widths, color)
    }));
    lines
}

fn aligned(cells: &[String; 6], widths: [usize; 6], state_color: Option<&str>) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        // Colors have no width, so the cell is padded first.
        let padded = format!("{cell:width$}");
        match state_color.filter(|_| column == 1) {
            Some(color) => line.push_str(&paint(&padded, color, true)),
            None => line.push_str(&padded),
        }
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

/// Returns how many tasks are in which state: `2 working, 1 input_required, 7 ended`.
fn counts(rows: &[Row]) -> String {
    let count = |is: fn(TaskState) -> bool| rows.iter().filter(|row| is(row.state)).count();
    let ended = count(|state| matches!(state, TaskState::Ended(_)));
    let asks = count(|state| state == TaskState::InputRequired);
    format!("{} working, {asks} input_required, {ended} ended", rows.len() - ended - asks)
}

/// Returns the color of a state, as the parameter of a control sequence (ECMA-48, 8.3.117).
fn color(state: TaskState) -> &'static str {
    match state {
        TaskState::Working => "36",
        TaskState::InputRequired => "33",
        TaskState::Ended(Outcome::Succeeded) => "32",
        TaskState::Ended(Outcome::Failed | Outcome::Broken) => "31",
        TaskState::Ended(Outcome::Cancelled) => "2",
    }
}

fn paint(text: &str, color: &str, colors: bool) -> String {
    if colors { format!("\u{1b}[{color}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::suite::task;
    use crate::tasks::task::Job;

    fn running(n: u32, message: &str) -> Task {
        let at = Timestamp::from_millis(0);
        let job = Job::Open {
            handle: taskbridge_sdk::JobHandle::new("7"),
            group: taskbridge_sdk::GroupKey::new("g"),
            started_at: at,
        };
        Task { job, message: Some(message.to_owned()), ..task(n, at) }
    }

    fn usual() -> Option<UsualDuration> {
        UsualDuration::of([4, 4, 4, 5, 6].map(|minutes| Duration::from_secs(60 * minutes)))
    }

    /// A frame has the counts, the facts of each task, and no more lines than the terminal.
    #[test]
    fn frame_fits_terminal() {
        let now = Timestamp::from_millis(60_000);
        let rows: Vec<Row> = (0..5).map(|n| Row::of(&running(n, "packing"), usual(), now)).collect();
        let lines = frame(&rows, "tasks.db", 4, false);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "5 working, 0 input_required, 0 ended; tasks.db; 3 more do not fit");
        assert!(
            lines[2].ends_with("working  build  60s  usually 4 to 6 min, about 3 min left  packing"),
            "{lines:#?}"
        );
        assert!(frame(&rows, "", 0, true).iter().all(|line| line.contains('\u{1b}')));
    }

    /// Ended tasks show how long they took, and colors are off where they are not wanted.
    #[test]
    fn ended_row_shows_its_duration() {
        let (begin, end) = (Timestamp::from_millis(0), Timestamp::from_millis(90_000));
        let ended =
            Task { state: TaskState::Ended(Outcome::Failed), ended_at: Some(end), ..running(1, "no space") };
        let row = Row::of(&ended, usual(), begin + Duration::from_secs(9_000));
        let plain = frame(std::slice::from_ref(&row), "x", 9, false).join("\n");
        assert!(plain.contains("failed  build  90s  usually 4 to 6 min  no space"), "{plain}");
        assert!(!plain.contains('\u{1b}'));
        assert!(frame(&[row], "x", 9, true)[2].contains("\u{1b}[31mfailed\u{1b}[0m"));
    }

    /// A change of state or message is a line; the passing time is none.
    #[test]
    fn only_changes_are_lines() {
        let mut known = HashMap::new();
        let rows_at =
            |message: &str, ms| vec![Row::of(&running(1, message), usual(), Timestamp::from_millis(ms))];
        let first = rows_at("a", 1_000);
        assert_eq!(changes(&mut known, &first).len(), 1);
        assert!(changes(&mut known, &rows_at("a", 200_000)).is_empty());
        let second = rows_at("b\u{1b}[2J\nc\u{202E}", 201_000);
        let changed = changes(&mut known, &second);
        assert_eq!(changed.len(), 1);
        let line = changed[0].line(Timestamp::from_millis(0));
        assert!(line.starts_with("1970-01-01T00:00:00") && line.ends_with("working  build  b c\n"), "{line}");
        assert!(changes(&mut known, &[]).is_empty() && known.is_empty());
    }
}
