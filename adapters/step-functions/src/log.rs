//! An execution's history as a log: one line for each thing that happened. What the steps of it print lies elsewhere, and
//! is not in here.

use taskbridge_sdk::{LogRequest, LogText, Result};

use crate::api::Api;
use crate::failure::one_line;
use crate::history::{Happened, MOST_PAGES, PAGE};

/// The end of the log of an execution.
pub(crate) async fn tail(api: &Api, arn: &str, request: &LogRequest) -> Result<LogText> {
    let search = request.search.as_ref().map(|search| search.to_lowercase());
    let (mut lines, mut bytes, mut page, mut more) = (Vec::new(), 0, None, true);
    for _ in 0..MOST_PAGES {
        let answer = match api.history(arn, PAGE, true, page).await {
            Err(failure) if failure.is("ExecutionDoesNotExist") => return Ok(LogText::default()),
            answer => answer?,
        };
        for event in &answer.events {
            let line = line(&Happened::from(event));
            if search.as_ref().is_none_or(|search| line.to_lowercase().contains(search)) {
                bytes += line.len() + 1;
                lines.push(line);
            }
        }
        page = answer.next_token;
        more = page.is_some();
        if !more || bytes > request.max_bytes {
            break;
        }
    }
    lines.reverse();
    let (text, cut) = last_lines(&lines, request.max_bytes);
    Ok(LogText { text, cut: cut || more })
}

/// How many bytes an event adds to the log.
pub(crate) fn length(event: &Happened) -> u64 {
    u64::try_from(line(event).len() + 1).unwrap_or(u64::MAX)
}

/// One thing that happened, as a line.
fn line(event: &Happened) -> String {
    let words = words(event);
    match event.at {
        Some(at) => format!("{at} {words}"),
        None => words,
    }
}

fn words(event: &Happened) -> String {
    let name = event.name.as_deref().unwrap_or_default();
    let number = event.number.unwrap_or_default();
    let what = match event.kind.as_str() {
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
        kind => in_words(kind),
    };
    let why: Vec<&str> = [&event.error, &event.cause].into_iter().flatten().map(String::as_str).collect();
    if why.is_empty() { what } else { one_line(&format!("{what}: {}", why.join(": "))) }
}

/// `LambdaFunctionTimedOut` as `lambda function timed out`.
fn in_words(kind: &str) -> String {
    let mut words = String::new();
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The last whole lines that fit; the end of the last line if it alone does not.
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

    fn event(kind: &str, name: &str) -> Happened {
        let name = (!name.is_empty()).then(|| name.to_owned());
        Happened { kind: kind.to_owned(), name, at: Some(Timestamp::from_millis(0)), ..Happened::default() }
    }

    #[test]
    fn each_event_is_a_line_for_people() {
        for (kind, name, words) in [
            ("ExecutionStarted", "", "the execution started"),
            ("TaskStateEntered", "Train", "entered Train"),
            ("TaskStateExited", "Train", "left Train"),
            ("LambdaFunctionTimedOut", "", "lambda function timed out"),
            ("MapIterationSucceeded", "Each", "item 0 of Each succeeded"),
            ("SomethingNew", "", "something new"),
        ] {
            assert_eq!(line(&event(kind, name)), format!("1970-01-01T00:00:00.000Z {words}"));
        }
        let failed = Happened {
            error: Some("E".to_owned()),
            cause: Some("a\nb".to_owned()),
            ..event("TaskFailed", "")
        };
        assert!(line(&failed).ends_with(" task failed: E: a b"));
    }

    #[test]
    fn the_last_lines_that_fit_are_kept() {
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
