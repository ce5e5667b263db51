//! `resources/list`, `resources/templates/list`, `resources/read`, `resources/subscribe` and
//! `resources/unsubscribe`: resources of the config, and logs and artifacts of the caller's tasks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{SessionCall, from_wire, to_wire, wire};
use crate::catalog::ResourceMetadata;
use crate::mcp::features::resources;
use crate::mcp::features::resources::list;
use crate::mcp::features::resources::list::{ListError, ResourceEntry, TemplateEntry};
use crate::mcp::features::resources::{Body, Link, ReadError};
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};
use crate::mcp::wire::revision::Revision;
use crate::tasks::store::SessionChange;

/// Error code for a resource that does not exist.
const NOT_FOUND: i32 = -32002;

/// `resources/list`.
pub(super) async fn list(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = list::page(call.bridge, &call.caller.principal, cursor).await;
    let page = page.map_err(|error| match error {
        ListError::Cursor => from_wire::invalid_cursor(),
        ListError::Store(error) => call.fault(&error),
    })?;
    let resources = page.entries.iter().map(|entry| resource(call.revision(), entry)).collect();
    Ok(to_wire::value(&wire::ListResourcesResult { resources, next_cursor: page.next_cursor }))
}

fn resource(revision: Revision, entry: &ResourceEntry) -> wire::Resource<'_> {
    match entry {
        ResourceEntry::Fixed(resource) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &resource.metadata;
            wire::Resource {
                uri: &resource.uri,
                name,
                title: title.as_deref().filter(|_| has_titles(revision)),
                description: description.as_deref(),
                mime_type: Some(mime_type),
                annotations: annotations(revision, &resource.metadata),
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
pub(super) fn templates(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = list::templates(call.bridge, &call.caller.principal, cursor);
    let page = page.ok_or_else(from_wire::invalid_cursor)?;
    let resource_templates = page.entries.iter().map(|entry| template(call.revision(), entry)).collect();
    Ok(to_wire::value(&wire::ListResourceTemplatesResult {
        resource_templates,
        next_cursor: page.next_cursor,
    }))
}

fn template(revision: Revision, entry: &TemplateEntry) -> wire::ResourceTemplate<'_> {
    match entry {
        TemplateEntry::Configured(template) => {
            let ResourceMetadata { name, title, description, mime_type, .. } = &template.metadata;
            wire::ResourceTemplate {
                uri_template: template.pattern.text(),
                name,
                title: title.as_deref().filter(|_| has_titles(revision)),
                description: description.as_deref(),
                mime_type: Some(mime_type),
                annotations: annotations(revision, &template.metadata),
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

/// Returns true if objects with a name can have a title in this revision.
pub(super) fn has_titles(revision: Revision) -> bool {
    revision >= Revision::V2025_06_18
}

fn annotations(revision: Revision, card: &ResourceMetadata) -> Option<wire::Annotations<'_>> {
    let hints = &card.annotations;
    // The modification time came to the protocol together with titles.
    let last_modified = hints.last_modified.filter(|_| has_titles(revision)).map(|at| at.to_string());
    let has_hints = !hints.audience.is_empty() || hints.priority.is_some() || last_modified.is_some();
    has_hints.then_some(wire::Annotations {
        audience: &hints.audience,
        priority: hints.priority,
        last_modified,
    })
}

/// `resources/read`.
pub(super) async fn read(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    let contents = match resources::read(call.bridge, &call.caller.principal, uri).await {
        Ok(contents) => contents,
        Err(problem) => return Err(read_error(call, uri, &problem)),
    };
    let (text, blob) = match contents.body {
        Body::Text(text) => (Some(text), None),
        Body::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    let contents = [wire::ResourceContents { uri, mime_type: contents.mime_type, text, blob }];
    Ok(to_wire::value(&wire::ReadResourceResult { contents }))
}

/// `resources/subscribe`: from now on the session's listening stream reports changes of the resource.
pub(super) async fn subscribe(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    let settings = call.bridge.settings();
    let (limit, max_bytes) = (settings.limits.max_followed_resources, settings.limits.max_url_bytes);
    if uri.len() > max_bytes {
        let length = uri.len();
        let message = format!(
            "the address has {length} bytes, and one that is followed may have {max_bytes} (max_url_bytes in [limits])"
        );
        return Err(from_wire::invalid(message));
    }
    let exists = resources::exists(call.bridge, &call.caller.principal, uri).await;
    if !exists.map_err(|error| call.fault(&error))? {
        return Err(read_error(call, uri, &ReadError::NotFound));
    }
    if !call.set(SessionChange::Subscribe(uri.to_owned(), limit)).await? {
        call.bridge.audit.limit_exceeded("max_followed_resources");
        let message = format!(
            "this session is subscribed to {limit} resources, and there may be no more (max_followed_resources in [limits]): \
             unsubscribe from one first"
        );
        return Err(from_wire::invalid(message));
    }
    Ok(Value::Object(Map::new()))
}

/// `resources/unsubscribe`: an unknown subscription is not an error.
pub(super) async fn unsubscribe(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    call.set(SessionChange::Unsubscribe(uri.to_owned())).await?;
    Ok(Value::Object(Map::new()))
}

fn read_error(call: &SessionCall<'_>, uri: &str, problem: &ReadError) -> Error {
    let code = match problem {
        ReadError::NotFound => NOT_FOUND,
        ReadError::Refused(_) => INVALID_PARAMS,
        ReadError::Unavailable(_) => INTERNAL_ERROR,
        ReadError::Denied(cause) => return call.fault(cause),
        ReadError::Template(cause) => return call.fault(cause),
        ReadError::Store(cause) => return call.fault(cause),
    };
    Error { code, message: problem.to_string(), data: Some(json!({ "uri": uri })) }
}
