//! The log of a task: its end, or the lines with a text. It is read from the engine only when it is asked
//! for, with the same limits as for a client. While the page is open, the job's output is followed.

use std::time::Duration;

use maud::{Markup, html};

use super::{Request, task_address};
use crate::console::Result;
use crate::console::html::pieces;
use crate::mcp::features::resources::{self, ReadError};
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::View;

/// How long one look at the log counts as following it.
const FOLLOW: Duration = Duration::from_secs(60);
/// Words of lines that show a failure.
const FAILURE_WORDS: [&str; 6] = ["error", "fatal", "panic", "exception", "traceback", "failed"];

/// Renders the log, or the link that shows it. Returns whether it is the log.
pub(super) async fn section(request: &Request<'_>, view: &View) -> Result<(Markup, bool)> {
    let task = &view.task;
    let backend = request.console.parts.bridge.reads.backend(&task.backend);
    let has_log = backend.is_some_and(|backend| backend.abilities().logs.is_some());
    if task.handle().is_none() || !has_log {
        return Ok((html! {}, false));
    }
    let (path, query) = (task_address(&task.id), &request.head.query);
    if query.text("log").is_none() {
        let address = query.address(&path, &[("log", Some("1")), ("live", None)]);
        let link = html! { h2 #log { "Log" } p { a.button href={ (address) "#log" } { "Show the log" } } };
        return Ok((link, false));
    }
    if !task.has_ended() {
        request.context().service.follow_log(&request.caller(), &task.id, FOLLOW).await?;
    }
    let search = query.text("search").map(str::to_owned);
    let max_bytes = request.context().settings().max_log_bytes;
    let log = resources::log(
        request.context(),
        &request.console.parts.bridge.reads,
        task,
        max_bytes,
        search.clone(),
    );
    let log = match log.await {
        Ok(log) => log,
        Err(ReadError::Store(error)) => return Err(error.into()),
        Err(problem) => return Ok((html! { h2 #log { "Log" } p.problem { (problem) "." } }, false)),
    };
    if !request.read_before().log {
        request.context().audit.record(AuditEvent::Read { task, part: Part::Log });
    }
    let is_failure = |line: &str| {
        let line = line.to_lowercase();
        FAILURE_WORDS.iter().any(|word| line.contains(word))
    };
    let first_failure = log.text.lines().position(is_failure);
    let without = query.address(&path, &[("log", None), ("search", None), ("live", None)]);
    let shown = html! {
        section.log {
            div.row.spread {
                h2 #log { "Log" }
                div.row {
                    @if first_failure.is_some() { a.button href="#first-failure" { "First failure" } }
                    a.button href=(without) { "Hide" }
                }
            }
            form.row #log-search method="get" action=(path) role="search" hx-morph-skip {
                input type="hidden" name="log" value="1";
                label for="search" { "Lines with" }
                div { input #search type="search" name="search" value=(search.as_deref().unwrap_or_default()); }
                button type="submit" { "Search" }
            }
            @if log.cut { p.hint { "Earlier output is left out." } }
            @if log.text.is_empty() { p.empty { "Nothing is printed." } } @else {
                pre tabindex="0" aria-label="Log" {
                    @for (n, line) in log.text.lines().enumerate() {
                        @if Some(n) == first_failure { mark #first-failure { (pieces::clean(line)) } "\n" }
                        @else { (pieces::clean(line)) "\n" }
                    }
                }
            }
        }
    };
    Ok((shown, true))
}
