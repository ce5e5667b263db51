//! The result of a task that has ended, and links to its artifacts. Large results are not shown. Its first
//! showing is recorded in the audit log, as for a client.

use maud::{Markup, html};
use taskbridge_sdk::{Artifact, Content, Output};

use super::{Request, escape, task_address};
use crate::console::Result;
use crate::console::html::pieces;
use crate::mcp::features::authorization::CallerContext;
use crate::tasks::audit::{Audit as _, AuditEvent, Part};
use crate::tasks::service::{Actor as _, View};
use crate::tasks::store::BoundedOutput;
use crate::tasks::task::Task;

/// Maximum size of a result that is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 128 * 1024;
/// Maximum number of artifacts that are listed.
const MAX_ARTIFACTS: usize = 200;

/// Renders the result, if there is one. Returns `None` otherwise.
pub(super) async fn section(request: &Request<'_>, view: &View) -> Result<Option<Markup>> {
    let task = &view.task;
    if !task.has_ended() {
        return Ok(None);
    }
    let output = request.context().service.output_within(task, MAX_SHOWN_BYTES).await?;
    if !request.read_before().result && !matches!(output, BoundedOutput::Missing) {
        request.context().audit.record(AuditEvent::Read { task, part: Part::Result });
    }
    Ok(Some(match output {
        BoundedOutput::Missing => return Ok(None),
        BoundedOutput::TooLarge(bytes) => html! {
            h2 { "Result" }
            p.note { "The result has " (bytes) " bytes, which is too large for this page. A client can read it." }
        },
        BoundedOutput::Complete(output) => {
            request.context().service.note_result_read(task, &request.visitor.principal.owner);
            render(request, task, &output)
        }
    }))
}

fn render(request: &Request<'_>, task: &Task, output: &Output) -> Markup {
    // An operator sees that there are files. Their content is for those who may read the task as clients.
    let caller = CallerContext::new(request.context(), &request.visitor.principal);
    let is_readable = request.owns(task) || caller.tools().contains(&task.tool);
    html! {
        @if !output.content.is_empty() || output.structured.is_some() {
            h2 { "Result" }
            @for block in &output.content { (content(block)) }
            @if let Some(data) = &output.structured {
                pre { (pieces::clean(&serde_json::to_string_pretty(data).unwrap_or_default())) }
            }
        }
        @if !output.artifacts.is_empty() {
            h2 { "Artifacts" }
            ul { @for artifact in output.artifacts.iter().take(MAX_ARTIFACTS) { li { (link(task, artifact, is_readable)) } } }
            @if output.artifacts.len() > MAX_ARTIFACTS {
                p.hint { "and " (output.artifacts.len() - MAX_ARTIFACTS) " more" }
            }
        }
    }
}

fn link(task: &Task, artifact: &Artifact, is_readable: bool) -> Markup {
    let name: Vec<String> = artifact.name.split('/').map(escape).collect();
    html! {
        @let label = html! { bdi { (pieces::one_line(&artifact.name, 300)) } };
        @if is_readable {
            a href={ (task_address(&task.id)) "/artifacts/" (name.join("/")) } download { (label) }
        } @else { (label) }
        @if let Some(size) = artifact.size { " " span.hint { (size) " bytes" } }
    }
}

fn content(block: &Content) -> Markup {
    match block {
        Content::Text { text } => html! { pre { (pieces::clean(text)) } },
        Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => html! {
            p.hint { "A block of type " code { (pieces::one_line(mime_type, 100)) } ", which a client can show." }
        },
        Content::ResourceLink { uri, name, .. } => html! { p { (pieces::external_link(uri, name)) } },
        Content::Resource { .. } => html! { p.hint { "An embedded resource, which a client can show." } },
    }
}
