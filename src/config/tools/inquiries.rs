//! Reads `[tools.NAME.ask.KEY]`, and `ask` of a parameter: questions to the caller before a job starts
//! ([`Inquiry`]). It must not ask anything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::shape::{Asking, Parameter};
use crate::catalog::{HEADER_KEYWORD, Inquiry, InquiryInput};
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

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
    questions: &BTreeMap<String, Asking>,
    parameters: &BTreeMap<String, Parameter>,
    askable: &AskableParameters<'_>,
) -> Vec<Inquiry> {
    let mut inquiries = Vec::new();
    for (key, question) in questions {
        let field = join(&join(field, "ask"), key);
        if let Some(inquiry) = read_question(reader, &field, key, question, askable) {
            inquiries.push(inquiry);
        }
    }
    for (name, parameter) in parameters {
        let Some(message) = &parameter.ask else { continue };
        let field = join(&join(&join(field, "parameters"), name), "ask");
        if questions.contains_key(name) {
            reader.problem(&field, format!("`ask.{name}` has the same name: remove one of the two"));
            continue;
        }
        if let Some(wants) = form(reader, &field, std::slice::from_ref(name), askable) {
            let optional = parameter.required == Some(false);
            inquiries.push(Inquiry {
                key: name.clone(),
                step: 1,
                optional,
                message: message.clone(),
                input: wants,
            });
        }
    }
    for (index, inquiry) in inquiries.iter().enumerate() {
        let is_asked_before =
            |name: &&str| inquiries[..index].iter().any(|other| other.parameters().contains(name));
        if let Some(name) = inquiry.parameters().into_iter().find(is_asked_before) {
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

fn read_question(
    reader: &mut Reader<'_>,
    field: &str,
    key: &str,
    question: &Asking,
    askable: &AskableParameters<'_>,
) -> Option<Inquiry> {
    let kinds = [
        !question.parameters.is_empty(),
        question.url.is_some(),
        question.sampling.is_some(),
        question.roots,
    ];
    if kinds.iter().filter(|given| **given).count() != 1 {
        let message = "set exactly one of `parameters` (a form), `url`, `sampling` and `roots = true`";
        reader.problem(field, message);
        return None;
    }
    let needs_parameter = question.sampling.is_some() || question.roots;
    if needs_parameter != question.parameter.is_some() {
        let message = match needs_parameter {
            true => "missing: write the parameter that receives the answer",
            false => "only allowed with `sampling` or `roots`; a form has `parameters`",
        };
        reader.problem(join(field, "parameter"), message);
        return None;
    }
    let wants = match (&question.url, &question.sampling, &question.parameter) {
        (Some(url), ..) => page(reader, field, url)?,
        (None, Some(request), Some(name)) => {
            check_sampling(reader, field, request);
            parameter(reader, &join(field, "parameter"), name, &["string"], askable)?;
            InquiryInput::Sampling { request: request.clone(), parameter: name.clone() }
        }
        (None, None, Some(name)) => {
            parameter(reader, &join(field, "parameter"), name, &["array"], askable)?;
            InquiryInput::Roots { parameter: name.clone() }
        }
        _ => form(reader, &join(field, "parameters"), &question.parameters, askable)?,
    };
    Some(Inquiry {
        key: key.to_owned(),
        step: question.step.get(),
        optional: question.optional,
        message: question.message.clone(),
        input: wants,
    })
}

fn form(
    reader: &mut Reader<'_>,
    field: &str,
    names: &[String],
    askable: &AskableParameters<'_>,
) -> Option<InquiryInput> {
    let mut schemas = Map::new();
    for name in names {
        let mut schema =
            parameter(reader, field, name, &["string", "integer", "number", "boolean"], askable)?.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove(HEADER_KEYWORD);
        }
        schemas.insert(name.clone(), schema);
    }
    Some(InquiryInput::Parameters(schemas))
}

/// Returns the schema of a parameter that must have one of these types.
fn parameter<'a>(
    reader: &mut Reader<'_>,
    field: &str,
    name: &str,
    types: &[&str],
    askable: &AskableParameters<'a>,
) -> Option<&'a Value> {
    let Some(schema) = askable.schemas.get(name) else {
        let names: Vec<&str> = askable.schemas.keys().map(String::as_str).collect();
        reader.problem(field, unknown_name("parameter", name, &names));
        return None;
    };
    if askable.hidden.contains(name) {
        let message =
            format!("`{name}` is a secret or a file, and a form must not ask for either: ask by `url`");
        reader.problem(field, message);
        return None;
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
    if !types.contains(&kind) {
        let message =
            format!("`{name}` is of type {kind}, but this kind of question needs type {}", types.join(", "));
        reader.problem(field, message);
        return None;
    }
    Some(schema)
}

/// The page must be secure, because its URL is sent to a person (MCP, elicitation, "Safe URL Handling").
fn page(reader: &mut Reader<'_>, field: &str, url: &str) -> Option<InquiryInput> {
    let local = ["http://localhost", "http://127.0.0.1", "http://[::1]"];
    let is_local = local.iter().any(|host| {
        url.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '?']))
    });
    let is_secure = url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
    if !(is_secure || is_local) || url.contains(char::is_whitespace) {
        let message = format!("\"{url}\" is not the address of a page: write one that begins with https://");
        reader.problem(join(field, "url"), message);
        return None;
    }
    Some(InquiryInput::Page { url: url.to_owned() })
}

/// MCP's `CreateMessageRequestParams` needs these two.
fn check_sampling(reader: &mut Reader<'_>, field: &str, request: &Map<String, Value>) {
    let field = join(field, "sampling");
    let messages = request.get("messages").and_then(Value::as_array);
    if messages.is_none_or(Vec::is_empty) {
        reader.problem(&field, "missing field `messages`: a list of { role, content }");
    }
    if !request.get("maxTokens").is_some_and(Value::is_u64) {
        reader.problem(&field, "missing field `maxTokens`: the maximum length of the model's reply");
    }
}
