//! `resources/list`, `resources/templates/list` and `resources/read` in every generation: resources of the
//! config, and logs and artifacts of the caller's tasks.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::list::{self, ListError, ResourceEntry, TemplateEntry};
use super::{Body, Link, ReadError};
use crate::catalog::ResourceMetadata;
use crate::mcp::features::dialect::{Cache, Dialect};
use crate::mcp::features::results::internal_error::{internal_error, store_error};
use crate::mcp::features::tools::list::LIST_CACHE_TTL;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};
use crate::mcp::wire::{params, types};

/// What belongs to tasks is not cached: it changes with them.
const TASK_DATA: Cache = Cache { ttl: Duration::ZERO, is_public: false };
/// Resources of the config are cached for a while: they change when the config does.
const CONFIG_DATA: Cache = Cache { ttl: Duration::from_secs(60), is_public: true };

/// `resources/list`.
///
/// # Errors
/// If the cursor is invalid, or the store fails.
pub async fn list(request: &dyn Dialect, params: &Value) -> Outcome {
    let cursor = params::cursor(params)?;
    let page = list::page(request.context(), request.reads(), request.principal(), cursor).await;
    let page = page.map_err(|error| match error {
        ListError::Cursor => params::invalid_cursor(),
        ListError::Store(error) => store_error(error),
    })?;
    let titles = request.has_titles();
    let resources = page.entries.iter().map(|entry| resource(titles, entry)).collect();
    Ok(request.result(types::page("resources", resources, page.next_cursor), Some(TASK_DATA)))
}

/// `Resource`.
fn resource(titles: bool, entry: &ResourceEntry) -> Value {
    types::without_nulls(match entry {
        ResourceEntry::Fixed(resource) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &resource.metadata;
            json!({
                "uri": resource.uri,
                "name": name,
                "title": title.as_ref().filter(|_| titles),
                "description": description,
                "mimeType": mime_type,
                "annotations": annotations(titles, &resource.metadata),
                "size": resource.body.size(),
            })
        }
        ResourceEntry::OfTask(Link { uri, name, description, mime_type, size }) => json!({
            "uri": uri,
            "name": name,
            "description": description,
            "mimeType": mime_type,
            "size": size,
        }),
    })
}

/// `resources/templates/list`.
///
/// # Errors
/// If the cursor is invalid.
pub fn templates(request: &dyn Dialect, params: &Value) -> Outcome {
    let cursor = params::cursor(params)?;
    let page = list::templates(request.context(), request.principal(), cursor);
    let page = page.ok_or_else(params::invalid_cursor)?;
    let titles = request.has_titles();
    let templates = page.entries.iter().map(|entry| template(titles, entry)).collect();
    let body = types::page("resourceTemplates", templates, page.next_cursor);
    let is_public = request.context().catalog().is_open();
    Ok(request.result(body, Some(Cache { ttl: LIST_CACHE_TTL, is_public })))
}

/// `ResourceTemplate`.
fn template(titles: bool, entry: &TemplateEntry) -> Value {
    types::without_nulls(match entry {
        TemplateEntry::Configured(template) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &template.metadata;
            json!({
                "uriTemplate": template.pattern.text(),
                "name": name,
                "title": title.as_ref().filter(|_| titles),
                "description": description,
                "mimeType": mime_type,
                "annotations": annotations(titles, &template.metadata),
            })
        }
        TemplateEntry::Builtin(template) => json!({
            "uriTemplate": template.uri_template,
            "name": template.name,
            "description": template.description,
            "mimeType": template.mime_type,
        }),
    })
}

/// `Annotations`, if there are any.
fn annotations(titles: bool, metadata: &ResourceMetadata) -> Option<Value> {
    let hints = &metadata.annotations;
    let annotations = types::without_nulls(json!({
        "audience": types::non_empty(&hints.audience),
        "priority": hints.priority,
        // It came to the protocol together with titles.
        "lastModified": hints.last_modified.filter(|_| titles).map(|at| at.to_string()),
    }));
    Some(annotations).filter(|annotations| *annotations != json!({}))
}

/// `resources/read`.
///
/// # Errors
/// If the resource cannot be read; see [`read_error`].
pub async fn read(request: &dyn Dialect, params: &Value) -> Outcome {
    let uri = params::text(params, "uri", "the address of a resource")?;
    let contents = super::read(request.context(), request.reads(), request.principal(), uri).await;
    let contents = contents.map_err(|problem| read_error(request, uri, &problem))?;
    let cache = if contents.shared { CONFIG_DATA } else { TASK_DATA };
    let mut content = types::without_nulls(json!({ "uri": uri, "mimeType": contents.mime_type }));
    // The body may be large: it is moved, where `json!` would copy it.
    match contents.body {
        Body::Text(text) => content["text"] = Value::String(text),
        Body::Bytes(bytes) => content["blob"] = Value::String(STANDARD.encode(bytes)),
    }
    let mut result = json!({});
    result["contents"] = Value::Array(vec![content]);
    Ok(request.result(result, Some(cache)))
}

/// Returns the error for a resource that cannot be read.
pub fn read_error(request: &dyn Dialect, uri: &str, problem: &ReadError) -> Error {
    let code = match problem {
        ReadError::NotFound => request.resource_not_found(),
        ReadError::Refused(_) => INVALID_PARAMS,
        ReadError::Unavailable(_) => INTERNAL_ERROR,
        ReadError::Denied(cause) => return internal_error(cause),
        ReadError::Template(cause) => return internal_error(cause),
        ReadError::Store(cause) => return internal_error(cause),
    };
    Error { code, message: problem.to_string(), data: Some(json!({ "uri": uri })) }
}
