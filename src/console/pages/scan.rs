//! Finds tasks of the visitor by a filter. It reads a bounded number of rows for one page, however few match:
//! the next page goes on where it stopped.

use maud::{Markup, html};
use taskbridge_sdk::Timestamp;

use super::{Request, task_address};
use crate::console::Result;
use crate::console::html::pieces;
use crate::console::request::Fields;
use crate::mcp::features::authorization::Permit;
use crate::mcp::wire::cursor;
use crate::tasks::service::View;
use crate::tasks::store::Position;
use crate::tasks::task::{Owner, Task, TaskState};

/// Name of the list in its cursors.
const LIST: &str = "console/tasks";
/// Maximum number of rows that are read for one page.
const MAX_READ: usize = 1_000;
/// Number of rows that are read at a time.
const BATCH: usize = 100;

/// Which tasks are shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// Whose tasks they are, if the visitor asked for another owner.
    pub(super) owner: Option<Owner>,
    pub(super) tool: Option<String>,
    pub(super) backend: Option<String>,
    /// One of [`STATES`].
    pub(super) state: Option<String>,
    /// Created since this time.
    pub(super) since: Option<Timestamp>,
    /// Text that occurs in the tool, the message, the job's handle, or at the beginning of the id.
    pub(super) text: Option<String>,
}

/// The states that can be chosen, with their labels.
pub(super) const STATES: [(&str, &str); 7] = [
    ("open", "not ended"),
    ("asks", "needs an answer"),
    ("ended", "ended"),
    ("succeeded", "succeeded"),
    ("failed", "failed"),
    ("cancelled", "cancelled"),
    ("broken", "broken"),
];

/// The tasks of one page.
pub(super) struct Found {
    pub(super) views: Vec<View>,
    /// The cursor of the next page, if there may be more.
    pub(super) next: Option<String>,
    /// True if it stopped because it had read enough rows.
    pub(super) is_cut: bool,
}

impl Filter {
    /// Reads the filter from the address of a page.
    pub(super) fn of(fields: &Fields, now: Timestamp) -> Self {
        let text = |name: &str| fields.text(name).map(str::to_owned);
        let hours = fields.text("hours").and_then(|hours| hours.parse::<u64>().ok());
        Self {
            owner: text("owner").map(Owner::new),
            tool: text("tool"),
            backend: text("backend"),
            state: text("state").filter(|state| STATES.iter().any(|(known, _)| known == state)),
            since: hours.map(|hours| now - std::time::Duration::from_secs(hours.min(100_000) * 3_600)),
            text: text("q").map(|text| text.to_lowercase()),
        }
    }

    fn matches(&self, task: &Task) -> bool {
        let equals = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        equals(&self.tool, &task.tool)
            && equals(&self.backend, &task.backend)
            && self.state.as_deref().is_none_or(|state| has_state(task, state))
            && self.text.as_deref().is_none_or(|text| contains(task, text))
    }
}

fn has_state(task: &Task, state: &str) -> bool {
    match state {
        "open" => !task.has_ended(),
        "asks" => task.state == TaskState::InputRequired,
        "ended" => task.has_ended(),
        outcome => task.outcome().is_some_and(|is| is.as_str() == outcome),
    }
}

fn contains(task: &Task, text: &str) -> bool {
    let has = |part: &str| part.to_lowercase().contains(text);
    has(&task.tool)
        || task.id.as_str().starts_with(text)
        || task.status_message().is_some_and(|message| has(&message))
        || task.handle().is_some_and(|handle| has(handle.as_str()))
}

/// Returns up to `limit` matching tasks of the visitor, newest first, from the cursor in the address on.
pub(super) async fn scan(request: &Request<'_>, filter: &Filter, limit: usize) -> Result<Found> {
    let context = request.context();
    let (catalog, permit) = (context.catalog(), Permit::of(&request.visitor.principal));
    let owner = filter.owner.as_ref().unwrap_or(&request.visitor.principal.owner);
    let may_see = |task: &Task| request.owns(task) || permit.operates(&catalog, Some(&task.tool));
    let sealed = request.head.query.text("cursor");
    let mut after: Option<Position> =
        sealed.and_then(|sealed| cursor::position(&context.seal, LIST, owner, sealed));
    let (mut views, mut read): (Vec<View>, usize) = (Vec::new(), 0);
    loop {
        let batch = context.service.list(owner, after.as_ref(), BATCH).await?;
        let is_last_batch = batch.len() < BATCH;
        for view in batch {
            if filter.since.is_some_and(|since| view.task.created_at < since) {
                return Ok(Found { views, next: None, is_cut: false });
            }
            if views.len() == limit || read == MAX_READ {
                let is_cut = views.len() < limit;
                let next = after.map(|at| {
                    cursor::seal(&context.seal, LIST, owner, (at.created_at.as_millis(), at.id.as_str()))
                });
                return Ok(Found { views, next, is_cut });
            }
            read += 1;
            after = Some(Position { created_at: view.task.created_at, id: view.task.id.clone() });
            if filter.matches(&view.task) && may_see(&view.task) {
                views.push(view);
            }
        }
        if is_last_batch {
            return Ok(Found { views, next: None, is_cut: false });
        }
    }
}

/// Renders tasks as a table.
pub(super) fn table(request: &Request<'_>, views: &[View], label: &str) -> Markup {
    rows(request, views, label, false)
}

/// Returns true if the task can be chosen in a form that cancels: it is open, and the visitor's own.
pub(super) fn is_choosable(request: &Request<'_>, task: &Task) -> bool {
    !task.has_ended() && task.cancel.is_none() && request.owns(task)
}

/// Renders tasks as a table, for a form in which open tasks can be chosen.
pub(super) fn choosable_table(request: &Request<'_>, views: &[View], label: &str) -> Markup {
    rows(request, views, label, true)
}

fn rows(request: &Request<'_>, views: &[View], label: &str, can_choose: bool) -> Markup {
    html! {
        table.list aria-label=(label) {
            thead { tr { @if can_choose { td.choose {} } th scope="col" { "Task" } th scope="col" { "State" } th scope="col" { "Created" } } }
            tbody {
                @for view in views {
                    tr id={ "row-" (view.task.id) } {
                        @if can_choose {
                            td.choose {
                                @if is_choosable(request, &view.task) {
                                    input type="checkbox" name="task" value=(view.task.id)
                                        aria-label={ "Choose " (view.task.tool) " " (pieces::one_line(view.task.id.as_str(), 8)) };
                                }
                            }
                        }
                        td {
                            a href=(task_address(&view.task.id)) { bdi { (pieces::one_line(&view.task.tool, 100)) } }
                            " " span.hint { code { (pieces::one_line(view.task.id.as_str(), 8)) } " on " bdi { (view.task.backend) } }
                            @if let Some(message) = view.status_message().filter(|text| text != pieces::state_words(&view.task).1) {
                                div.message { (pieces::one_line(&message, 200)) }
                            }
                        }
                        td { (pieces::state(&view.task)) " " (pieces::progress(view)) }
                        td {
                            (pieces::ago(view.task.created_at, request.now))
                            @if let Some(ended) = view.task.ended_at {
                                div.hint { "took " (pieces::exact(ended.since(view.task.created_at))) }
                            }
                        }
                    }
                }
            }
        }
    }
}
