//! Forms: validation of form schemas against MCP, and of the submitted content against the schema. A form is
//! a flat object of text, number, boolean and choice fields. A fault text must not repeat a submitted value.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::LocationSegment;
use jsonschema::{JsonType, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

use super::secret;

/// The maximum number of faults in one message.
const MAX_FAULTS: usize = 5;

/// The keywords that a form may use.
const FORM_KEYWORDS: [&str; 7] =
    ["$schema", "type", "title", "description", "properties", "required", "additionalProperties"];
/// The keywords that every field may use; each type allows more.
const FIELD_KEYWORDS: [&str; 6] = ["type", "title", "description", "default", "examples", "writeOnly"];
/// The formats that MCP defines.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

type Fields = Map<String, Value>;

/// Checks that the schema is a valid form.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let form = schema.as_object().filter(|form| form.get("type") == Some(&"object".into()));
    let form = form.ok_or("its schema must be an object with \"type\": \"object\"")?;
    let fields = form.get("properties").and_then(Value::as_object);
    let fields = fields.ok_or("its schema must have `properties`, an object with the fields of the form")?;
    check_keywords(form, &FORM_KEYWORDS, &[]).map_err(|what| format!("its schema has {what}"))?;
    for (name, field) in fields {
        check_field(name, field).map_err(|what| format!("its field `{name}` {what}"))?;
    }
    for name in form.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !name.as_str().is_some_and(|name| fields.contains_key(name)) {
            return Err(format!("its schema requires {name}, which is not one of its fields"));
        }
    }
    let validator =
        compile(schema).map_err(|fault| format!("its schema is not a valid JSON Schema: {fault}"))?;
    for (name, default) in defaults(fields) {
        let filled = Value::Object(Map::from_iter([(name.clone(), default.clone())]));
        if let Some(fault) = validator.iter_errors(&filled).find(|fault| field_name(fault).is_some()) {
            return Err(format!("the default of its field `{name}` does not fit: {}", describe_rule(&fault)));
        }
    }
    Ok(())
}

/// Validates a submitted form. Returns it with the defaults of missing fields, and without null and
/// unrequested ones.
pub(super) fn fill(schema: &Value, mut content: Fields) -> Result<Fields, String> {
    let nothing = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    // A form without fields is answered by its submission; its content is ignored.
    content.retain(|_, value| !fields.is_empty() && !value.is_null());
    // Unrequested fields are dropped (MCP, multi round-trip requests, "Error Handling"), unless the form
    // forbids additional properties.
    if schema.get("additionalProperties") == Some(&Value::Bool(false))
        && let Some(name) = content.keys().find(|name| !fields.contains_key(*name))
    {
        let field_names: Vec<&str> = fields.keys().map(String::as_str).collect();
        return Err(format!("the form has no field `{name}`: its fields are `{}`", field_names.join("`, `")));
    }
    content.retain(|name, _| fields.contains_key(name));
    for (name, default) in defaults(fields) {
        content.entry(name.clone()).or_insert_with(|| default.clone());
    }
    let validator = compile(schema).map_err(|fault| format!("the form is invalid: {fault}"))?;
    let filled = Value::Object(content);
    let faults: Vec<String> =
        validator.iter_errors(&filled).take(MAX_FAULTS).map(|fault| describe_fault(&fault, fields)).collect();
    let Value::Object(content) = filled else { return Err("a form is an object".to_owned()) };
    if faults.is_empty() { Ok(content) } else { Err(faults.join("; ")) }
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::options()
        .offline()
        .should_validate_formats(true)
        // A pattern from an engine must not block validation, whatever the answer.
        .with_pattern_options(PatternOptions::regex());
    options.build(schema).map_err(|fault| format!("`{}`: {fault}", fault.instance_path()))
}

fn defaults(fields: &Fields) -> impl Iterator<Item = (&String, &Value)> {
    fields.iter().filter_map(|(name, field)| Some((name, field.get("default")?)))
}

fn check_field(name: &str, field: &Value) -> Result<(), String> {
    let field = field.as_object().ok_or("must be an object that describes the field")?;
    if secret::is_secret_field(name, field) {
        return Err(
            "asks for a secret, which a form would show to the client and its model: ask with a `url`, so that \
                    the person enters it on a page of yours"
                .to_owned(),
        );
    }
    let kind = field.get("type").and_then(Value::as_str);
    let more: &[&str] = match kind {
        Some("string") if field.contains_key("oneOf") => {
            check_choices(field, "oneOf", is_titled_choice)?;
            &["oneOf"]
        }
        Some("string") if field.contains_key("enum") => {
            check_choices(field, "enum", Value::is_string)?;
            &["enum", "enumNames"]
        }
        Some("string") => &["minLength", "maxLength", "pattern", "format"],
        Some("number" | "integer") => {
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
        }
        Some("boolean") => &[],
        Some("array") => {
            check_items(field.get("items"))?;
            &["items", "minItems", "maxItems", "uniqueItems"]
        }
        _ => {
            return Err("must have as its `type` \"string\", \"number\", \"integer\", \"boolean\", or \"array\" for a \
                        choice of several: a form is flat"
                .to_owned());
        }
    };
    check_keywords(field, &FIELD_KEYWORDS, more).map_err(|what| format!("has {what}"))?;
    match field.get("format").and_then(Value::as_str) {
        Some(format) if !FORMATS.contains(&format) => {
            Err(format!("has the format {format:?}: forms support `{}`", FORMATS.join("`, `")))
        }
        _ => Ok(()),
    }
}

