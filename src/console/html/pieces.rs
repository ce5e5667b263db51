//! Small pieces: times, durations, states, progress, and links to other sites. Text of engines and callers is
//! sanitized before it is escaped. They must not decide what is shown.

use maud::{Markup, html};
use taskbridge_sdk::{Progress, Timestamp};

pub(in crate::console) use crate::recorder::text::{clean, exact, https_host, one_line, rough, state_words};
use crate::tasks::service::View;
use crate::tasks::task::Task;

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
}
