//! Reads `[tools.NAME]` into a tool's [`Definition`], and reports all errors that are detectable before the
//! server starts.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use serde_json::{Map, Value};
use taskbridge_sdk::Registry;

use super::backends::{Backend, PartialBackend};
use super::input::{self, Input};
use super::shape::{Annotations, Tool};
use super::slots;
use crate::access::Rules;
use crate::catalog::{Confirm, Definition, TermsRule};
use crate::config::callers::access::{self, PossibleCallers};
use crate::config::reading::problem::{quoted_list, unknown_name};
use crate::config::reading::reader::{ParseError, Reader};
use crate::config::reading::source::join;
use crate::config::server::owner_limits::OwnerLimits;
use crate::config::server::shape::{ConcurrencyGroup, Lifetime};
use crate::tasks::store::Quota;

/// The objects that tools can refer to.
pub(in crate::config) struct Context<'a> {
    /// The adapters.
    pub(in crate::config) registry: &'a Registry,
    /// The folder of the config file.
    pub(in crate::config) dir: &'a Path,
    /// The valid backends.
    pub(in crate::config) backends: &'a BTreeMap<String, Backend>,
    /// The known parts of the invalid backends.
    pub(in crate::config) faulty: &'a BTreeMap<String, PartialBackend>,
    /// The names of all backends, valid or not.
    pub(in crate::config) backend_names: &'a [String],
    /// The groups with a table in the config.
    pub(in crate::config) groups: &'a BTreeMap<String, ConcurrencyGroup>,
    /// Default and limits of lifetimes.
    pub(in crate::config) lifetime: &'a Lifetime,
    /// The default access rules.
    pub(in crate::config) access: &'a Rules,
    /// The possible callers.
    pub(in crate::config) callers: &'a PossibleCallers,
    /// Limits per owner.
    pub(in crate::config) owner: &'a OwnerLimits,
}

/// A tool, and the slots of its jobs with their limits.
type ToolWithSlots = (Definition, Vec<(String, u32)>);

/// Reads one tool. Returns `None` if it is invalid.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    name: &str,
    value: Value,
) -> Option<ToolWithSlots> {
    let field = join("tools", name);
    check_name(reader, &field, name);
    let value = with_placeholders(reader, context, &field, value);
    let tool: Tool = reader.read(&field, value)?;
    let input = input::input(reader, &field, &tool, context.dir);
    let output = input::output_schema(reader, &field, &tool, context.dir);
    let confirm = confirm(reader, &field, &tool, input.as_ref());
    let (inquiries, mirrored) = match &input {
        Some(input) => {
            (input::inquiries(reader, &field, &tool, input), input::mirrored(reader, &field, input))
        }
        None => (Vec::new(), Vec::new()),
    };
    check_backend(reader, &field, &tool, context, input.as_ref());
    check_duration_parameters(reader, &field, &tool, input.as_ref());
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
        keep_arguments: tool.keep_arguments,
        duration_depends_on: tool.duration_depends_on,
        access: rules,
    };
    slots.extend(owner_slots);
    Some((definition, slots))
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
    if crate::mcp::wire::COMPANION_TOOLS.contains(&name) {
        reader.problem(field, "the name is reserved for a tool of the server: choose another");
    }
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

/// Reports what `duration_depends_on` cannot name: unknown parameters, secrets, files, and other tasks.
fn check_duration_parameters(reader: &mut Reader<'_>, field: &str, tool: &Tool, input: Option<&Input>) {
    let Some(input) = input else { return };
    let field = join(field, "duration_depends_on");
    let known: Vec<&str> = input.validation_schema.properties().map(|(name, _)| name.as_str()).collect();
    for name in &tool.duration_depends_on {
        if !known.contains(&name.as_str()) {
            reader.problem(&field, unknown_name("parameter", name, &known));
        } else if input.sensitive.contains(name)
            || input.files.contains_key(name)
            || input.tasks.contains(name)
        {
            reader.problem(
                &field,
                format!("must not name `{name}`: secrets, files and tasks are not compared"),
            );
        }
    }
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
    let visible = match input.sensitive.is_empty() {
        true => BTreeSet::new(),
        false => (adapter.visible_parameters)(fields, &tool.target),
    };
    for name in input.sensitive.iter().filter(|name| visible.contains(*name) || visible.contains("*")) {
        let message = format!(
            "shows the sensitive parameter `{name}` in an address, a header or a handle, where logs have it: use it in \
             the body of a request only"
        );
        reader.problem(&field, message);
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
