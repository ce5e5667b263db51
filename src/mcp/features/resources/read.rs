//! Reads resources: those of the config, and logs and artifacts of tasks, at `taskbridge://tasks/{id}/log`
//! and `taskbridge://tasks/{id}/artifacts/{name}`. Logs and artifacts are read through the backend's narrow
//! interfaces, with limits of size and time, and only for callers who may see the task. It must not change a
//! task, except that each read renews that it is watched. It must not know how a generation writes a
//! resource.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use taskbridge_sdk::{
    ArtifactData, Backend, Content, ErrorKind, LogRequest, LogText, Output, is_text, sanitize,
};

use super::read_limit::ArtifactReadLimit;
use crate::auth::Principal;
pub use crate::catalog::Body;
use crate::catalog::{ReadableResource, Resource};
use crate::current::Current;
use crate::mcp::features::authorization::{CallerContext, Permit};
use crate::mcp::features::context::FeatureContext;
use crate::tasks::audit::{self, Audit as _, AuditEvent};
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};

/// Address template of logs.
pub const LOG_TEMPLATE: &str = "taskbridge://tasks/{task_id}/log";
/// Address template of artifacts. A name can have several segments.
pub const ARTIFACT_TEMPLATE: &str = "taskbridge://tasks/{task_id}/artifacts/{+name}";
/// Timeout of a read from an engine. For an artifact, it includes the wait for a read permit.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The characters to escape in an artifact's name: all except RFC 3986's unreserved characters and the `/`
/// between segments.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Link to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its address.
    pub uri: String,
    /// A short name.
    pub name: String,
    /// Its description, for people.
    pub description: String,
    /// Its media type, if known.
    pub mime_type: Option<String>,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
}

/// Contents of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Media type, if known.
    pub mime_type: Option<String>,
    /// The content: text, or bytes if it is not text.
    pub body: Body,
    /// True if all callers get the same: it comes from the config, and belongs to no tool.
    pub shared: bool,
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such resource, or the caller may not see it.
    #[error("there is no such resource, or it has expired")]
    NotFound,
    /// It exists, but cannot be read like this.
    #[error("{0}")]
    Refused(String),
    /// The engine is unavailable, or did not answer within `READ_TIMEOUT`.
    #[error("it cannot be read now: {0}")]
    Unavailable(String),
    /// The deployment is misconfigured; the details are for the operator.
    #[error("the engine does not let us read it")]
    Denied(#[source] taskbridge_sdk::Error),
    /// A template of the config cannot be rendered; the details are for the operator.
    #[error("the server cannot make it: its config is wrong")]
    Template(#[source] BadTemplate),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error in a template that rendering has revealed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadTemplate(String);

/// What an address refers to, whether or not that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The output of a task's job.
    Log(TaskId),
    /// A file that a job left. It never changes.
    Artifact,
    /// A resource of the config.
    Configured,
}

/// A part of a task that has an address.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Log,
    Artifact(String),
}

/// Reads logs and artifacts from engines.
pub struct EngineReads {
    /// The backends by name.
    backends: Current<BTreeMap<String, Arc<dyn Backend>>>,
    limit: ArtifactReadLimit,
}

impl EngineReads {
    /// Creates the reads from these backends.
    pub fn new(backends: BTreeMap<String, Arc<dyn Backend>>) -> Self {
        Self { backends: Current::new(backends), limit: ArtifactReadLimit::default() }
    }

    /// Replaces the backends.
    pub fn replace(&self, backends: BTreeMap<String, Arc<dyn Backend>>) {
        self.backends.replace(backends);
    }

    /// Returns the backend with this name.
    pub fn backend(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.backends.get().get(name).cloned()
    }
}

/// Returns the address of a task's log.
pub fn log_uri(id: &TaskId) -> String {
    format!("taskbridge://tasks/{id}/log")
}

/// Returns the address of one artifact of a task.
pub fn artifact_uri(id: &TaskId, name: &str) -> String {
    format!("taskbridge://tasks/{id}/artifacts/{}", utf8_percent_encode(name, ESCAPED))
}

/// Returns what an address refers to.
pub fn subject(uri: &str) -> Subject {
    match parse(uri) {
        Some((task, Part::Log)) => Subject::Log(task),
        Some((_, Part::Artifact(_))) => Subject::Artifact,
        None => Subject::Configured,
    }
}

