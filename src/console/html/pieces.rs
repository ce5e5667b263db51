//! Small pieces: times, durations, states, progress, and links to other sites. Text of engines and callers is
//! sanitized here before it is escaped. They must not decide what is shown.

use std::time::Duration;

use maud::{Markup, html};
use taskbridge_sdk::{Progress, Timestamp, is_page_link, sanitize};

use crate::tasks::service::View;
use crate::tasks::task::{Outcome, Task, TaskState};

/// Returns text of an engine or a caller without control characters, escape sequences and overrides of the
/// text direction.
pub(in crate::console) fn clean(text: &str) -> String {
    sanitize(text).into_owned()
}

/// Returns the beginning of a text as one line.
pub(in crate::console) fn one_line(text: &str, max_chars: usize) -> String {
    let text = clean(text).replace(['\n', '\r', '\t'], " ");
    match text.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Returns a time relative to now. A script keeps it up to date; the absolute time is its title.
pub(in crate::console) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let relative = match at > now {
        true => format!("in {}", rough(at.since(now))),
        false => format!("{} ago", rough(now.since(at))),
    };
    html! { time datetime=(at) title=(absolute(at)) data-relative { (relative) } }
}

/// Returns a time as absolute text, in UTC. A script shows it in the time zone of the browser.
pub(in crate::console) fn at(at: Timestamp) -> Markup {
    html! { time datetime=(at) data-absolute { (absolute(at)) } }
}

fn absolute(at: Timestamp) -> String {
    let text = at.to_string();
    let seconds = text.split('.').next().unwrap_or_default().trim_end_matches('Z');
    format!("{} UTC", seconds.replacen('T', " ", 1))
}

/// Returns a duration in its largest unit.
pub(in crate::console) fn rough(duration: Duration) -> String {
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
pub(in crate::console) fn exact(duration: Duration) -> String {
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
pub(in crate::console) fn state_words(task: &Task) -> (&'static str, &'static str) {
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

/// Returns the state of a task as a label.
pub(in crate::console) fn state(task: &Task) -> Markup {
    let (class, text) = state_words(task);
    html! { span class={ "state " (class) } { (text) } }
}

/// Returns when a running job is expected to end, if its tool has a usual duration.
pub(in crate::console) fn expected_end(view: &View, now: Timestamp) -> Markup {
    let Some(usual) = view.running_usual() else { return html! {} };
    match view.expected_end() {
        Some(end) => html! { span.hint { "Expected to end " (ago(end, now)) " (" (usual.text()) ")" } },
        None => html! { span.hint { "Runs longer than usual (" (usual.text()) ")" } },
    }
}

/// Returns a progress bar, if the task reports progress with a total.
pub(in crate::console) fn progress(view: &View) -> Markup {
    let Some(Progress { done, total }) = view.task.progress.filter(|_| !view.task.has_ended()) else {
        return html! {};
    };
    match total.filter(|total| *total > 0.0 && done.is_finite() && total.is_finite()) {
        Some(total) => html! {
            progress value=(done.clamp(0.0, total)) max=(total) aria-label="Progress" {}
            " " span.hint { (done) " of " (total) }
        },
        None => html! { span.hint { (done) " done" } },
    }
}

/// Returns a link to another site with its host beside it. Anything but an https address is only text.
pub(in crate::console) fn external_link(address: &str, label: &str) -> Markup {
    match https_host(address) {
        Some(host) => html! {
            a href=(address) rel="noopener noreferrer" target="_blank" { (clean(label)) }
            " " span.hint { "at " bdi { (host) } }
        },
        None => html! { (clean(label)) ": " code { (one_line(address, 300)) } },
    }
}

/// Returns the host of an https address that may be a link.
pub(in crate::console) fn https_host(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("https://").filter(|_| is_page_link(address))?;
    rest.split(['/', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only plain https addresses become links, and text cannot become markup.
    #[test]
    fn only_https_becomes_link() {
        let link = external_link("https://ci.example/run/1?a=b", "Run <1>").into_string();
        assert!(
            link.contains("href=\"https://ci.example/run/1?a=b\"") && link.contains("Run &lt;1&gt;"),
            "{link}"
        );
        assert!(
            link.contains("rel=\"noopener noreferrer\"") && link.contains("<bdi>ci.example</bdi>"),
            "{link}"
        );
        for address in [
            "javascript:alert(1)",
            "http://ci.example",
            "data:text/html,x",
            "https://",
            "https://a@b.example/",
            "https://ci.example\"onclick=",
            "https://ci.example/\u{202e}",
            "HTTPS://ci.example",
            "//ci.example",
            "https://аpple.example",
        ] {
            let link = external_link(address, "x").into_string();
            assert!(!link.contains("href"), "{address}: {link}");
        }
    }

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
