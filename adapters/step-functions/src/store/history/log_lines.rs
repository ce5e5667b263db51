//! Events of an execution as lines of its log. Pure.

use taskbridge_sdk::{LogRequest, LogText, one_line};

use crate::store::history::ExecutionEvent;

/// End of a log, filled from the newest event backwards.
pub(crate) struct Tail {
    max_bytes: usize,
    /// In lower case.
    search: Option<String>,
    /// Lines with the ids of their events.
    lines: Vec<(i64, String)>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn new(request: &LogRequest) -> Self {
        let search = request.search.as_ref().map(|search| search.to_lowercase());
        Self { max_bytes: request.max_bytes, search, lines: Vec::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, event: &ExecutionEvent) {
        let line = line(event);
        if self.search.as_ref().is_none_or(|search| line.to_lowercase().contains(search)) {
            self.bytes += line.len() + 1;
            self.lines.push((event.id, line));
        }
    }

    /// Returns true if the lines exceed `max_bytes`, so that no older line fits.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > self.max_bytes
    }

    /// Returns the lines in order of their events. `has_older` means that older events were not read.
    pub(crate) fn text(mut self, has_older: bool) -> LogText {
        self.lines.sort_by_key(|(id, _)| *id);
        // Log delivery may duplicate events.
        self.lines.dedup_by_key(|(id, _)| *id);
        let lines: Vec<String> = self.lines.into_iter().map(|(_, line)| line).collect();
        let (text, cut) = last_lines(&lines, self.max_bytes);
        LogText { text, cut: cut || has_older }
    }
}

/// Returns the number of bytes that an event adds to the log.
pub(crate) fn length(event: &ExecutionEvent) -> u64 {
    u64::try_from(line(event).len() + 1).unwrap_or(u64::MAX)
}

/// Formats an event as a line.
fn line(event: &ExecutionEvent) -> String {
    let text = describe(event);
    match event.at {
        Some(at) => format!("{at} {text}"),
        None => text,
    }
}

fn describe(event: &ExecutionEvent) -> String {
    let name = event.name.as_deref().unwrap_or_default();
    let number = event.number.unwrap_or_default();
    let text = match event.kind.as_str() {
        "ExecutionStarted" => "the execution started".to_owned(),
        "ExecutionSucceeded" => "the execution succeeded".to_owned(),
        "ExecutionFailed" => "the execution failed".to_owned(),
        "ExecutionTimedOut" => "the execution timed out".to_owned(),
        "ExecutionAborted" => "the execution was stopped".to_owned(),
        "ExecutionRedriven" => "the execution was redriven".to_owned(),
        "MapStateStarted" => format!("a map of {number} items began"),
        "MapIterationStarted" => format!("item {number} of {name} began"),
        "MapIterationSucceeded" => format!("item {number} of {name} succeeded"),
        "MapIterationFailed" => format!("item {number} of {name} failed"),
        "MapIterationAborted" => format!("item {number} of {name} was stopped"),
        kind if kind.ends_with("StateEntered") => format!("entered {name}"),
        kind if kind.ends_with("StateExited") => format!("left {name}"),
        kind => split_camel_case(kind),
    };
    let details: Vec<&str> = [&event.error, &event.cause].into_iter().flatten().map(String::as_str).collect();
    if details.is_empty() { text } else { one_line(&format!("{text}: {}", details.join(": "))) }
}

/// Converts `LambdaFunctionTimedOut` to `lambda function timed out`.
fn split_camel_case(kind: &str) -> String {
    let mut text = String::new();
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Returns the last whole lines that fit, or the end of the last line if it does not fit. The flag is true if
/// something was cut.
fn last_lines(lines: &[String], max: usize) -> (String, bool) {
    let (mut from, mut bytes) = (lines.len(), 0);
    while from > 0 && bytes + lines[from - 1].len() < max {
        from -= 1;
        bytes += lines[from].len() + 1;
    }
    let text: String = lines[from..].iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    match lines.last() {
        Some(last) if text.is_empty() => {
            let earliest = last.len().saturating_sub(max);
            let at = (earliest..=last.len()).find(|at| last.is_char_boundary(*at)).unwrap_or(last.len());
            (last[at..].to_owned(), true)
        }
        _ => (text, from > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::Timestamp;

    fn event(kind: &str, name: &str) -> ExecutionEvent {
        let name = (!name.is_empty()).then(|| name.to_owned());
        ExecutionEvent {
            kind: kind.to_owned(),
            name,
            at: Some(Timestamp::from_millis(0)),
            ..ExecutionEvent::default()
        }
    }

    /// Each event of the history becomes one readable line with its time.
    #[test]
    fn event_becomes_readable_log_line() {
        for (kind, name, text) in [
            ("ExecutionStarted", "", "the execution started"),
            ("TaskStateEntered", "Train", "entered Train"),
            ("TaskStateExited", "Train", "left Train"),
            ("LambdaFunctionTimedOut", "", "lambda function timed out"),
            ("MapIterationSucceeded", "Each", "item 0 of Each succeeded"),
            ("SomethingNew", "", "something new"),
        ] {
            assert_eq!(line(&event(kind, name)), format!("1970-01-01T00:00:00.000Z {text}"));
        }
        let failed = ExecutionEvent {
            error: Some("E".to_owned()),
            cause: Some("a\nb".to_owned()),
            ..event("TaskFailed", "")
        };
        assert!(line(&failed).ends_with(" task failed: E: a b"));
    }

    /// The tail has each event once, in order, and reports whether lines were cut off.
    #[test]
    fn log_tail_is_ordered_and_deduplicated() {
        let request =
            |max_bytes, search: Option<&str>| LogRequest { max_bytes, search: search.map(str::to_owned) };
        let tail_of = |request: &LogRequest, has_older| {
            let mut tail = Tail::new(request);
            for (id, name) in [(3, "C"), (1, "A"), (2, "B"), (3, "C")] {
                tail.push(&ExecutionEvent { id, at: None, ..event("TaskStateEntered", name) });
            }
            tail.text(has_older)
        };
        let all = "entered A\nentered B\nentered C\n";
        assert_eq!(tail_of(&request(100, None), false), LogText { text: all.to_owned(), cut: false });
        assert_eq!(tail_of(&request(100, None), true), LogText { text: all.to_owned(), cut: true });
        assert_eq!(tail_of(&request(12, None), false), LogText { text: "entered C\n".to_owned(), cut: true });
        let expected = LogText { text: "entered B\n".to_owned(), cut: false };
        assert_eq!(tail_of(&request(100, Some("ENTERED b")), false), expected);
    }

    /// The last lines that fit into the size limit are kept, and the rest is reported as cut off.
    #[test]
    fn log_tail_keeps_last_fitting_lines() {
        let lines: Vec<String> = ["one", "two", "drei ä"].map(str::to_owned).to_vec();
        assert_eq!(last_lines(&lines, 100), ("one\ntwo\ndrei ä\n".to_owned(), false));
        assert_eq!(last_lines(&lines, 12), ("two\ndrei ä\n".to_owned(), true));
        assert_eq!(last_lines(&lines, 9), ("drei ä\n".to_owned(), true));
        assert_eq!(last_lines(&lines, 7), ("drei ä".to_owned(), true));
        assert_eq!(last_lines(&lines, 3), (" ä".to_owned(), true));
        assert_eq!(last_lines(&lines, 1), (String::new(), true));
        assert_eq!(last_lines(&[], 5), (String::new(), false));
    }
}
