//! Reads `[resources.NAME]` into resources and resource templates, and reports all errors that are detectable
//! before the server starts.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use taskbridge_sdk::{Timestamp, is_text, media_type};

use super::shape::{self, AcceptedValues};
use super::values::{self, Tools};
use crate::catalog::{
    Annotations, Argument, Body, Pattern, Resource, ResourceMetadata, ResourceTemplate, Resources, Template,
    Values, address,
};
use crate::config::reading::files;
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

/// The URI scheme that is reserved for the server.
const SERVER_SCHEME: &str = "taskbridge:";

/// Reads all resources.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    tables: Map<String, Value>,
    dir: &Path,
    tools: Tools<'_>,
) -> Resources {
    let (mut fixed, mut patterns) = (Vec::new(), Vec::new());
    let mut uris: HashMap<String, String> = HashMap::new();
    for (name, value) in tables {
        let field = join("resources", &name);
        check_name(reader, &field, &name);
        let Some(resource) = reader.read::<shape::Resource>(&field, value) else { continue };
        if resource.uri.starts_with(SERVER_SCHEME) {
            let message = "this scheme is reserved for logs and artifacts: choose another one";
            reader.problem(join(&field, "uri"), message);
        } else if let Some(other) = uris.insert(resource.uri.clone(), name.clone()) {
            reader.problem(join(&field, "uri"), format!("`{other}` has the same URI: choose another"));
        }
        check_tools(reader, &field, &resource.tools, tools);
        if resource.annotations.priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            reader.problem(format!("{field}.annotations.priority"), "must be a number from 0 to 1");
        }
        if resource.uri.contains(['{', '}']) {
            patterns.extend(read_template(reader, &field, &name, resource, dir, tools));
        } else {
            fixed.extend(read_fixed(reader, &field, &name, resource, dir));
        }
    }
    Resources::new(fixed, patterns)
}

/// Validates the name of a resource or a prompt. Names of tools have the same rule, and some are reserved.
pub(super) fn check_name(reader: &mut Reader<'_>, field: &str, name: &str) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(allowed) {
        reader.problem(field, "a name has 1 to 128 letters, digits, `_`, `-` or `.`");
    }
}

fn check_tools(reader: &mut Reader<'_>, field: &str, referenced: &[String], tools: Tools<'_>) {
    let names: Vec<&str> = tools.names.iter().map(String::as_str).collect();
    for (index, name) in referenced.iter().enumerate() {
        if !names.contains(&name.as_str()) {
            reader.problem(format!("{field}.tools[{index}]"), unknown_name("tool", name, &names));
        }
    }
}

/// Reads a resource with a fixed URI.
fn read_fixed(
    reader: &mut Reader<'_>,
    field: &str,
    name: &str,
    resource: shape::Resource,
    dir: &Path,
) -> Option<Resource> {
    if let Err(message) = address::check(&resource.uri) {
        reader.problem(join(field, "uri"), message);
    }
    if let Some(place) = resource.places.keys().next() {
        let message = format!("the URI has no placeholder `{{{place}}}`");
        reader.problem(join(&join(field, "places"), place), message);
    }
    let (body, modified) = content(reader, field, &resource, dir)?;
    let mime_type = mime_type(&resource, matches!(body, Content::Text(_)));
    let body = match body {
        Content::Text(text) => Body::Text(text),
        Content::Bytes(bytes) if is_text(&mime_type) => match String::from_utf8(bytes) {
            Ok(text) => Body::Text(text),
            Err(_) => {
                let message =
                    format!("not text in UTF-8, which its media type {mime_type} requires: set `mime_type`");
                reader.problem(field, message);
                return None;
            }
        },
        Content::Bytes(bytes) => Body::Bytes(bytes),
    };
    let (uri, tools) = (resource.uri.clone(), resource.tools.clone());
    Some(Resource { metadata: metadata(name, resource, mime_type, modified), uri, body, tools })
}

