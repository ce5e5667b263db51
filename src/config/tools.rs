//! Reads `[tools.NAME]` into a tool's [`Definition`], and reports all errors that are detectable before the
//! server starts.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::{Map, Value, json};
use taskbridge_sdk::Registry;

use super::access::{self, PossibleCallers};
use super::backends::PartialBackend;
use super::owner_limits::OwnerLimits;
use super::parameters;
use super::problem::{quoted_list, unknown_name};
use super::reader::{ParseError, Reader};
use super::shape::{ConcurrencyGroup, Lifetime};
use super::source::join;
use super::tool_shape::{Annotations, SchemaSource, Tool};
use super::{Backend, files, inquiries, slots};
use crate::access::Rules;
use crate::catalog::{
    self, COMPANION_TOOLS, Confirm, Definition, Inquiry, MirroredParameter, Schema, TermsRule,
};
use crate::tasks::store::Quota;

/// The objects that tools can refer to.
pub(super) struct Context<'a> {
    /// The adapters.
    pub(super) registry: &'a Registry,
    /// The folder of the config file.
    pub(super) dir: &'a Path,
    /// The valid backends.
    pub(super) backends: &'a BTreeMap<String, Backend>,
    /// The known parts of the invalid backends.
    pub(super) faulty: &'a BTreeMap<String, PartialBackend>,
    /// The names of all backends, valid or not.
    pub(super) backend_names: &'a [String],
    /// The groups with a table in the config.
    pub(super) groups: &'a BTreeMap<String, ConcurrencyGroup>,
    /// Default and limits of lifetimes.
    pub(super) lifetime: &'a Lifetime,
    /// The default access rules.
    pub(super) access: &'a Rules,
    /// The possible callers.
    pub(super) callers: &'a PossibleCallers,
    /// Limits per owner.
    pub(super) owner: &'a OwnerLimits,
}

/// A tool, and the slots of its jobs with their limits.
type ToolWithSlots = (Definition, Vec<(String, u32)>);

/// Reads one tool. Returns `None` if it is invalid.
pub(super) fn read(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    name: &str,
    value: Value,
) -> Option<ToolWithSlots> {
    let field = join("tools", name);
    check_name(reader, &field, name);
    let value = with_placeholders(reader, context, &field, value);
    let tool: Tool = reader.read(&field, value)?;
    let input = input(reader, &field, &tool, context.dir);
    let output = output_schema(reader, &field, &tool, context.dir);
    let confirm = confirm(reader, &field, &tool, input.as_ref());
    let (inquiries, mirrored) = match &input {
        Some(input) => (inquiries(reader, &field, &tool, input), mirrored(reader, &field, input)),
        None => (Vec::new(), Vec::new()),
    };
    check_backend(reader, &field, &tool, context, input.as_ref());
    for (key, limit, what) in [
        ("max_runtime", Some(tool.max_runtime), "no job could run"),
        ("max_wait", tool.max_wait, "no job could run"),
        ("answer_within", tool.answer_within, "no question could be answered; remove it for no limit"),
    ] {
        if limit.is_some_and(|limit| limit.is_zero()) {
            reader.problem(join(&field, key), format!("must not be zero: {what}"));
        }
    }
    let rules =
        access::rules(reader, &join(&field, "access"), tool.access.as_ref(), context.access, context.callers);
    let input = input.filter(|_| reader.is_clean(&field))?;
    let mut slots = slots::tool_slots(name, &tool, context.backends, context.groups);
    let owner_slots = slots::owner_slots(name, &tool, context.owner);
    let definition = Definition {
        name: name.to_owned(),
        title: tool.title,
        description: tool.description,
        annotations: annotations(&tool.annotations),
        client_schema: input.published,
        input: input.validation_schema,
        output,
        secret_parameters: input.sensitive,
        file_parameters: input.files,
        task_parameters: input.tasks,
        backend: tool.backend,
        target: tool.target,
        task_support: tool.task_support,
        confirm,
        inquiries,
        mirrored,
        slots: slots.iter().map(|(slot, _)| slot.clone()).collect(),
        owner_slots: owner_slots.iter().map(|(slot, _)| slot.clone()).collect(),
        quota: Some(Quota { rows: context.owner.max_kept.get(), bytes: context.owner.max_bytes.get() }),
        when_full: tool.when_full,
        terms: TermsRule {
            default_ttl: context.lifetime.default_ttl,
            min_ttl: context.lifetime.min_ttl,
            max_ttl: context.lifetime.max_ttl,
            keep_result: tool.keep_result.unwrap_or(context.lifetime.keep_result),
            max_runtime: tool.max_runtime,
            max_wait: tool.max_wait,
            outcome_grace: tool.outcome_grace,
            on_expiry: tool.on_expiry,
            start_within: tool.start_within,
            settle_window: tool.settle_window,
            on_decline: tool.on_decline,
            on_dismiss: tool.on_dismiss,
            answer_within: tool.answer_within,
        },
        on_abandon: tool.on_abandon,
        result_bytes: tool.result_bytes.map(NonZeroUsize::get),
        answer_by_model: tool.answer_by_model,
        access: rules,
    };
    slots.extend(owner_slots);
    Some((definition, slots))
}

