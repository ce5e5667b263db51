//! `resources/list`, `resources/templates/list` and `resources/read`: resources of the config, and logs and
//! artifacts of the caller's tasks.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::lifecycle::LIST_CACHE_TTL;
use super::wire::CacheScope;
use super::{StatelessCall, from_wire, to_wire, wire};
use crate::catalog::ResourceMetadata;
use crate::mcp::features::resources;
use crate::mcp::features::resources::list;
use crate::mcp::features::resources::list::{ListError, ResourceEntry, TemplateEntry};
use crate::mcp::features::resources::{Body, Link, ReadError};
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};

/// Cache time of what belongs to tasks, which changes with them.
const TASK_CACHE_TTL: Duration = Duration::ZERO;
/// Cache time of resources of the config, which change when the config does.
const CONFIG_CACHE_TTL: Duration = Duration::from_secs(60);

/// `resources/list`.
pub(super) async fn list(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = list::page(call.bridge, &call.caller.principal, cursor).await;
    let page = page.map_err(|error| match error {
        ListError::Cursor => from_wire::invalid_cursor(),
        ListError::Store(error) => call.fault(&error),
    })?;
    let resources = page.entries.iter().map(resource).collect();
    let result = wire::ListResourcesResult { resources, next_cursor: page.next_cursor };
    Ok(to_wire::cacheable(result, TASK_CACHE_TTL, CacheScope::Private))
}

fn resource(entry: &ResourceEntry) -> wire::Resource<'_> {
    match entry {
        ResourceEntry::Fixed(resource) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &resource.metadata;
            wire::Resource {
                uri: &resource.uri,
                name,
                title: title.as_deref(),
                description: description.as_deref(),
                mime_type: Some(mime_type),
                annotations: annotations(&resource.metadata),
                size: Some(resource.body.size()),
            }
        }
        ResourceEntry::OfTask(Link { uri, name, description, mime_type, size }) => wire::Resource {
            uri,
            name,
            title: None,
            description: Some(description),
            mime_type: mime_type.as_deref(),
            annotations: None,
            size: *size,
        },
    }
}

/// `resources/templates/list`.
pub(super) fn templates(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = list::templates(call.bridge, &call.caller.principal, cursor);
    let page = page.ok_or_else(from_wire::invalid_cursor)?;
    let resource_templates = page.entries.iter().map(template).collect();
    let result = wire::ListResourceTemplatesResult { resource_templates, next_cursor: page.next_cursor };
    Ok(to_wire::cacheable(result, LIST_CACHE_TTL, call.scope()))
}

fn template(entry: &TemplateEntry) -> wire::ResourceTemplate<'_> {
    match entry {
        TemplateEntry::Configured(template) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &template.metadata;
            wire::ResourceTemplate {
                uri_template: template.pattern.text(),
                name,
                title: title.as_deref(),
                description: description.as_deref(),
                mime_type: Some(mime_type),
                annotations: annotations(&template.metadata),
            }
        }
        TemplateEntry::Builtin(builtin) => wire::ResourceTemplate {
            uri_template: builtin.uri_template,
            name: builtin.name,
            title: None,
            description: Some(builtin.description),
            mime_type: builtin.mime_type,
            annotations: None,
        },
    }
}

fn annotations(card: &ResourceMetadata) -> Option<wire::Annotations<'_>> {
    let hints = &card.annotations;
    let last_modified = hints.last_modified.map(|at| at.to_string());
    let has_hints = !hints.audience.is_empty() || hints.priority.is_some() || last_modified.is_some();
    has_hints.then_some(wire::Annotations {
        audience: &hints.audience,
        priority: hints.priority,
        last_modified,
    })
}

/// `resources/read`.
pub(super) async fn read(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    let contents = match resources::read(call.bridge, &call.caller.principal, uri).await {
        Ok(contents) => contents,
        Err(problem) => return Err(read_error(call, uri, &problem)),
    };
    let (ttl, scope) = if contents.shared {
        (CONFIG_CACHE_TTL, CacheScope::Public)
    } else {
        (TASK_CACHE_TTL, CacheScope::Private)
    };
    let (text, blob) = match contents.body {
        Body::Text(text) => (Some(text), None),
        Body::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    let contents = [wire::ResourceContents { uri, mime_type: contents.mime_type, text, blob }];
    Ok(to_wire::cacheable(wire::ReadResourceResult { contents }, ttl, scope))
}

fn read_error(call: &StatelessCall<'_>, uri: &str, problem: &ReadError) -> Error {
    let code = match problem {
        ReadError::NotFound | ReadError::Refused(_) => INVALID_PARAMS,
        ReadError::Unavailable(_) => INTERNAL_ERROR,
        ReadError::Denied(cause) => return call.fault(cause),
        ReadError::Template(cause) => return call.fault(cause),
        ReadError::Store(cause) => return call.fault(cause),
    };
    Error { code, message: problem.to_string(), data: Some(json!({ "uri": uri })) }
}
