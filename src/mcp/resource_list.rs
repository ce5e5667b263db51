//! Lists of resources and of their templates, page by page, for every generation. Resources of the config
//! come first, by name. The logs and artifacts of the caller's tasks follow, newest first. It must not know
//! how a generation writes a resource.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Output, Timestamp};

use super::authorization::Permit;
use super::resources::{self, Link};
use super::{Bridge, cursor};
use crate::auth::Principal;
use crate::catalog::{Readable, Resource, ResourceTemplate};
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
pub enum Entry {
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
    Own(&'static BuiltinTemplate),
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
pub const OWN: [BuiltinTemplate; 2] = [
    BuiltinTemplate {
        uri_template: resources::LOG_TEMPLATE,
        name: "log",
        description: "The end of what a task's job has printed.",
        mime_type: Some("text/plain"),
    },
    BuiltinTemplate {
        uri_template: resources::ARTIFACT_TEMPLATE,
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
enum TemplatePlace {
    Configured(String),
    Own(usize),
}

/// Returns the page at a cursor, or the first. A task counts as one entry of the page size, and all its links
/// are listed. Only identified callers see their tasks here.
///
/// # Errors
/// See [`ListError`].
pub async fn page(bridge: &Bridge, caller: &Principal, at: Option<&str>) -> Result<Page<Entry>, ListError> {
    let place = match at {
        None => None,
        Some(text) => Some(cursor::open(&bridge.seal, LIST, &caller.owner, text).ok_or(ListError::Cursor)?),
    };
    let size = bridge.settings().page_size;
    let (catalog, permit) = (bridge.catalog(), Permit::of(caller));
    let known = |resource: &Resource| permit.may_read(&catalog, Readable::One(resource));
    let (mut fixed, after) = match &place {
        None => (catalog.resources().page(None, size + 1, known), None),
        Some(ResourcePosition::Fixed(after)) => {
            (catalog.resources().page(Some(after), size + 1, known), None)
        }
        Some(ResourcePosition::Tasks) => (Vec::new(), None),
        Some(ResourcePosition::Task(millis, id)) => {
            let (created_at, id) = (Timestamp::from_millis(*millis), TaskId::from_wire(id.clone()));
            (Vec::new(), Some(Position { created_at, id }))
        }
    };
    let more = fixed.len() > size;
    fixed.truncate(size);
    let last = fixed.last().map(|resource| resource.card.name.clone());
    let mut entries: Vec<Entry> =
        fixed.into_iter().map(|resource| Entry::Fixed(Arc::clone(resource))).collect();
    let next = if more {
        last.map(ResourcePosition::Fixed)
    } else if !caller.identified {
        None
    } else if entries.len() == size {
        Some(ResourcePosition::Tasks)
    } else {
        tasks(bridge, caller, after, size - entries.len(), &mut entries).await?
    };
    let next_cursor = next.map(|place| cursor::seal(&bridge.seal, LIST, &caller.owner, place));
    Ok(Page { entries, next_cursor })
}

/// Adds the entries of the next tasks. Returns where the list continues after them.
async fn tasks(
    bridge: &Bridge,
    caller: &Principal,
    after: Option<Position>,
    most: usize,
    entries: &mut Vec<Entry>,
) -> Result<Option<ResourcePosition>, StoreError> {
    let mut views = bridge.service.list(&caller.owner, after.as_ref(), most + 1).await?;
    let more = views.len() > most;
    views.truncate(most);
    for view in &views {
        let task = &view.task;
        let output = output(bridge, task).await?;
        let links = resources::links(bridge, task, output.as_ref()).into_iter().map(|link| {
            let description = format!("{}, task of {}", link.description, task.created_at);
            Entry::OfTask(Link { description, ..link })
        });
        entries.extend(links);
    }
    let last = views.last().filter(|_| more).map(|view| &view.task);
    Ok(last.map(|task| ResourcePosition::Task(task.created_at.as_millis(), task.id.as_str().to_owned())))
}

/// Reads the output that names a task's artifacts, unless there can be none.
async fn output(bridge: &Bridge, task: &Task) -> Result<Option<Output>, StoreError> {
    let backend = bridge.backend(&task.backend);
    if task.has_ended() && backend.is_some_and(|backend| backend.artifacts().is_some()) {
        bridge.service.output(task).await
    } else {
        Ok(None)
    }
}

/// Returns the page of templates at a cursor, or the first, of those that this caller may see. Returns `None`
/// if the cursor does not belong to this list.
pub fn templates(bridge: &Bridge, caller: &Principal, at: Option<&str>) -> Option<Page<TemplateEntry>> {
    let place = match at {
        None => None,
        Some(text) => Some(cursor::open_for_all(&bridge.seal, TEMPLATES, text)?),
    };
    let size = bridge.settings().page_size;
    let (catalog, permit) = (bridge.catalog(), Permit::of(caller));
    let known = |template: &ResourceTemplate| permit.may_read(&catalog, Readable::Any(template));
    let (mut configured, skipped) = match &place {
        None => (catalog.resources().templates_page(None, size + 1, known), 0),
        Some(TemplatePlace::Configured(after)) => {
            (catalog.resources().templates_page(Some(after), size + 1, known), 0)
        }
        Some(TemplatePlace::Own(count)) => (Vec::new(), *count),
    };
    let more = configured.len() > size;
    configured.truncate(size);
    let taken = if more { 0 } else { size - configured.len() };
    let reached = skipped.saturating_add(taken).min(OWN.len());
    let next = if more {
        configured.last().map(|template| TemplatePlace::Configured(template.card.name.clone()))
    } else {
        (reached < OWN.len()).then_some(TemplatePlace::Own(reached))
    };
    let mut entries: Vec<TemplateEntry> =
        configured.into_iter().map(|each| TemplateEntry::Configured(Arc::clone(each))).collect();
    entries.extend(OWN.iter().skip(skipped).take(taken).map(TemplateEntry::Own));
    let next_cursor = next.map(|place| cursor::seal_for_all(&bridge.seal, TEMPLATES, place));
    Some(Page { entries, next_cursor })
}
