//! Words and numbers for people: text of engines and callers without what steers a display, states,
//! durations, and which addresses may be links. It must not escape: `maud` does.

use std::time::Duration;

use taskbridge_sdk::{is_page_link, sanitize};

use crate::tasks::task::{Outcome, Task, TaskState};

/// Returns text of an engine or a caller without control characters, escape sequences and overrides of the
/// text direction.
pub fn clean(text: &str) -> String {
    sanitize(text).into_owned()
}

/// Returns the beginning of a text as one line.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let text = clean(text).replace(['\n', '\r', '\t'], " ");
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Returns a duration in its largest unit.
pub fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => "less than 1 s".to_owned(),
        1..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns a duration with two units, and milliseconds below ten seconds.
pub fn exact(duration: Duration) -> String {
    let (millis, seconds) = (duration.as_millis(), duration.as_secs());
    match seconds {
        0 => format!("{millis} ms"),
        1..=9 => format!("{}.{} s", seconds, millis % 1_000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The words for a state: a class of the style sheet, and the text.
pub fn state_words(task: &Task) -> (&'static str, &'static str) {
    match task.state {
        TaskState::InputRequired => ("asks", "needs an answer"),
        TaskState::Ended(Outcome::Succeeded) => ("succeeded", "succeeded"),
        TaskState::Ended(Outcome::Failed) => ("failed", "failed"),
        TaskState::Ended(Outcome::Cancelled) => ("cancelled", "cancelled"),
        TaskState::Ended(Outcome::Broken) => ("broken", "broken"),
        TaskState::Working if task.cancel.is_some() => ("cancelling", "is being cancelled"),
        TaskState::Working if task.is_queued() => ("queued", "queued"),
        TaskState::Working if task.handle().is_some() => ("running", "running"),
        TaskState::Working => ("starting", "starting"),
    }
}

/// Returns the host of an https address that may be a link.
pub fn https_host(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://").filter(|_| is_page_link(address))?;
    rest.split(['/', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::*;

    #[test]
    fn engine_text_is_plain_and_short() {
        assert_eq!(one_line("a\u{1b}[31mb\u{1b}[0m\nc\u{202e}d", 10), "ab cd");
        assert_eq!(one_line("äöüß", 2), "äö…");
        assert_eq!(html! { (clean("<script>\u{0}")) }.into_string(), "&lt;script&gt;");
    }

    #[test]
    fn durations_are_short() {
        let ms = Duration::from_millis;
        assert_eq!(
            [ms(3), ms(2_450), ms(59_000), ms(61_000)].map(exact),
            ["3 ms", "2.4 s", "59 s", "1 min 1 s"]
        );
        assert_eq!([ms(900), ms(90_000), ms(600_000)].map(rough), ["less than 1 s", "90 s", "10 min"]);
        assert_eq!(exact(ms(7_260_000)), "2 h 1 min");
    }
}
