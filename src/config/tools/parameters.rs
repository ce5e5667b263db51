//! Converts the short form of an input schema, one table per parameter, into JSON Schema.

use serde_json::{Map, Value, json};

use super::shape::{Parameter, ParameterType};
use crate::catalog::{FileRule, HEADER_KEYWORD, Schema};
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

const MIB: u64 = 1024 * 1024;

/// The result of reading a parameter.
pub(super) struct ParsedParameter {
    /// Its schema as published to clients.
    pub(super) published: Value,
    /// Its schema for argument validation.
    pub(super) validation_schema: Value,
    /// Whether a call must contain it. A parameter with `ask` need not be in a call.
    pub(super) required: bool,
    /// Set for a parameter of type `file`.
    pub(super) file: Option<FileRule>,
    /// True for a parameter of type `task`.
    pub(super) is_task: bool,
}

/// Converts one parameter into a schema. Returns `None` if it is invalid.
pub(super) fn read(
    reader: &mut Reader<'_>,
    field: &str,
    parameter: &Parameter,
    dir: &std::path::Path,
) -> Option<ParsedParameter> {
    // A misspelt field is missing here, so further checks of the parameter would report false errors.
    if reader.is_clean(field) {
        check_fields(reader, field, parameter, false);
    }
    if !reader.is_clean(field) {
        return None;
    }
    // A parameter that can be asked for is optional in a call.
    let required = parameter.required.unwrap_or(parameter.default.is_none()) && parameter.ask.is_none();
    if parameter.kind == Some(ParameterType::File) {
        let file = FileRule {
            roots: parameter.roots.iter().map(|root| dir.join(root)).collect(),
            max_bytes: parameter.max_bytes.map_or(MIB, u64::from),
        };
        let published = with_annotations(parameter, file.client_schema());
        // The file's rule validates its content, with clearer messages than its published schema.
        return Some(ParsedParameter {
            published,
            validation_schema: json!({}),
            required,
            file: Some(file),
            is_task: false,
        });
    }
    let is_task = parameter.kind == Some(ParameterType::Task);
    let mut schema = with_annotations(parameter, if is_task { task_id() } else { constraints(parameter) });
    if let Some(header) = &parameter.header {
        schema[HEADER_KEYWORD] = Value::from(header.as_str());
    }
    let probe = json!({"type": "object", "properties": {"value": schema}});
    match Schema::compile(probe) {
        Err(message) => reader.problem(field, message.replace("`properties.value.", "`")),
        Ok(probe) => {
            if let Some(default) = &parameter.default
                && let Err(message) = probe.check(&json!({"value": default}), "value", |_| false)
            {
                reader.problem(join(field, "default"), format!("does not match the parameter: {message}"));
            }
        }
    }
    reader.is_clean(field).then(|| ParsedParameter {
        published: schema.clone(),
        validation_schema: schema,
        required,
        file: None,
        is_task,
    })
}

fn with_annotations(parameter: &Parameter, mut schema: Map<String, Value>) -> Value {
    for (name, text) in [("title", &parameter.title), ("description", &parameter.description)] {
        if let Some(text) = text {
            schema.insert(name.to_owned(), Value::from(text.as_str()));
        }
    }
    if let Some(default) = &parameter.default {
        schema.insert("default".to_owned(), default.clone());
    }
    Value::Object(schema)
}

/// Returns the schema of a task id. The owner and the backend of the task are checked when the tool is
/// called.
fn task_id() -> Map<String, Value> {
    [("type", Value::from("string")), ("minLength", Value::from(1)), ("maxLength", Value::from(64))]
        .map(|(rule, value)| (rule.to_owned(), value))
        .into_iter()
        .collect()
}

/// Returns the constraints of a parameter as JSON Schema.
fn constraints(parameter: &Parameter) -> Map<String, Value> {
    let mut schema = Map::new();
    let mut rule = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            schema.insert(name.to_owned(), value);
        }
    };
    rule("type", parameter.kind.map(|kind| Value::from(kind.name())));
    rule("enum", parameter.choices.clone().map(Value::Array));
    rule("minimum", parameter.minimum.clone().map(Value::Number));
    rule("maximum", parameter.maximum.clone().map(Value::Number));
    rule("minLength", parameter.min_length.map(Value::from));
    rule("maxLength", parameter.max_length.map(Value::from));
    rule("pattern", parameter.pattern.clone().map(Value::from));
    rule("format", parameter.format.clone().map(Value::from));
    rule("minItems", parameter.min_items.map(Value::from));
    rule("maxItems", parameter.max_items.map(Value::from));
    rule("items", parameter.items.as_ref().map(|items| with_annotations(items, constraints(items))));
    if parameter.kind.is_none()
        && let Some(kind) = parameter.choices.as_deref().and_then(common_type)
    {
        schema.insert("type".to_owned(), Value::from(kind));
    }
    schema
}