/// The parsed input of a tool.
struct Input {
    published: Value,
    validation_schema: Schema,
    sensitive: BTreeSet<String>,
    files: BTreeMap<String, crate::catalog::FileRule>,
    tasks: BTreeSet<String>,
}

/// Reports missing required fields and replaces them by placeholders, so that other errors of the tool are
/// found as well.
fn with_placeholders(reader: &mut Reader<'_>, context: &Context<'_>, field: &str, mut value: Value) -> Value {
    let Value::Object(members) = &mut value else { return value };
    if !members.contains_key("backend") {
        let known = match context.backend_names {
            [] => "add a [backends.NAME], and write its name".to_owned(),
            names => format!("one of {}", quoted_list(names.iter().map(String::as_str))),
        };
        reader.problem(field, format!("missing field `backend`: {known}"));
        members.insert("backend".to_owned(), Value::from(""));
    }
    if !members.contains_key("target") {
        reader
            .problem(field, format!("missing field `target`: set in [{field}.target] what the backend runs"));
        members.insert("target".to_owned(), Value::Null);
    }
    value
}

/// MCP's rule for tool names (2025-11-25, server/tools: 1 to 128 of `A-Za-z0-9_-.`).
fn check_name(reader: &mut Reader<'_>, field: &str, name: &str) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(allowed) {
        reader.problem(field, "a tool's name has 1 to 128 letters, digits, `_`, `-` or `.`");
    }
    if COMPANION_TOOLS.contains(&name) {
        reader.problem(field, "the name is reserved for a tool of the server: choose another");
    }
}

