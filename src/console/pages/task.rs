//! The page of a task: its open questions, the flight recorder, its result, its log and its artifacts.

use maud::{Markup, html};

use super::{Page, Reads, Request, find, log, output, question, task_address, tool_address};
use crate::console::Result;
use crate::console::html::{layout, pieces};
use crate::mcp::features::authorization::Permit;
use crate::recorder;
use crate::tasks::service::{Actor as _, TaskOperation, View};
use crate::tasks::task::{Outcome, Task, TaskId};

pub(super) async fn page(request: &Request<'_>, id: &TaskId) -> Result<Page> {
    let view = find(request, id).await?;
    let history = request.context().service.history(&view.task).await?;
    let task = &view.task;
    let result = output::section(request, &view).await?;
    let (log, is_log) = log::section(request, &view).await?;
    let body = html! {
        div.row.spread {
            h1 { bdi { (pieces::one_line(&task.tool, 200)) } " " (pieces::state(task)) }
            (actions(request, &view))
        }
        @if let Some(message) = view.status_message().filter(|text| text != pieces::state_words(task).1) {
            p.problem[matches!(task.outcome(), Some(Outcome::Failed | Outcome::Broken))] { (pieces::clean(&message)) }
        }
        @if !task.has_ended() { p { (pieces::progress(&view)) " " (pieces::expected_end(&view, request.now)) } }
        (question::cards(request, task, false))
        h2 { "Flight recorder" }
        (recorder::render(&view, &history, request.now))
        (facts(request, &view))
        (notes(request, &view))
        @if let Some(result) = &result { (result) }
        (log)
    };
    let title = format!("{} {}", pieces::one_line(&task.tool, 60), pieces::state_words(task).1);
    let before = request.read_before();
    let read = Reads { result: before.result || result.is_some(), log: before.log || is_log, ..before };
    Ok(Page { title, body, is_live: true, read })
}

/// Returns what the visitor can do with the task.
fn actions(request: &Request<'_>, view: &View) -> Markup {
    let task = &view.task;
    let may_cancel = !task.has_ended()
        && task.cancel.is_none()
        && request.caller().may(TaskOperation::Cancel, task).is_ok();
    html! {
        div.row {
            @if may_cancel {
                form method="post" action={ (task_address(&task.id)) "/cancel" } {
                    (layout::form_token(request.visitor))
                    button.danger type="submit" { "Cancel the task" }
                }
            }
            a.button href={ (task_address(&task.id)) "/json" } { "As JSON" }
            (call_again(request, task))
            @if let Some(link) = &task.link { (pieces::external_link(link, "Open in the engine")) }
        }
    }
}

/// Returns the link to the form of the tool, with the kept arguments of the visitor's own task. There is none
/// if they may not call the tool.
fn call_again(request: &Request<'_>, task: &Task) -> Markup {
    let (catalog, permit) = (request.context().catalog(), Permit::of(&request.visitor.principal));
    if !catalog.get(&task.tool).is_some_and(|tool| permit.may_call(tool)) {
        return html! {};
    }
    let address = tool_address(&task.tool);
    html! {
        @if request.owns(task) && task.kept_arguments.is_some() {
            a.button href={ (address) "?again=" (task.id) "#start" } { "Call again" }
        } @else { a.button href=(address) { "Open the tool" } }
    }
}

fn facts(request: &Request<'_>, view: &View) -> Markup {
    let task = &view.task;
    html! {
        h2 { "Facts" }
        dl.facts {
            dt { "Id" } dd { code { (task.id) } }
            @if !request.owns(task) { dt { "Owner" } dd { bdi { (pieces::one_line(task.owner.as_str(), 200)) } } }
            dt { "Backend" } dd { bdi { (task.backend) } }
            @if let Some(handle) = task.handle() {
                dt { "Job" } dd { code { (pieces::one_line(handle.as_str(), 300)) } }
            }
            dt { "Created" } dd { (pieces::at(task.created_at)) " (" (pieces::ago(task.created_at, request.now)) ")" }
            @if let Some(ended) = task.ended_at {
                dt { "Ended" } dd {
                    (pieces::at(ended)) " (" (pieces::ago(ended, request.now)) "), after "
                    (pieces::exact(ended.since(task.created_at)))
                }
                dt { "Kept until" } dd { (pieces::at(task.kept_until())) }
            }
            @if let Some(cancel) = &task.cancel {
                dt { "Cancellation" } dd {
                    "requested " (pieces::ago(cancel.at, request.now))
                    @if cancel.taken { ", accepted by the engine" }
                    @else if !task.has_ended() { ", not yet accepted by the engine" }
                }
            }
            @for id in &task.refers_to {
                dt { "Refers to" } dd { a href=(task_address(id)) { code { (pieces::one_line(id.as_str(), 8)) } } }
            }
        }
    }
}

fn notes(request: &Request<'_>, view: &View) -> Markup {
    html! {
        @if !view.task.notes.is_empty() {
            h2 { "Notes of the job" }
            ol.events {
                @for stored in view.task.notes.iter().rev() {
                    @let text = stored.note.data.as_str().map_or_else(|| stored.note.data.to_string(), str::to_owned);
                    li {
                        span { (pieces::ago(stored.note.at.unwrap_or(stored.seen_at), request.now)) }
                        span { (format!("{:?}", stored.note.level).to_lowercase()) }
                        span { (pieces::one_line(&text, 2_000)) }
                    }
                }
            }
        }
    }
}
