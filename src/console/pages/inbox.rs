//! The inbox: what waits for the visitor, what failed since they last said that they had seen failures, and
//! what runs. It looks at the newest tasks only, a bounded number.

use maud::html;

use super::scan::{self, Filter};
use super::{Page, Reads, Request, question};
use crate::console::Result;
use crate::console::html::{layout, pieces};
use crate::mcp::features::authorization::CallerContext;
use crate::tasks::service::{Actor as _, TaskOperation, View};
use crate::tasks::task::Outcome;

/// Maximum number of entries of each part.
const MAX_SHOWN: usize = 25;
/// Maximum number of tasks that it sorts into its parts.
const MAX_FOUND: usize = 500;

pub(super) async fn page(request: &Request<'_>) -> Result<Page> {
    let found = scan::scan(request, &Filter::default(), MAX_FOUND).await?;
    let caller = CallerContext::new(request.context(), &request.visitor.principal);
    let asks = |view: &&View| {
        view.task.open_questions().next().is_some() && caller.may(TaskOperation::Answer, &view.task).is_ok()
    };
    let mut asking: Vec<&View> = found.views.iter().filter(asks).collect();
    // The one that has waited longest comes first.
    asking.sort_by_key(|view| view.task.open_questions().map(|open| open.at).min());
    let seen = request.visitor.session.seen;
    let has_failed = |view: &&View| {
        matches!(view.task.outcome(), Some(Outcome::Failed | Outcome::Broken))
            && view.task.ended_at.is_some_and(|ended| ended > seen)
    };
    let mut failed: Vec<View> = found.views.iter().filter(has_failed).cloned().collect();
    // The oldest are shown. Once they were seen, the next ones are shown.
    failed.sort_by_key(|view| view.task.ended_at);
    let until = failed.iter().take(MAX_SHOWN).next_back().and_then(|view| view.task.ended_at);
    let shown = failed.partition_point(|view| view.task.ended_at <= until);
    let more = failed.len() - shown;
    failed.truncate(shown);
    failed.reverse();
    let is_running =
        |view: &&View| !view.task.has_ended() && !asking.iter().any(|asks| asks.task.id == view.task.id);
    let running: Vec<View> = found.views.iter().filter(is_running).take(MAX_SHOWN).cloned().collect();
    let body = html! {
        h1 { "Inbox" }
        section aria-labelledby="asks" {
            h2 #asks { "Waiting for you" }
            @if asking.is_empty() { p.empty { "No task needs an answer from you." } }
            @for view in asking.iter().take(MAX_SHOWN) { (question::cards(request, &view.task, true)) }
        }
        section aria-labelledby="failed" {
            div.row.spread {
                h2 #failed { "New failures" }
                @if let Some(until) = until {
                    form method="post" action="/console/seen" {
                        (layout::form_token(request.visitor))
                        input type="hidden" name="until" value=(until.as_millis());
                        button type="submit" { "I have seen these" }
                    }
                }
            }
            p.hint { "After " (pieces::at(seen)) "." }
            @if failed.is_empty() { p.empty { "No failures." } } @else { (scan::table(request, &failed, "Failed tasks")) }
            @if more > 0 { p.hint { (more) " later failures are shown when you have seen these." } }
        }
        section aria-labelledby="running" {
            h2 #running { "Running" }
            @if running.is_empty() { p.empty { "Nothing runs. " a href="/console/tools" { "Start a tool" } "." } }
            @else { (scan::table(request, &running, "Running tasks")) }
        }
        @if found.next.is_some() {
            p.hint { "Only your newest tasks are shown here. " a href="/console/tasks" { "All tasks" } }
        }
    };
    Ok(Page { title: "Inbox".to_owned(), body, is_live: true, read: Reads::default() })
}