/// Returns the common type of all choices, if there is one.
fn common_type(choices: &[Value]) -> Option<&'static str> {
    [
        ("string", Value::is_string as fn(&Value) -> bool),
        ("integer", Value::is_i64),
        ("number", Value::is_number),
    ]
    .into_iter()
    .find(|(_, is)| choices.iter().all(is))
    .map(|(name, _)| name)
}

/// Reports fields that do not apply to the type.
fn check_fields(reader: &mut Reader<'_>, field: &str, parameter: &Parameter, is_item: bool) {
    use ParameterType::{Array, Boolean, File, Integer, Number, String, Task};
    let p = parameter;
    if p.kind.is_none() && p.choices.is_none() {
        reader.problem(
            field,
            "missing field `type`: \"string\", \"integer\", \"number\", \"boolean\", \"array\", \"file\" or \"task\" \
             (or list its values in `enum`)",
        );
        return;
    }
    let kind = p.kind.unwrap_or(String);
    let allowed_types: [(&str, bool, &[ParameterType]); 15] = [
        ("ask", p.ask.is_some(), &[String, Integer, Number, Boolean]),
        ("header", p.header.is_some(), &[String, Integer, Boolean]),
        ("enum", p.choices.is_some(), &[String, Integer, Number]),
        ("minimum", p.minimum.is_some(), &[Integer, Number]),
        ("maximum", p.maximum.is_some(), &[Integer, Number]),
        ("min_length", p.min_length.is_some(), &[String]),
        ("max_length", p.max_length.is_some(), &[String]),
        ("pattern", p.pattern.is_some(), &[String]),
        ("format", p.format.is_some(), &[String]),
        ("items", p.items.is_some(), &[Array]),
        ("min_items", p.min_items.is_some(), &[Array]),
        ("max_items", p.max_items.is_some(), &[Array]),
        ("roots", !p.roots.is_empty(), &[File]),
        ("max_bytes", p.max_bytes.is_some(), &[File]),
        ("default", p.default.is_some(), &[String, Integer, Number, Boolean, Array]),
    ];
    for (name, given, kinds) in allowed_types {
        if given && !kinds.contains(&kind) {
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
            let message =
                format!("not allowed with type = \"{}\", only with {}", kind.name(), kinds.join(", "));
            reader.problem(join(field, name), message);
        }
    }
    let number = |number: &Option<serde_json::Number>| number.as_ref().and_then(serde_json::Number::as_f64);
    let count = |count: Option<u64>| count.map(|count| count as f64);
    for (least, most, low, high) in [
        ("minimum", "maximum", number(&p.minimum), number(&p.maximum)),
        ("min_length", "max_length", count(p.min_length), count(p.max_length)),
        ("min_items", "max_items", count(p.min_items), count(p.max_items)),
    ] {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            let message =
                format!("{low} is more than `{most}` ({high}), so no value is valid: change one of them");
            reader.problem(join(field, least), message);
        }
    }
    if p.choices.as_ref().is_some_and(Vec::is_empty) {
        reader.problem(join(field, "enum"), "must not be empty: list at least one value");
    }
    if p.sensitive && p.default.is_some() {
        reader.problem(
            join(field, "default"),
            "a sensitive parameter cannot have a default: every reader of this file would see it",
        );
    }
    for (name, given) in [("ask", p.ask.is_some()), ("header", p.header.is_some())] {
        if given && p.sensitive {
            let message = "a secret must not be asked for in a form, nor sent in a header";
            reader.problem(join(field, name), message);
        }
    }
    if p.sensitive && kind == Task {
        reader.problem(join(field, "sensitive"), "a task id is not a secret to its owner: remove it");
    }
    if p.ask.is_some() && p.default.is_some() {
        reader.problem(
            join(field, "ask"),
            "a parameter with a default is never missing: remove one of the two",
        );
    }
    if p.required == Some(true) && p.default.is_some() {
        reader
            .problem(join(field, "default"), "a required parameter needs no default: remove one of the two");
    }
    if is_item {
        for (name, given) in [
            ("required", p.required.is_some()),
            ("default", p.default.is_some()),
            ("sensitive", p.sensitive),
            ("ask", p.ask.is_some()),
            ("header", p.header.is_some()),
        ] {
            if given {
                reader.problem(join(field, name), "belongs to the parameter, not to its items: move it");
            }
        }
        if matches!(kind, Array | File | Task) {
            reader.problem(
                join(field, "type"),
                format!(
                    "items cannot be of type \"{}\": write the tool's `input_schema` instead",
                    kind.name()
                ),
            );
        }
    } else if kind == Array {
        match &p.items {
            Some(items) => check_fields(reader, &join(field, "items"), items, true),
            None => reader.problem(field, "missing field `items`, such as items = { type = \"string\" }"),
        }
    }
}