fn input(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Input> {
    match &tool.input_schema {
        None => {
            if !tool.sensitive.is_empty() {
                let message =
                    "only allowed with `input_schema`: set `sensitive = true` on the parameter instead";
                reader.problem(join(field, "sensitive"), message);
            }
            short_form(reader, field, tool, dir)
        }
        Some(source) => {
            if !tool.parameters.is_empty() {
                let message = "a tool has either `parameters` or `input_schema`: remove one of the two";
                reader.problem(join(field, "parameters"), message);
            }
            let schema_value = value_of(reader, &join(field, "input_schema"), source, dir)?;
            let schema = schema_value.and_then(|mut schema| {
                let asked_names = asked_parameters(tool);
                if let Some(Value::Array(required)) = schema.get_mut("required") {
                    required.retain(|name| !name.as_str().is_some_and(|name| asked_names.contains(name)));
                }
                Schema::compile(schema)
            });
            let validation_schema = match schema {
                Ok(schema) => schema,
                Err(message) => {
                    reader.problem(join(field, "input_schema"), message);
                    return None;
                }
            };
            let known: Vec<&str> = validation_schema.properties().map(|(name, _)| name.as_str()).collect();
            for (index, name) in tool.sensitive.iter().enumerate() {
                if !known.contains(&name.as_str()) {
                    reader.problem(
                        format!("{field}.sensitive[{index}]"),
                        unknown_name("property", name, &known),
                    );
                }
            }
            Some(Input {
                published: validation_schema.value().clone(),
                sensitive: tool.sensitive.iter().cloned().collect(),
                files: BTreeMap::new(),
                tasks: BTreeSet::new(),
                validation_schema,
            })
        }
    }
}

fn inquiries(reader: &mut Reader<'_>, field: &str, tool: &Tool, input: &Input) -> Vec<Inquiry> {
    let schemas: Map<String, Value> =
        input.validation_schema.properties().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    let hidden = input.sensitive.iter().chain(input.files.keys()).cloned().collect();
    let known = inquiries::AskableParameters { schemas: &schemas, hidden: &hidden };
    inquiries::read(reader, field, &tool.ask, &tool.parameters, &known)
}

/// Returns the parameters that clients repeat in headers. A secret must not be one of them.
fn mirrored(reader: &mut Reader<'_>, field: &str, input: &Input) -> Vec<MirroredParameter> {
    let field = join(field, "input_schema");
    match catalog::mirrored(&input.published) {
        Ok(found) => {
            let secret =
                found.iter().find(|m| m.path.first().is_some_and(|name| input.sensitive.contains(name)));
            if let Some(mirrored) = secret {
                let message =
                    format!("`{}` is a secret, and must not be sent in a header", mirrored.path.join("."));
                reader.problem(field, message);
            }
            found
        }
        Err(message) => {
            reader.problem(field, message);
            Vec::new()
        }
    }
}

/// Returns the parameters that a call may omit because `[tools.NAME.ask.KEY]` asks for them. (Those with an
/// `ask` of their own are handled in `parameters`.)
fn asked_parameters(tool: &Tool) -> BTreeSet<&str> {
    let names = tool.ask.values().flat_map(|question| question.parameters.iter().chain(&question.parameter));
    names.map(String::as_str).collect()
}

fn short_form(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Input> {
    let (mut published, mut validation_schema) = (Map::new(), Map::new());
    let (mut required, mut files, mut tasks) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let asked_names = asked_parameters(tool);
    for (name, parameter) in &tool.parameters {
        let field = join(&join(field, "parameters"), name);
        let Some(parsed) = parameters::read(reader, &field, parameter, dir) else { continue };
        published.insert(name.clone(), parsed.published);
        validation_schema.insert(name.clone(), parsed.validation_schema);
        if parsed.required && !asked_names.contains(name.as_str()) {
            required.push(Value::from(name.as_str()));
        }
        if parsed.is_task {
            tasks.insert(name.clone());
        }
        if let Some(file) = parsed.file {
            files.insert(name.clone(), file);
        }
    }
    let object = |properties: Map<String, Value>| {
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = Value::Array(required.clone());
        }
        schema
    };
    let published = object(published);
    match Schema::compile(object(validation_schema)) {
        Ok(validation_schema) => {
            let secret = tool.parameters.iter().filter(|(_, parameter)| parameter.sensitive);
            let sensitive = secret.map(|(name, _)| name.clone()).collect();
            Some(Input { published, validation_schema, sensitive, files, tasks })
        }
        Err(message) => {
            reader.problem(join(field, "parameters"), message);
            None
        }
    }
}

fn output_schema(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Schema> {
    schema(reader, &join(field, "output_schema"), tool.output_schema.as_ref()?, dir)
}

fn schema(reader: &mut Reader<'_>, field: &str, source: &SchemaSource, dir: &Path) -> Option<Schema> {
    let value = value_of(reader, field, source, dir)?;
    match value.and_then(Schema::compile) {
        Ok(schema) => Some(schema),
        Err(message) => {
            reader.problem(field, message);
            None
        }
    }
}

/// Returns the schema as JSON. `None` if its file cannot be read, which is already reported.
fn value_of(
    reader: &mut Reader<'_>,
    field: &str,
    source: &SchemaSource,
    dir: &Path,
) -> Option<Result<Value, String>> {
    let path = match source {
        SchemaSource::Inline(schema) => return Some(Ok(Value::Object(schema.clone()))),
        SchemaSource::File(path) => dir.join(path),
    };
    let display_path = path.display().to_string();
    let text = files::read_text(reader, field, path)?;
    Some(serde_json::from_str(&text).map_err(|error| format!("{display_path} is not JSON: {error}")))
}

fn confirm(reader: &mut Reader<'_>, field: &str, tool: &Tool, input: Option<&Input>) -> Option<Confirm> {
    let Some(message) = &tool.confirm else {
        if tool.confirm_default.is_some() && reader.is_clean(&join(field, "confirm")) {
            let message = "only allowed with `confirm`: set it, or remove this";
            reader.problem(join(field, "confirm_default"), message);
        }
        return None;
    };
    let field = join(field, "confirm");
    let confirm = match Confirm::new(message.clone(), tool.confirm_default.unwrap_or_default()) {
        Ok(confirm) => confirm,
        Err(message) => {
            reader.problem(field, message);
            return None;
        }
    };
    let input = input?;
    let visible_names: Vec<&str> = input
        .validation_schema
        .properties()
        .map(|(name, _)| name.as_str())
        .filter(|name| !input.sensitive.contains(*name) && !input.files.contains_key(*name))
        .collect();
    for name in confirm.names() {
        if input.sensitive.contains(name) || input.files.contains_key(name) {
            reader.problem(&field, format!("must not refer to `{name}`: secrets and files are not shown"));
        } else if !visible_names.contains(&name.as_str()) {
            reader.problem(&field, unknown_name("parameter", name, &visible_names));
        }
    }
    Some(confirm)
}

fn check_backend(
    reader: &mut Reader<'_>,
    field: &str,
    tool: &Tool,
    context: &Context<'_>,
    input: Option<&Input>,
) {
    let names: Vec<&str> = context.backend_names.iter().map(String::as_str).collect();
    // A missing backend is already reported.
    if tool.backend.is_empty() && !reader.is_clean(field) {
        return;
    }
    if !names.contains(&tool.backend.as_str()) {
        reader.problem(join(field, "backend"), unknown_name("backend", &tool.backend, &names));
    }
    // Errors of a backend are reported at the backend.
    let valid = context.backends.get(&tool.backend).map(|backend| (&backend.kind, Some(&backend.fields)));
    let faulty = context.faulty.get(&tool.backend).map(|backend| (&backend.kind, backend.fields.as_ref()));
    let Some((kind, fields)) = valid.or(faulty) else { return };
    let Some(adapter) = context.registry.get(kind) else { return };
    let field = join(field, "target");
    // A missing target is already reported.
    if tool.target.is_null() {
        return;
    }
    let shape = reader.read_with(&field, tool.target.clone(), |target| {
        (adapter.check_target_shape)(target).map_err(ParseError::from)
    });
    let (Some(()), Some(input), Some(fields), true) = (shape, input, fields, reader.is_clean(&field)) else {
        return;
    };
    let parameters: Vec<&str> = input.validation_schema.properties().map(|(name, _)| name.as_str()).collect();
    for problem in (adapter.check_target)(fields, &tool.target, &parameters) {
        let inner =
            if problem.field.is_empty() { field.clone() } else { format!("{field}.{}", problem.field) };
        reader.problem(inner, problem.message);
    }
}

/// Returns the hints under their MCP names.
fn annotations(hints: &Annotations) -> Value {
    let members: Map<String, Value> = [
        ("readOnlyHint", hints.read_only),
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
    ]
    .into_iter()
    .filter_map(|(name, hint)| hint.map(|hint| (name.to_owned(), Value::from(hint))))
    .collect();
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}
