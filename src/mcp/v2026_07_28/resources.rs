//! `resources/list`, `resources/templates/list` and `resources/read`: the logs and artifacts of the caller's tasks.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use taskbridge_sdk::Output;

use super::lifecycle::FRESH;
use super::wire::CacheScope;
use super::{Call, from_wire, to_wire, wire};
use crate::mcp::cursor;
use crate::mcp::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};
use crate::mcp::resources::{self, Body, Link, ReadError};
use crate::tasks::store::StoreError;
use crate::tasks::task::Task;

/// The list that cursors of `resources/list` are for.
const LIST: &str = "resources/list";
/// What belongs to tasks changes with them.
const STALE: Duration = Duration::ZERO;

/// `resources/list`: a page is what belongs to one page of tasks, newest first. Empty where callers cannot be told
/// apart.
pub(super) async fn list(call: &Call<'_>, params: &Value) -> Outcome {
    let bridge = call.bridge;
    let after = match from_wire::cursor(params)? {
        None => None,
        Some(cursor) => Some(
            cursor::position(&bridge.seal, LIST, call.owner(), cursor).ok_or_else(from_wire::bad_cursor)?,
        ),
    };
    if !call.asker.principal.identified {
        return Ok(to_wire::cacheable(wire::ListResourcesResult::default(), STALE, CacheScope::Private));
    }
    let size = bridge.settings().page_size;
    let listed = bridge.service.list(call.owner(), after.as_ref(), size + 1).await;
    let mut views = listed.map_err(|error| call.fault(&error))?;
    let more = views.len() > size;
    views.truncate(size);
    let mut resources = Vec::new();
    for view in &views {
        let output = output(call, &view.task).await.map_err(|error| call.fault(&error))?;
        let links = resources::links(bridge, &view.task, output.as_ref());
        resources.extend(links.into_iter().map(|link| resource(&view.task, link)));
    }
    let next_cursor = views.last().filter(|_| more).map(|view| cursor::after(&bridge.seal, LIST, &view.task));
    let result = wire::ListResourcesResult { resources, next_cursor };
    Ok(to_wire::cacheable(result, STALE, CacheScope::Private))
}

/// What names the artifacts of a task; not read where there can be none.
async fn output(call: &Call<'_>, task: &Task) -> Result<Option<Output>, StoreError> {
    let backend = call.bridge.backend(&task.backend);
    if task.has_ended() && backend.is_some_and(|backend| backend.artifacts().is_some()) {
        call.bridge.service.output(task).await
    } else {
        Ok(None)
    }
}

fn resource(task: &Task, link: Link) -> wire::Resource {
    let Link { uri, name, description, mime_type, size } = link;
    let description = format!("{description}, task of {}", task.created_at);
    wire::Resource { uri, name, description, mime_type, size }
}

/// `resources/templates/list`: all there are.
pub(super) fn templates(params: &Value) -> Outcome {
    if from_wire::cursor(params)?.is_some() {
        return Err(from_wire::bad_cursor());
    }
    let resource_templates = vec![
        wire::ResourceTemplate {
            uri_template: resources::LOG_TEMPLATE,
            name: "log",
            description: "The end of what a task's job has printed.",
            mime_type: Some("text/plain"),
        },
        wire::ResourceTemplate {
            uri_template: resources::ARTIFACT_TEMPLATE,
            name: "artifact",
            description: "A file that a task's job left.",
            mime_type: None,
        },
    ];
    let result = wire::ListResourceTemplatesResult { resource_templates };
    Ok(to_wire::cacheable(result, FRESH, CacheScope::Public))
}

/// `resources/read`.
pub(super) async fn read(call: &Call<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    let contents = match resources::read(call.bridge, &call.asker.principal, uri).await {
        Ok(contents) => contents,
        Err(problem) => return Err(read_error(call, uri, &problem)),
    };
    let (text, blob) = match contents.body {
        Body::Text(text) => (Some(text), None),
        Body::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    let contents = [wire::ResourceContents { uri, mime_type: contents.mime_type, text, blob }];
    Ok(to_wire::cacheable(wire::ReadResourceResult { contents }, STALE, CacheScope::Private))
}

fn read_error(call: &Call<'_>, uri: &str, problem: &ReadError) -> Error {
    let code = match problem {
        ReadError::NotFound | ReadError::Refused(_) => INVALID_PARAMS,
        ReadError::Unavailable(_) => INTERNAL_ERROR,
        ReadError::Denied(cause) => return call.fault(cause),
        ReadError::Template(cause) => return call.fault(cause),
        ReadError::Store(cause) => return call.fault(cause),
    };
    Error { code, message: problem.to_string(), data: Some(json!({ "uri": uri })) }
}
