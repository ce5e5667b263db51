//! One tool: its description, the form that starts a task, and its last runs.

use axum::http::StatusCode;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::scan::{self, Filter};
use super::{Occasion, Page, Reads, Request, find, tool_address};
use crate::catalog::{TaskSupport, Tool};
use crate::console::html::{form, layout, pieces};
use crate::console::request::{Head, Visitor};
use crate::console::respond::Refusal;
use crate::console::{Console, Result};
use crate::mcp::features::authorization::Permit;
use crate::tasks::task::{Outcome, TaskId};

/// Number of runs that are shown.
const MAX_RUNS: usize = 10;

/// What was typed into a form that was refused, and why.
pub(in crate::console) struct Refused {
    pub(in crate::console) values: Map<String, Value>,
    pub(in crate::console) problem: String,
}

/// Renders the page of a tool after its form was refused.
pub(in crate::console) async fn refused_page(
    console: &Console,
    visitor: &Visitor,
    head: &Head,
    name: &str,
    refused: &Refused,
) -> Result<Page> {
    let request = Request { console, visitor, head, occasion: Occasion::Visit, now: console.now() };
    page(&request, name, Some(refused)).await
}

pub(super) async fn page(request: &Request<'_>, name: &str, refused: Option<&Refused>) -> Result<Page> {
    let catalog = request.context().catalog();
    let permit = Permit::of(&request.visitor.principal);
    let tool = catalog.get(name).filter(|tool| permit.may_call(tool)).ok_or_else(Refusal::not_found)?;
    let kept = match refused {
        None => kept_arguments(request, tool).await?,
        Some(_) => None,
    };
    let filter = Filter { tool: Some(tool.name.clone()), ..Filter::default() };
    let runs = scan::scan(request, &filter, MAX_RUNS).await?;
    let usual = request.context().service.usual_duration(&tool.name).await?;
    let ended: Vec<Outcome> = runs.views.iter().filter_map(|view| view.task.outcome()).collect();
    let succeeded = ended.iter().filter(|outcome| **outcome == Outcome::Succeeded).count();
    let body = html! {
        h1 { bdi { (pieces::one_line(tool.title.as_deref().unwrap_or(&tool.name), 200)) } }
        p.hint { code { (pieces::one_line(&tool.name, 200)) } " on " bdi { (tool.backend()) } }
        @if let Some(text) = &tool.description { p { (pieces::clean(text)) } }
        @if let Some(usual) = usual { p { "A run takes " (usual.text()) " (" (usual.jobs) " runs)." } }
        @if !ended.is_empty() {
            p { (succeeded) " of your last " (ended.len()) " runs that ended succeeded. " a href="#runs" { "Last runs" } }
        }
        h2 #start { "Start" }
        (start_form(request, tool, refused, kept.as_ref()))
        h2 #runs { "Your last runs" }
        @if runs.views.is_empty() { p.empty { "You have no runs of this tool." } } @else {
            (scan::table(request, &runs.views, "Last runs"))
        }
    };
    Ok(Page {
        title: pieces::one_line(&tool.name, 60),
        body,
        is_live: refused.is_none(),
        read: Reads::default(),
    })
}

/// Returns the arguments that the task in the address keeps, if it is the visitor's own and of this tool.
async fn kept_arguments(request: &Request<'_>, tool: &Tool) -> Result<Option<Map<String, Value>>> {
    // An update leaves the form as it is.
    let again = request.head.query.text("again").filter(|_| request.occasion == Occasion::Visit);
    let Some(id) = again else { return Ok(None) };
    let task = find(request, &TaskId::from_wire(id)).await?.task;
    let is_own = request.owns(&task) && task.tool == tool.name;
    let kept = task.kept_arguments.filter(|_| is_own).ok_or_else(Refusal::not_found)?;
    // The config may have become stricter since.
    Ok(Some(kept.into_iter().filter(|(name, _)| !tool.is_hidden(name)).collect()))
}

fn start_form(
    request: &Request<'_>,
    tool: &Tool,
    refused: Option<&Refused>,
    kept: Option<&Map<String, Value>>,
) -> Markup {
    if tool.task_support == TaskSupport::Forbidden {
        return html! { p.note { "This tool cannot run as a task. A client can call it." } };
    }
    let empty = Map::new();
    let values = refused.map(|refused| &refused.values).or(kept).unwrap_or(&empty);
    // Sent twice, the form starts one task.
    let nonce = request.context().seal.nonce();
    html! {
        @if let Some(refused) = refused { p.problem role="alert" { (pieces::clean(&refused.problem)) } }
        form #start-form method="post" action={ (tool_address(&tool.name)) "/start" } hx-morph-skip {
            (layout::form_token(request.visitor))
            @if kept.is_some() {
                p.note { "With the arguments of an earlier call. Sensitive ones and files are not kept." }
            }
            input type="hidden" name="nonce" value=(nonce);
            (form::fields(&tool.input_schema, values, |name| tool.is_hidden(name), "argument"))
            button.primary type="submit" { "Start a task" }
        }
    }
}

/// The status of a refused form.
pub(in crate::console) const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
