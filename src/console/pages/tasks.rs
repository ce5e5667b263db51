//! The list of the visitor's tasks, with its filter in the address.

use maud::html;
use serde_json::json;

use super::scan::{self, Filter, STATES};
use super::{Page, Reads, Request};
use crate::audit::record::{Kind, sanitize};
use crate::console::Result;
use crate::console::html::layout;

/// Tasks on a page.
const PAGE_SIZE: usize = 50;

pub(super) async fn page(request: &Request<'_>) -> Result<Page> {
    let fields = &request.head.query;
    let filter = Filter::of(fields, request.now);
    let found = scan::scan(request, &filter, PAGE_SIZE).await?;
    let other = filter.owner.as_ref().filter(|owner| **owner != request.visitor.principal.owner);
    let other = other.filter(|_| !found.views.is_empty());
    let before = request.read_before();
    if let Some(owner) = other
        && !before.list
    {
        let detail = json!({"owner": sanitize(owner.as_str()), "tasks": found.views.len()});
        request.context().audit.server_event(Kind::TaskRead, "ok", detail);
    }
    let value = |name: &str| fields.text(name).unwrap_or_default();
    let body = html! {
        h1 { "Tasks" }
        form.filters #filters method="get" action="/console/tasks" role="search" hx-morph-skip {
            div { label for="q" { "Text" } input #q type="search" name="q" value=(value("q")); }
            div { label for="tool" { "Tool" } input #tool name="tool" value=(value("tool")); }
            div {
                label for="state" { "State" }
                select #state name="state" {
                    option value="" { "any" }
                    @for (state, label) in STATES {
                        option value=(state) selected[filter.state.as_deref() == Some(state)] { (label) }
                    }
                }
            }
            @if request.visitor.is_operator {
                div { label for="owner" { "Owner" } input #owner name="owner" value=(value("owner")); }
            }
            div { label for="backend" { "Backend" } input #backend name="backend" value=(value("backend")); }
            div {
                label for="hours" { "Last hours" }
                input #hours type="number" min="1" name="hours" value=(value("hours"));
            }
            div { button type="submit" { "Show" } }
        }
        @if found.views.is_empty() {
            p.empty { @if found.is_cut { "None of the tasks that were looked at match." } @else { "No tasks." } }
        } @else {
            form #chosen method="post" action="/console/tasks/cancel" {
                (layout::form_token(request.visitor))
                input type="hidden" name="next" value=(request.head.address());
                (scan::choosable_table(request, &found.views, "Tasks"))
                @if found.views.iter().any(|view| scan::is_choosable(request, &view.task)) {
                    p { button.danger type="submit" { "Cancel the chosen tasks" } }
                }
            }
        }
        @if found.is_cut { p.hint { "Only a part of the tasks was looked at. The next page goes on." } }
        (layout::pager(fields, "/console/tasks", found.next.as_deref()))
    };
    let read = Reads { list: before.list || other.is_some(), ..before };
    Ok(Page { title: "Tasks".to_owned(), body, is_live: true, read })
}
