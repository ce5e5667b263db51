//! The lists of resources and of their templates, page by page, for every generation: first those of the config by
//! name, then what the caller's tasks have, newest first. It must not know how a generation writes a resource.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Output, Timestamp};

use super::permit::Permit;
use super::resources::{self, Link};
use super::{Bridge, cursor};
use crate::auth::Principal;
use crate::catalog::{Readable, Resource, ResourceTemplate};
use crate::tasks::store::{Position, StoreError};
use crate::tasks::task::{Task, TaskId};

/// The list that cursors of `resources/list` are for.
const LIST: &str = "resources/list";
/// The list that cursors of `resources/templates/list` are for.
const TEMPLATES: &str = "resources/templates/list";

/// A page of a list.
pub struct Page<T> {
    /// What is on it, in order.
    pub entries: Vec<T>,
    /// Where the next one begins, if there is one.
    pub next_cursor: Option<String>,
}

/// Something to read.
pub enum Entry {
    /// A resource of the config.
    Fixed(Arc<Resource>),
    /// A log or an artifact.
    OfTask(Link),
}

/// Many things to read.
pub enum TemplateEntry {
    /// A template of the config.
    Configured(Arc<ResourceTemplate>),
    /// All logs, or all artifacts.
    Own(&'static Own),
}

/// A template of the server's own.
pub struct Own {
    /// Its form, by RFC 6570.
    pub uri_template: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
    /// The media type of all of them, where they have one.
    pub mime_type: Option<&'static str>,
}

/// The server's own templates.
pub const OWN: [Own; 2] = [
    Own {
        uri_template: resources::LOG_TEMPLATE,
        name: "log",
        description: "The end of what a task's job has printed.",
        mime_type: Some("text/plain"),
    },
    Own {
        uri_template: resources::ARTIFACT_TEMPLATE,
        name: "artifact",
        description: "A file that a task's job left.",
        mime_type: None,
    },
];

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor is not one of this list and this caller.
    #[error("the cursor is not one of this list")]
    Cursor,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A place in the list: after a resource of the config, at the newest task, or after a task.
#[derive(Serialize, Deserialize)]
enum Place {
    Fixed(String),
    Tasks,
    Task(i64, String),
}

/// A place in the list of templates: after one of the config, or after some of the server's own.
#[derive(Serialize, Deserialize)]
enum TemplatePlace {
    Configured(String),
    Own(usize),
}

/// The page at a cursor, or the first. Of the tasks it is what belongs to as many as fit. Where callers cannot be told
/// apart, tasks are left out.
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
        Some(Place::Fixed(after)) => (catalog.resources().page(Some(after), size + 1, known), None),
        Some(Place::Tasks) => (Vec::new(), None),
        Some(Place::Task(millis, id)) => {
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
        last.map(Place::Fixed)
    } else if !caller.identified {
        None
    } else if entries.len() == size {
        Some(Place::Tasks)
    } else {
        tasks(bridge, caller, after, size - entries.len(), &mut entries).await?
    };
    let next_cursor = next.map(|place| cursor::seal(&bridge.seal, LIST, &caller.owner, place));
    Ok(Page { entries, next_cursor })
}

/// What belongs to the next tasks, and where the list goes on behind them.
async fn tasks(
    bridge: &Bridge,
    caller: &Principal,
    after: Option<Position>,
    most: usize,
    entries: &mut Vec<Entry>,
) -> Result<Option<Place>, StoreError> {
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
    Ok(last.map(|task| Place::Task(task.created_at.as_millis(), task.id.as_str().to_owned())))
}

/// What names the artifacts of a task; not read where there can be none.
async fn output(bridge: &Bridge, task: &Task) -> Result<Option<Output>, StoreError> {
    let backend = bridge.backend(&task.backend);
    if task.has_ended() && backend.is_some_and(|backend| backend.artifacts().is_some()) {
        bridge.service.output(task).await
    } else {
        Ok(None)
    }
}

/// The page of templates at a cursor, or the first, of those that this caller may know of. `None` if the cursor is not one of
/// this list.
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