/// Returns true if there is something at this address that the caller may read, now or once its job has
/// started. A template that cannot be rendered counts too.
///
/// # Errors
/// If the store fails.
pub async fn exists(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    uri: &str,
) -> Result<bool, StoreError> {
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    let may_read = |readable: ReadableResource<'_>| permit.may_read(&catalog, readable);
    if !matches!(catalog.resources().read(uri, may_read), Ok(None)) {
        return Ok(true);
    }
    let Some((id, part)) = parse(uri) else { return Ok(false) };
    let Some(view) = context.service.get(&CallerContext::new(context, caller), &id).await? else {
        context.not_found(&caller.owner, &id);
        return Ok(false);
    };
    let Some(backend) = reads.backend(&view.task.backend) else { return Ok(false) };
    match part {
        Part::Log => Ok(backend.abilities().logs.is_some()),
        Part::Artifact(name) => {
            let output = context.service.output(&view.task).await?;
            let mut artifacts = output.iter().flat_map(|output| &output.artifacts);
            Ok(backend.abilities().artifacts.is_some() && artifacts.any(|artifact| artifact.name == name))
        }
    }
}

/// Returns links to what can be read of a task: the artifacts that `output` names, then its log.
pub fn links(reads: &EngineReads, task: &Task, output: Option<&Output>) -> Vec<Link> {
    let backend = reads.backend(&task.backend);
    let artifacts = output.into_iter().flat_map(|output| &output.artifacts).map(|artifact| Link {
        uri: artifact_uri(&task.id, &artifact.name),
        name: artifact.name.clone(),
        description: format!("left by {}", task.tool),
        mime_type: artifact.mime_type.clone(),
        size: artifact.size,
    });
    let log = Link {
        uri: log_uri(&task.id),
        name: "log".to_owned(),
        description: format!("what the job of {} printed", task.tool),
        mime_type: Some("text/plain".to_owned()),
        size: None,
    };
    let has_artifacts = backend.as_ref().is_some_and(|backend| backend.abilities().artifacts.is_some());
    let has_log =
        task.handle().is_some() && backend.is_some_and(|backend| backend.abilities().logs.is_some());
    artifacts.filter(|_| has_artifacts).chain(has_log.then_some(log)).collect()
}

/// Returns a link to a resource of the config.
pub fn link_to(resource: &Resource) -> Content {
    let card = &resource.metadata;
    Content::ResourceLink {
        uri: resource.uri.clone(),
        name: card.name.clone(),
        description: card.description.clone().or_else(|| card.title.clone()),
        mime_type: Some(card.mime_type.clone()),
        size: Some(resource.body.size()),
    }
}

/// Returns links to the resources of the config that belong to a tool. They are added to the result of a
/// failed job.
pub fn tool_resource_links(context: &FeatureContext, tool: &str) -> Vec<Content> {
    context.catalog().resources().for_tool(tool).map(|resource| link_to(resource)).collect()
}

/// Reads the resource at an address.
///
/// # Errors
/// See [`ReadError`].
pub async fn read(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    uri: &str,
) -> Result<Contents, ReadError> {
    if let Some(contents) = read_configured(context, caller, uri)? {
        return Ok(contents);
    }
    let (id, part) = parse(uri).ok_or(ReadError::NotFound)?;
    let Some(view) = context.service.get(&CallerContext::new(context, caller), &id).await? else {
        context.not_found(&caller.owner, &id);
        return Err(ReadError::NotFound);
    };
    let audit_read = |part| context.audit.record(AuditEvent::Read { task: &view.task, part });
    match part {
        Part::Log => {
            let log = log(context, reads, &view.task, context.settings().max_log_bytes, None).await?;
            audit_read(audit::Part::Log);
            let text = if log.cut { format!("[earlier output is left out]\n{}", log.text) } else { log.text };
            Ok(Contents { mime_type: Some("text/plain".to_owned()), body: Body::Text(text), shared: false })
        }
        Part::Artifact(name) => {
            let contents = artifact(context, reads, caller, &view.task, &name).await?;
            audit_read(audit::Part::Artifact(&name));
            Ok(contents)
        }
    }
}