/// Reads a template for all URIs of a pattern.
fn read_template(
    reader: &mut Reader<'_>,
    field: &str,
    name: &str,
    resource: shape::Resource,
    dir: &Path,
    tools: Tools<'_>,
) -> Option<ResourceTemplate> {
    if !resource.tools.is_empty() {
        let message = "a resource with placeholders has no fixed URI for a tool to link: remove this, or the placeholders";
        reader.problem(join(field, "tools"), message);
    }
    let pattern = match Pattern::parse(&resource.uri) {
        Ok(pattern) => pattern,
        Err(message) => {
            reader.problem(join(field, "uri"), message);
            return None;
        }
    };
    let places: Vec<&str> = pattern.names().collect();
    for placeholder in resource.places.keys().filter(|name| !places.contains(&name.as_str())) {
        reader.problem(
            join(&join(field, "places"), placeholder),
            unknown_name("placeholder", placeholder, &places),
        );
    }
    let parameters =
        places.iter().map(|name| read_placeholder(reader, field, name, resource.places.get(*name), tools));
    let parameters = parameters.collect();
    let text = match content(reader, field, &resource, dir)? {
        (Content::Text(text), _) => text,
        (Content::Bytes(bytes), _) => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => {
                reader.problem(field, "a template must be text in UTF-8");
                return None;
            }
        },
    };
    let source = if resource.file.is_some() { "file" } else { "text" };
    let text = text_template(reader, &join(field, source), text, "placeholder", &places)?;
    let mime_type = mime_type(&resource, true);
    Some(ResourceTemplate { metadata: metadata(name, resource, mime_type, None), pattern, parameters, text })
}

/// Parses a text template that may only use these names.
pub(super) fn text_template(
    reader: &mut Reader<'_>,
    field: &str,
    text: String,
    what: &str,
    known: &[&str],
) -> Option<Template> {
    let template = match Template::new(text) {
        Ok(template) => template,
        Err(message) => {
            reader.problem(field, message);
            return None;
        }
    };
    for name in template.names() {
        if !known.contains(&name.as_str()) {
            reader.problem(field, unknown_name(what, name, known));
        }
    }
    Some(template)
}

fn read_placeholder(
    reader: &mut Reader<'_>,
    field: &str,
    name: &str,
    placeholder: Option<&AcceptedValues>,
    tools: Tools<'_>,
) -> Argument {
    let field = join(&join(field, "places"), name);
    let tool = values::tool_name(placeholder.and_then(|place| place.same_as.as_deref()));
    let (values, description) = match placeholder {
        None => (Values::Any, None),
        Some(fields) => values::read(reader, &field, fields, tools),
    };
    Argument { name: name.to_owned(), title: None, description, required: true, default: None, values, tool }
}

/// The content of a resource before its media type is known.
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

fn content(
    reader: &mut Reader<'_>,
    field: &str,
    resource: &shape::Resource,
    dir: &Path,
) -> Option<(Content, Option<Timestamp>)> {
    match (&resource.text, &resource.file, &resource.blob) {
        (Some(text), None, None) => Some((Content::Text(text.clone()), None)),
        (None, Some(file), None) => {
            let loaded_file = files::read(reader, &join(field, "file"), dir.join(file))?;
            Some((Content::Bytes(loaded_file.bytes), loaded_file.modified))
        }
        (None, None, Some(blob)) => match STANDARD.decode(blob.split_whitespace().collect::<String>()) {
            Ok(bytes) => Some((Content::Bytes(bytes), None)),
            Err(_) => {
                reader.problem(join(field, "blob"), "not base64 (standard alphabet, padded)");
                None
            }
        },
        (None, None, None) => {
            reader.problem(field, "no content: set `text`, `file` or `blob`");
            None
        }
        _ => {
            reader.problem(field, "more than one content: keep one of `text`, `file` and `blob`");
            None
        }
    }
}

fn mime_type(resource: &shape::Resource, is_text: bool) -> String {
    let by_name = || resource.file.as_ref().and_then(|file| media_type(file.to_str()?));
    let by_content = if is_text { "text/plain" } else { "application/octet-stream" };
    resource.mime_type.clone().unwrap_or_else(|| by_name().unwrap_or(by_content).to_owned())
}

fn metadata(
    name: &str,
    resource: shape::Resource,
    mime_type: String,
    modified: Option<Timestamp>,
) -> ResourceMetadata {
    let shape::Annotations { audience, priority } = resource.annotations;
    ResourceMetadata {
        name: name.to_owned(),
        title: resource.title,
        description: resource.description,
        mime_type,
        annotations: Annotations { audience, priority, last_modified: modified },
    }
}
