//! The pages. [`Route`] names them, [`render`] makes one for a visitor, for a visit or for a live update.
//! Each page reads through the operations of the protocol, so it shows nothing that they would refuse.
//! Rendering must not change anything.

mod artifact;
mod audit;
mod backends;
mod inbox;
mod log;
mod output;
mod question;
mod reads;
mod scan;
mod task;
mod task_json;
mod tasks;
pub(super) mod tool;
mod tools;

use axum::response::Response;
use maud::Markup;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use taskbridge_sdk::Timestamp;

pub(super) use self::reads::Reads;
use super::request::{Head, Visitor};
use super::{Console, Result};
use crate::mcp::features::authorization::CallerContext;
use crate::mcp::features::context::FeatureContext;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::View;
use crate::tasks::task::{Task, TaskId};

/// The characters to escape in a segment of a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A page that can follow changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Inbox,
    Tasks,
    Task(TaskId),
    Tools,
    Tool(String),
    Backends,
    Audit,
}

/// Why a page is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// A person opened it.
    Visit,
    /// It is open, and something may have changed since its last content.
    Update {
        /// What was recorded as read until then.
        read: Reads,
    },
}

/// A rendered page.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) body: Markup,
    /// True if it can change while it is open.
    pub(super) is_live: bool,
    /// What is recorded as read, now or before.
    pub(super) read: Reads,
}

/// What a page is rendered from.
struct Request<'a> {
    console: &'a Console,
    visitor: &'a Visitor,
    head: &'a Head,
    occasion: Occasion,
    now: Timestamp,
}

impl<'a> Request<'a> {
    fn context(&self) -> &'a FeatureContext {
        &self.console.parts.bridge.context
    }

    fn caller(&self) -> CallerContext<'a> {
        CallerContext::looking(self.context(), &self.visitor.principal)
    }

    /// Returns what was recorded as read while the page was open.
    fn read_before(&self) -> Reads {
        match self.occasion {
            Occasion::Visit => Reads::default(),
            Occasion::Update { read } => read,
        }
    }

    /// Returns true if the visitor owns the task.
    fn owns(&self, task: &Task) -> bool {
        task.owner == self.visitor.principal.owner
    }
}

impl Route {
    /// Returns the page at an address.
    pub(super) fn parse(head: &Head) -> Option<Self> {
        let segments = segments(&head.path)?;
        Some(match segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => Self::Inbox,
            ["tasks"] => Self::Tasks,
            ["tasks", id] => Self::Task(TaskId::from_wire(*id)),
            ["tools"] => Self::Tools,
            ["tools", name] => Self::Tool((*name).to_owned()),
            ["backends"] => Self::Backends,
            ["audit"] => Self::Audit,
            _ => return None,
        })
    }
}

/// Returns the decoded segments of a path of the console, without the first.
pub(super) fn segments(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix("/console")?.trim_start_matches('/');
    let decode = |segment: &str| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
    rest.split('/').filter(|segment| !segment.is_empty()).map(decode).collect()
}

/// Returns the address of the page of a task.
pub(super) fn task_address(id: &TaskId) -> String {
    format!("/console/tasks/{}", escape(id.as_str()))
}

/// Returns the address of the page of a tool.
pub(super) fn tool_address(name: &str) -> String {
    format!("/console/tools/{}", escape(name))
}

/// Escapes a segment of a path.
fn escape(segment: &str) -> String {
    utf8_percent_encode(segment, ESCAPED).to_string()
}

/// Renders a page.
pub(super) async fn render(
    console: &Console,
    visitor: &Visitor,
    route: &Route,
    head: &Head,
    occasion: Occasion,
) -> Result<Page> {
    let request = Request { console, visitor, head, occasion, now: console.now() };
    match route {
        Route::Inbox => inbox::page(&request).await,
        Route::Tasks => tasks::page(&request).await,
        Route::Task(id) => task::page(&request, id).await,
        Route::Tools => Ok(tools::page(&request)),
        Route::Tool(name) => tool::page(&request, name, None).await,
        Route::Backends => backends::page(&request).await,
        Route::Audit => audit::page(&request).await,
    }
}

/// Answers with a file or with data, if the address is that of one.
pub(super) async fn download(console: &Console, visitor: &Visitor, head: &Head) -> Result<Option<Response>> {
    let Some(segments) = segments(&head.path) else { return Ok(None) };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let request = Request { console, visitor, head, occasion: Occasion::Visit, now: console.now() };
    match segments.as_slice() {
        ["tasks", id, "json"] => task_json::answer(&request, &TaskId::from_wire(*id)).await.map(Some),
        ["tasks", id, "artifacts", name @ ..] if !name.is_empty() => {
            artifact::answer(&request, &TaskId::from_wire(*id), &name.join("/")).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns a task that the visitor may see. Another one is recorded in the audit log as not found, and a visit
/// to a task of another owner as a read.
async fn find(request: &Request<'_>, id: &TaskId) -> Result<View> {
    let context = request.context();
    match context.service.get(&request.caller(), id).await? {
        Some(view) => {
            if request.occasion == Occasion::Visit && !request.owns(&view.task) {
                context.audit.record(AuditEvent::Read { task: &view.task, part: Part::State });
            }
            Ok(view)
        }
        None => {
            context.not_found(&request.visitor.principal.owner, id);
            Err(super::respond::Refusal::not_found())
        }
    }
}