/// Reads a resource of the config.
fn read_configured(
    context: &FeatureContext,
    caller: &Principal,
    uri: &str,
) -> Result<Option<Contents>, ReadError> {
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    // Not every caller may read what belongs to a tool, so no shared cache may store it.
    let shared = Cell::new(true);
    let may_read = |readable: ReadableResource<'_>| {
        shared.set(readable.tools().next().is_none());
        permit.may_read(&catalog, readable)
    };
    let found = catalog.resources().read(uri, may_read);
    let found = found.map_err(|message| ReadError::Template(BadTemplate(message)))?;
    Ok(found.map(|(mime_type, body)| {
        let mime_type = Some(mime_type.to_owned());
        Contents { mime_type, body, shared: shared.get() }
    }))
}

/// Reads the end of a task's log; it is empty before the job has started. `search` selects the lines that
/// contain it. `max_bytes` cannot exceed the setting `max_log_bytes`.
///
/// # Errors
/// See [`ReadError`].
pub async fn log(
    context: &FeatureContext,
    reads: &EngineReads,
    task: &Task,
    max_bytes: usize,
    search: Option<String>,
) -> Result<LogText, ReadError> {
    let backend = backend(reads, task)?;
    let logs = backend.abilities().logs.ok_or(ReadError::NotFound)?;
    let Some(handle) = task.handle() else { return Ok(LogText::default()) };
    let request = LogRequest { max_bytes: max_bytes.min(context.settings().max_log_bytes), search };
    let LogText { text, cut } = with_timeout(logs.tail(handle, &request)).await?;
    Ok(LogText { text: sanitize(&text).into_owned(), cut })
}

/// Returns the backend of the task's job.
fn backend(reads: &EngineReads, task: &Task) -> Result<Arc<dyn Backend>, ReadError> {
    reads.backend(&task.backend).ok_or_else(|| {
        let message = "it can be read only through a server that is connected to the backend of its job";
        ReadError::Refused(message.to_owned())
    })
}

async fn artifact(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    task: &Task,
    name: &str,
) -> Result<Contents, ReadError> {
    let backend = backend(reads, task)?;
    let (Some(artifacts), Some(handle)) = (backend.abilities().artifacts, task.handle()) else {
        return Err(ReadError::NotFound);
    };
    let read = async {
        let _permit = reads.limit.acquire(caller).await;
        artifacts.read(handle, name, context.settings().max_artifact_bytes).await
    };
    let ArtifactData { bytes, mime_type } = with_timeout(read).await?.ok_or(ReadError::NotFound)?;
    let may_be_text = mime_type.as_deref().is_none_or(is_text);
    let body = match String::from_utf8(bytes) {
        Ok(text) if may_be_text => Body::Text(text),
        Ok(text) => Body::Bytes(text.into_bytes()),
        Err(error) => Body::Bytes(error.into_bytes()),
    };
    Ok(Contents { mime_type, body, shared: false })
}

async fn with_timeout<T>(future: impl Future<Output = taskbridge_sdk::Result<T>>) -> Result<T, ReadError> {
    match tokio::time::timeout(READ_TIMEOUT, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(match error.kind() {
            ErrorKind::Rejected | ErrorKind::Unsupported => ReadError::Refused(error.to_string()),
            ErrorKind::Denied | ErrorKind::Config => ReadError::Denied(error),
            ErrorKind::Limited { .. } | ErrorKind::Unavailable | ErrorKind::Uncertain => {
                ReadError::Unavailable(error.to_string())
            }
        }),
        Err(_) => Err(ReadError::Unavailable(format!("no answer within {} s", READ_TIMEOUT.as_secs()))),
    }
}

fn parse(uri: &str) -> Option<(TaskId, Part)> {
    let (id, rest) = uri.strip_prefix("taskbridge://tasks/")?.split_once('/')?;
    let part = match rest.strip_prefix("artifacts/") {
        Some(name) => Part::Artifact(percent_decode_str(name).decode_utf8().ok()?.into_owned()),
        None if rest == "log" => Part::Log,
        None => return None,
    };
    Some((TaskId::from_wire(id), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URI of a log or an artifact leads back to its task and name.
    #[test]
    fn resource_uris_round_trip() {
        let id = TaskId::from_bytes([3; 20]);
        assert_eq!(parse(&log_uri(&id)), Some((id.clone(), Part::Log)));
        for name in ["a.txt", "reports/März 50%.csv", "x?y#z", "..", "a//b"] {
            let uri = artifact_uri(&id, name);
            assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri}");
            assert_eq!(parse(&uri), Some((id.clone(), Part::Artifact(name.to_owned()))), "{uri}");
        }
        for other in ["", "file:///etc/passwd", "taskbridge://tasks/x", "taskbridge://tasks/x/logs"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
