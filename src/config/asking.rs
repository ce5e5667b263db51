//! Reads `[tools.NAME.ask.KEY]`, and `ask` of a parameter: questions to the caller before a job starts
//! ([`Inquiry`]). It must not ask anything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::problem::unknown;
use super::reader::Reader;
use super::source::join;
use super::tool_shape::{Asking, Parameter};
use crate::catalog::{HEADER_KEYWORD, Inquiry, Wants};

/// The parameters of a tool, of which a question can request those that are not hidden.
pub(super) struct AskableParameters<'a> {
    /// The schemas of all parameters, by name.
    pub(super) schemas: &'a Map<String, Value>,
    /// Parameters that are secrets or files.
    pub(super) hidden: &'a BTreeSet<String>,
}

/// Reads the questions of a tool in their order, and reports errors.
pub(super) fn read(
    reader: &mut Reader<'_>,
    field: &str,
    asked: &BTreeMap<String, Asking>,
    parameters: &BTreeMap<String, Parameter>,
    known: &AskableParameters<'_>,
) -> Vec<Inquiry> {
    let mut inquiries = Vec::new();
    for (key, asking) in asked {
        let field = join(&join(field, "ask"), key);
        if let Some(inquiry) = one(reader, &field, key, asking, known) {
            inquiries.push(inquiry);
        }
    }
    for (name, parameter) in parameters {
        let Some(message) = &parameter.ask else { continue };
        let field = join(&join(&join(field, "parameters"), name), "ask");
        if asked.contains_key(name) {
            reader
                .problem(&field, format!("`ask.{name}` asks under this name already: remove one of the two"));
            continue;
        }
        if let Some(wants) = form(reader, &field, std::slice::from_ref(name), known) {
            let optional = parameter.required == Some(false);
            inquiries.push(Inquiry { key: name.clone(), step: 1, optional, message: message.clone(), wants });
        }
    }
    for (index, inquiry) in inquiries.iter().enumerate() {
        let taken = |name: &&str| inquiries[..index].iter().any(|other| other.parameters().contains(name));
        if let Some(name) = inquiry.parameters().into_iter().find(taken) {
            let field = join(&join(field, "ask"), &inquiry.key);
            reader.problem(
                field,
                format!("the parameter `{name}` is asked for twice: ask for it in one place"),
            );
        }
    }
    inquiries.sort_by_key(|inquiry| inquiry.step);
    inquiries
}

fn one(
    reader: &mut Reader<'_>,
    field: &str,
    key: &str,
    asking: &Asking,
    known: &AskableParameters<'_>,
) -> Option<Inquiry> {
    let kinds =
        [!asking.parameters.is_empty(), asking.url.is_some(), asking.sampling.is_some(), asking.roots];
    if kinds.iter().filter(|given| **given).count() != 1 {
        let message =
            "say what is wanted: one of `parameters` (a form), `url`, `sampling` and `roots = true`";
        reader.problem(field, message);
        return None;
    }
    let takes_one = asking.sampling.is_some() || asking.roots;
    if takes_one != asking.parameter.is_some() {
        let message = match takes_one {
            true => "missing: name the parameter that takes the answer",
            false => "it goes with `sampling` or `roots`; a form has `parameters`",
        };
        reader.problem(join(field, "parameter"), message);
        return None;
    }
    let wants = match (&asking.url, &asking.sampling, &asking.parameter) {
        (Some(url), ..) => page(reader, field, url)?,
        (None, Some(request), Some(name)) => {
            check_sampling(reader, field, request);
            parameter(reader, &join(field, "parameter"), name, &["string"], known)?;
            Wants::Sampling { request: request.clone(), parameter: name.clone() }
        }
        (None, None, Some(name)) => {
            parameter(reader, &join(field, "parameter"), name, &["array"], known)?;
            Wants::Roots { parameter: name.clone() }
        }
        _ => form(reader, &join(field, "parameters"), &asking.parameters, known)?,
    };
    Some(Inquiry {
        key: key.to_owned(),
        step: asking.step.get(),
        optional: asking.optional,
        message: asking.message.clone(),
        wants,
    })
}

fn form(
    reader: &mut Reader<'_>,
    field: &str,
    names: &[String],
    known: &AskableParameters<'_>,
) -> Option<Wants> {
    let mut schemas = Map::new();
    for name in names {
        let mut schema =
            parameter(reader, field, name, &["string", "integer", "number", "boolean"], known)?.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove(HEADER_KEYWORD);
        }
        schemas.insert(name.clone(), schema);
    }
    Some(Wants::Parameters(schemas))
}

/// Returns the schema of a parameter that must have one of these types.
fn parameter<'a>(
    reader: &mut Reader<'_>,
    field: &str,
    name: &str,
    types: &[&str],
    known: &AskableParameters<'a>,
) -> Option<&'a Value> {
    let Some(schema) = known.schemas.get(name) else {
        let names: Vec<&str> = known.schemas.keys().map(String::as_str).collect();
        reader.problem(field, unknown("parameter", name, &names));
        return None;
    };
    if known.hidden.contains(name) {
        let message =
            format!("`{name}` is a secret or a file, and a form must not ask for either: ask by `url`");
        reader.problem(field, message);
        return None;
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
    if !types.contains(&kind) {
        let message = format!(
            "`{name}` is of type {kind}, and what is asked like this is of type {}",
            types.join(", ")
        );
        reader.problem(field, message);
        return None;
    }
    Some(schema)
}

/// The page must be secure, because its URL is sent to a person (MCP, elicitation, "Safe URL Handling").
fn page(reader: &mut Reader<'_>, field: &str, url: &str) -> Option<Wants> {
    let local = ["http://localhost", "http://127.0.0.1", "http://[::1]"];
    let is_local = local.iter().any(|host| {
        url.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '?']))
    });
    let is_secure = url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
    if !(is_secure || is_local) || url.contains(char::is_whitespace) {
        let message = format!("\"{url}\" is not the address of a page: it begins with https://");
        reader.problem(join(field, "url"), message);
        return None;
    }
    Some(Wants::Page { url: url.to_owned() })
}

/// MCP's `CreateMessageRequestParams` needs these two.
fn check_sampling(reader: &mut Reader<'_>, field: &str, request: &Map<String, Value>) {
    let field = join(field, "sampling");
    let messages = request.get("messages").and_then(Value::as_array);
    if messages.is_none_or(Vec::is_empty) {
        reader.problem(&field, "missing field `messages`: a list of { role, content }");
    }
    if !request.get("maxTokens").is_some_and(Value::is_u64) {
        reader.problem(&field, "missing field `maxTokens`: how much the model may say at most");
    }
}
