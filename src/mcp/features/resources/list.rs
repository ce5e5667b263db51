//! Lists of resources and of their templates, page by page, for every generation. Resources of the config
//! come first, by name. The logs and artifacts of the caller's tasks follow, newest first. It must not know
//! how a generation writes a resource.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Output, Timestamp};

use super::read;
use super::read::{EngineReads, Link};
use crate::auth::Principal;
use crate::catalog::{ReadableResource, Resource, ResourceTemplate};
use crate::mcp::features::authorization::Permit;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::wire::cursor;
use crate::tasks::store::{Position, StoreError};
use crate::tasks::task::{Task, TaskId};

/// Name of this list in the cursors of `resources/list`.
const LIST: &str = "resources/list";
/// Name of this list in the cursors of `resources/templates/list`.
const TEMPLATES: &str = "resources/templates/list";

/// A page of a list.
pub struct Page<T> {
    /// Its entries, in order.
    pub entries: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// Entry of the list of resources.
pub enum ResourceEntry {
    /// A resource of the config.
    Fixed(Arc<Resource>),
    /// A log or an artifact of a task.
    OfTask(Link),
}

/// Entry of the list of templates.
pub enum TemplateEntry {
    /// A template of the config.
    Configured(Arc<ResourceTemplate>),
    /// A template of this server, for all logs or all artifacts.
    Builtin(&'static BuiltinTemplate),
}

/// A template of this server.
pub struct BuiltinTemplate {
    /// URI template (RFC 6570).
    pub uri_template: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Media type of all its resources, if they have the same.
    pub mime_type: Option<&'static str>,
}

/// The templates of this server.
pub const BUILTIN_TEMPLATES: [BuiltinTemplate; 2] = [
    BuiltinTemplate {
        uri_template: read::LOG_TEMPLATE,
        name: "log",
        description: "The end of what a task's job has printed.",
        mime_type: Some("text/plain"),
    },
    BuiltinTemplate {
        uri_template: read::ARTIFACT_TEMPLATE,
        name: "artifact",
        description: "A file that a task's job left.",
        mime_type: None,
    },
];

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor does not belong to this list and this caller.
    #[error("the cursor is not one of this list")]
    Cursor,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Position in the list: after a resource of the config, at the newest task, or after a task.
#[derive(Serialize, Deserialize)]
enum ResourcePosition {
    Fixed(String),
    Tasks,
    Task(i64, String),
}

/// Position in the list of templates: after one of the config, or after some of this server.
#[derive(Serialize, Deserialize)]
enum TemplatePosition {
    Configured(String),
    Own(usize),
}

/// Returns the page at a cursor, or the first. A task counts as one entry of the page size, and all its links
/// are listed. Only identified callers see their tasks here.
///
/// # Errors
/// See [`ListError`].
pub async fn page(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    cursor: Option<&str>,
) -> Result<Page<ResourceEntry>, ListError> {
    let position = match cursor {
        None => None,
        Some(text) => Some(cursor::open(&context.seal, LIST, &caller.owner, text).ok_or(ListError::Cursor)?),
    };
    let size = context.settings().page_size;
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    let is_visible = |resource: &Resource| permit.may_read(&catalog, ReadableResource::Fixed(resource));
    let (mut fixed, after) = match &position {
        None => (catalog.resources().page(None, size + 1, is_visible), None),
        Some(ResourcePosition::Fixed(after)) => {
            (catalog.resources().page(Some(after), size + 1, is_visible), None)
        }
        Some(ResourcePosition::Tasks) => (Vec::new(), None),
        Some(ResourcePosition::Task(millis, id)) => {
            let (created_at, id) = (Timestamp::from_millis(*millis), TaskId::from_wire(id.clone()));
            (Vec::new(), Some(Position { created_at, id }))
        }
    };
    let has_more = fixed.len() > size;
    fixed.truncate(size);
    let last = fixed.last().map(|resource| resource.metadata.name.clone());
    let mut entries: Vec<ResourceEntry> =
        fixed.into_iter().map(|resource| ResourceEntry::Fixed(Arc::clone(resource))).collect();
    let next = if has_more {
        last.map(ResourcePosition::Fixed)
    } else if !caller.identified {
        None
    } else if entries.len() == size {
        Some(ResourcePosition::Tasks)
    } else {
        add_task_entries(context, reads, caller, after, size - entries.len(), &mut entries).await?
    };
    let next_cursor = next.map(|position| cursor::seal(&context.seal, LIST, &caller.owner, position));
    Ok(Page { entries, next_cursor })
}

/// Adds the entries of the next tasks. Returns where the list continues after them.
async fn add_task_entries(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    after: Option<Position>,
    limit: usize,
    entries: &mut Vec<ResourceEntry>,
) -> Result<Option<ResourcePosition>, StoreError> {
    let mut views = context.service.list(&caller.owner, after.as_ref(), limit + 1).await?;
    let has_more = views.len() > limit;
    views.truncate(limit);
    for view in &views {
        let task = &view.task;
        let output = output(context, reads, task).await?;
        let links = read::links(reads, task, output.as_ref()).into_iter().map(|link| {
            let description = format!("{}, task of {}", link.description, task.created_at);
            ResourceEntry::OfTask(Link { description, ..link })
        });
        entries.extend(links);
    }
    let last = views.last().filter(|_| has_more).map(|view| &view.task);
    Ok(last.map(|task| ResourcePosition::Task(task.created_at.as_millis(), task.id.as_str().to_owned())))
}

/// Reads the output that names a task's artifacts, unless there can be none.
async fn output(
    context: &FeatureContext,
    reads: &EngineReads,
    task: &Task,
) -> Result<Option<Output>, StoreError> {
    let backend = reads.backend(&task.backend);
    if task.has_ended() && backend.is_some_and(|backend| backend.abilities().artifacts.is_some()) {
        context.service.output(task).await
    } else {
        Ok(None)
    }
}

/// Returns the page of templates at a cursor, or the first, of those that this caller may see. Returns `None`
/// if the cursor does not belong to this list.
pub fn templates(
    context: &FeatureContext,
    caller: &Principal,
    cursor: Option<&str>,
) -> Option<Page<TemplateEntry>> {
    let position = match cursor {
        None => None,
        Some(text) => Some(cursor::open_for_all(&context.seal, TEMPLATES, text)?),
    };
    let size = context.settings().page_size;
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    let is_visible =
        |template: &ResourceTemplate| permit.may_read(&catalog, ReadableResource::Template(template));
    let (mut configured, skipped) = match &position {
        None => (catalog.resources().templates_page(None, size + 1, is_visible), 0),
        Some(TemplatePosition::Configured(after)) => {
            (catalog.resources().templates_page(Some(after), size + 1, is_visible), 0)
        }
        Some(TemplatePosition::Own(count)) => (Vec::new(), *count),
    };
    let has_more = configured.len() > size;
    configured.truncate(size);
    let builtin_count = if has_more { 0 } else { size - configured.len() };
    let end = skipped.saturating_add(builtin_count).min(BUILTIN_TEMPLATES.len());
    let next = if has_more {
        configured.last().map(|template| TemplatePosition::Configured(template.metadata.name.clone()))
    } else {
        (end < BUILTIN_TEMPLATES.len()).then_some(TemplatePosition::Own(end))
    };
    let mut entries: Vec<TemplateEntry> =
        configured.into_iter().map(|each| TemplateEntry::Configured(Arc::clone(each))).collect();
    entries.extend(BUILTIN_TEMPLATES.iter().skip(skipped).take(builtin_count).map(TemplateEntry::Builtin));
    let next_cursor = next.map(|position| cursor::seal_for_all(&context.seal, TEMPLATES, position));
    Some(Page { entries, next_cursor })
}