fn check_items(items: Option<&Value>) -> Result<(), String> {
    let schema = items.and_then(Value::as_object).ok_or("must have `items` with the choices")?;
    if schema.contains_key("anyOf") {
        check_choices(schema, "anyOf", is_titled_choice)?;
        return check_keywords(schema, &["anyOf"], &[]).map_err(|what| format!("has `items` with {what}"));
    }
    check_choices(schema, "enum", Value::is_string)?;
    if schema.get("type") != Some(&"string".into()) {
        return Err("must have `items` with \"type\": \"string\"".to_owned());
    }
    check_keywords(schema, &["type", "enum"], &[]).map_err(|what| format!("has `items` with {what}"))
}

fn check_choices(field: &Fields, key: &str, is_one: fn(&Value) -> bool) -> Result<(), String> {
    let wrong = || {
        format!(
            "must list its choices in `{key}`: texts, or {{\"const\": .., \"title\": ..}} in oneOf and anyOf"
        )
    };
    let choices =
        field.get(key).and_then(Value::as_array).filter(|choices| !choices.is_empty()).ok_or_else(wrong)?;
    if choices.iter().all(is_one) { Ok(()) } else { Err(wrong()) }
}

fn is_titled_choice(choice: &Value) -> bool {
    choice.get("const").is_some_and(Value::is_string) && choice.get("title").is_some_and(Value::is_string)
}

/// Accepts only these keywords: clients ignore others, or interpret them differently.
fn check_keywords(object: &Fields, always: &[&str], more: &[&str]) -> Result<(), String> {
    let is_known = |key: &&String| always.contains(&key.as_str()) || more.contains(&key.as_str());
    match object.keys().find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) => Err(format!("`{key}`, which forms do not support here: remove it")),
    }
}

/// Returns the field that a fault is about.
fn field_name<'a>(fault: &'a ValidationError<'_>) -> Option<std::borrow::Cow<'a, str>> {
    match fault.instance_path().into_iter().next() {
        Some(LocationSegment::Property(name)) => Some(name.into_owned().into()),
        _ => None,
    }
}

fn describe_fault(fault: &ValidationError<'_>, fields: &Fields) -> String {
    let required = match fault.kind() {
        ValidationErrorKind::Required { property } => property.as_str(),
        _ => None,
    };
    let name = required.map(Into::into).or_else(|| field_name(fault)).unwrap_or_default();
    let title = fields.get(&*name).and_then(|field| field.get("title")).and_then(Value::as_str);
    let title_suffix = title.map(|title| format!(" ({title})")).unwrap_or_default();
    format!("`{name}`{title_suffix} {}", describe_rule(fault))
}

/// Describes what a field must be. The text never repeats the submitted value.
fn describe_rule(fault: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    match fault.kind() {
        Kind::Required { .. } => "is missing".to_owned(),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::Format { format } => match format.as_str() {
            "email" => "must be an email address".to_owned(),
            "uri" => "must be a URI".to_owned(),
            "date" => "must be a date such as 2026-01-31".to_owned(),
            _ => "must be a date and time such as 2026-01-31T10:30:00Z".to_owned(),
        },
        Kind::Minimum { limit } => format!("must be {limit} or more"),
        Kind::Maximum { limit } => format!("must be {limit} or less"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MinItems { limit } => format!("must have at least {limit} of its choices"),
        Kind::MaxItems { limit } => format!("must have at most {limit} of its choices"),
        Kind::Enum { .. } | Kind::OneOfNotValid { .. } | Kind::AnyOf { .. } => {
            "must be one of its choices".to_owned()
        }
        Kind::Type { kind: TypeKind::Single(must) } => match must {
            JsonType::String => "must be text".to_owned(),
            JsonType::Integer => "must be a whole number".to_owned(),
            JsonType::Number => "must be a number".to_owned(),
            JsonType::Boolean => "must be true or false".to_owned(),
            JsonType::Array => "must be a list of its choices".to_owned(),
            JsonType::Null | JsonType::Object => fault.masked().to_string(),
        },
        _ => fault.masked().to_string(),
    }
}
