//! Forms from JSON Schemas: for the questions of jobs, which are flat, and for the arguments of tools,
//! whose nested parts are edited as JSON. [`fields`] renders, [`read`] converts what was typed. The schema
//! itself is checked later, by the operation. It must not render a value that was typed into a secret
//! field.

use maud::{Markup, html};
use serde_json::{Map, Number, Value};

use super::pieces::{clean, one_line};
use crate::console::request::Fields;

/// Prefix of the names of fields, so that none collides with the form's own fields.
const PREFIX: &str = "field.";
/// Maximum number of fields and choices that are rendered.
const MAX_FIELDS: usize = 200;

/// How a property is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    LongText,
    Number,
    Integer,
    Boolean,
    Choice,
    Choices,
    Json,
}

/// One property of a schema.
struct Property<'s> {
    name: &'s str,
    schema: &'s Value,
    is_required: bool,
    kind: Kind,
}

/// Renders the fields of a schema. `values` are the initial values, `is_secret` names fields that are typed
/// hidden, and `id` distinguishes the forms of a page.
pub(in crate::console) fn fields(
    schema: &Value,
    values: &Map<String, Value>,
    is_secret: impl Fn(&str) -> bool,
    id: &str,
) -> Markup {
    html! {
        @for (n, property) in properties(schema).enumerate() {
            @let field_id = format!("{id}-{n}");
            @let title = property.schema["title"].as_str().unwrap_or(property.name);
            @let description = property.schema["description"].as_str();
            @let hint = description.map(|_| format!("{field_id}-hint"));
            div.field {
                label for=(field_id) {
                    bdi { (one_line(title, 200)) }
                    @if !property.is_required { " " span.hint { "(optional)" } }
                }
                @let value = values.get(property.name).or_else(|| property.schema.get("default"));
                (input(&property, value, is_secret(property.name), &field_id, hint.as_deref()))
                @if let (Some(text), Some(hint)) = (description, &hint) { p.hint id=(hint) { (clean(text)) } }
            }
        }
    }
}

fn input(
    property: &Property<'_>,
    value: Option<&Value>,
    is_secret: bool,
    id: &str,
    hint: Option<&str>,
) -> Markup {
    let name = format!("{PREFIX}{}", property.name);
    let schema = property.schema;
    let text = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let text = text.filter(|_| !is_secret).unwrap_or_default();
    let is_required = property.is_required;
    if is_secret {
        return html! {
            input id=(id) name=(name) type="password" autocomplete="off" spellcheck="false"
                aria-describedby=[hint] required[is_required];
        };
    }
    match property.kind {
        Kind::Choice => html! {
            select id=(id) name=(name) aria-describedby=[hint] required[is_required] {
                @if !is_required || text.is_empty() { option value="" { "-" } }
                @for (choice, title) in choices(schema) {
                    option value=(choice) selected[choice == text] { (one_line(&title, 200)) }
                }
            }
        },
        Kind::Choices => html! {
            @let chosen: Vec<&str> = value.and_then(Value::as_array).into_iter().flatten()
                .filter_map(Value::as_str).collect();
            select id=(id) name=(name) multiple aria-describedby=[hint] {
                @for (choice, title) in choices(&schema["items"]) {
                    option value=(choice) selected[chosen.contains(&choice.as_str())] { (one_line(&title, 200)) }
                }
            }
        },
        Kind::Boolean => html! {
            select id=(id) name=(name) aria-describedby=[hint] required[is_required] {
                @if !is_required || text.is_empty() { option value="" { "-" } }
                option value="true" selected[text == "true"] { "Yes" }
                option value="false" selected[text == "false"] { "No" }
            }
        },
        Kind::Number | Kind::Integer => html! {
            @let step = if property.kind == Kind::Integer { "1" } else { "any" };
            input id=(id) name=(name) type="number" step=(step) value=(text) aria-describedby=[hint]
                min=[schema["minimum"].as_f64()] max=[schema["maximum"].as_f64()] required[is_required];
        },
        Kind::LongText | Kind::Json => html! {
            textarea id=(id) name=(name) rows="4" spellcheck="false" aria-describedby=[hint]
                required[is_required] { (text) }
            @if property.kind == Kind::Json { p.hint { "as JSON" } }
        },
        Kind::Text => html! {
            @let kind = match schema["format"].as_str() {
                Some("email") => "email",
                Some("date") => "date",
                _ => "text",
            };
            input id=(id) name=(name) type=(kind) value=(text) aria-describedby=[hint]
                maxlength=[schema["maxLength"].as_u64()] required[is_required];
        },
    }
}

/// Converts what was typed into an object. Empty fields are left out.
///
/// # Errors
/// A field whose text does not have the type of its property, with the reason.
pub(in crate::console) fn read(schema: &Value, form: &Fields) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    for property in properties(schema) {
        let field = format!("{PREFIX}{}", property.name);
        let problem = |expected: &str| format!("{}: {expected}", one_line(property.name, 100));
        if property.kind == Kind::Choices {
            let chosen: Vec<Value> =
                form.all(&field).filter(|text| !text.is_empty()).map(Value::from).collect();
            if !chosen.is_empty() {
                object.insert(property.name.to_owned(), chosen.into());
            }
            continue;
        }
        let Some(text) = form.get(&field).filter(|text| !text.is_empty()) else { continue };
        let value = match property.kind {
            // A textarea sends line breaks of two characters.
            Kind::Text | Kind::LongText => Value::from(text.replace("\r\n", "\n")),
            Kind::Choice => choice_value(property.schema, text),
            Kind::Boolean => match text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(problem("must be yes or no")),
            },
            Kind::Integer => {
                let number = text.trim().parse::<i64>().map(Number::from);
                number.map(Value::Number).map_err(|_| problem("must be a whole number"))?
            }
            Kind::Number => {
                let number = text.trim().parse::<f64>().ok().and_then(Number::from_f64);
                number.map(Value::Number).ok_or_else(|| problem("must be a number"))?
            }
            Kind::Json => taskbridge_sdk::from_json(text.as_bytes())
                .map_err(|error| problem(&format!("must be JSON: {error}")))?,
            Kind::Choices => continue,
        };
        object.insert(property.name.to_owned(), value);
    }
    Ok(object)
}

/// Returns the properties of a schema, the required ones first.
fn properties(schema: &Value) -> impl Iterator<Item = Property<'_>> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut all: Vec<Property<'_>> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .take(MAX_FIELDS)
        .map(|(name, schema)| {
            let is_required = required.contains(&name.as_str());
            Property { name, schema, is_required, kind: kind(schema) }
        })
        .collect();
    all.sort_by_key(|property| !property.is_required);
    all.into_iter()
}

fn kind(schema: &Value) -> Kind {
    if choices(schema).next().is_some() {
        return Kind::Choice;
    }
    match schema["type"].as_str() {
        Some("boolean") => Kind::Boolean,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("array") if choices(&schema["items"]).next().is_some() => Kind::Choices,
        Some("string") if schema["maxLength"].as_u64().is_some_and(|max| max <= 200) => Kind::Text,
        Some("string") if schema["contentEncoding"].is_string() => Kind::LongText,
        Some("string") => Kind::Text,
        _ => Kind::Json,
    }
}

/// Returns the values and titles of a schema that lists its values.
fn choices(schema: &Value) -> impl Iterator<Item = (String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let names = schema["enumNames"].as_array();
    let plain = schema["enum"].as_array().into_iter().flatten().enumerate().map(move |(n, value)| {
        let name = names.and_then(|names| names.get(n)).and_then(Value::as_str).map(str::to_owned);
        (text(value), name.unwrap_or_else(|| text(value)))
    });
    let titled = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let titled = titled.filter_map(move |choice| {
        let value = choice.get("const")?;
        Some((text(value), choice["title"].as_str().map_or_else(|| text(value), str::to_owned)))
    });
    plain.chain(titled).take(MAX_FIELDS)
}

/// Returns the listed value with this text, which may be no string.
fn choice_value(schema: &Value, text: &str) -> Value {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let same = |value: &&Value| !value.is_string() && value.to_string() == *text;
    listed.clone().find(same).cloned().unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Fields {
        let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = axum::http::Request::builder().uri(format!("/console?{text}")).body(()).unwrap();
        crate::console::request::Head::of(request.into_parts().0).query
    }

    #[test]
    fn typed_text_gets_type_of_schema() {
        let schema = json!({"properties": {
            "name": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"},
            "yes": {"type": "boolean"}, "mode": {"enum": ["a", "b"]}, "size": {"enum": [1, 2]},
            "tags": {"type": "array", "items": {"enum": ["p", "q"]}},
            "nested": {"type": "object"}, "left_out": {"type": "string"},
        }});
        let typed = form(&[
            ("field.name", "a\r\nb"),
            ("field.n", " 5 "),
            ("field.x", "1.5"),
            ("field.yes", "false"),
            ("field.mode", "b"),
            ("field.size", "2"),
            ("field.tags", "p"),
            ("field.tags", "q"),
            ("field.nested", "{\"k\": [1]}"),
            ("field.left_out", ""),
            ("field.unknown", "x"),
        ]);
        assert_eq!(
            Value::Object(read(&schema, &typed).unwrap()),
            json!({
                "name": "a\nb", "n": 5, "x": 1.5, "yes": false, "mode": "b", "size": 2, "tags": ["p", "q"],
                "nested": {"k": [1]},
            })
        );
        for (field, text, expected) in [
            ("field.n", "1.5", "n: must be a whole number"),
            ("field.x", "NaN", "x: must be a number"),
            ("field.yes", "on", "yes: must be yes or no"),
            ("field.nested", "{", "nested: must be JSON"),
        ] {
            let problem = read(&schema, &form(&[(field, text)])).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    /// Names and texts of a schema are escaped, and secrets are not shown again.
    #[test]
    fn schema_text_is_escaped() {
        let schema = json!({"required": ["<b>"], "properties": {
            "<b>": {"type": "string", "title": "<script>", "description": "\"><img src=x>", "default": "'\">"},
            "token": {"type": "string", "default": "hush"},
        }});
        let html = fields(&schema, &Map::new(), |name| name == "token", "q").into_string();
        assert!(!html.contains("<script>") && !html.contains("<img") && !html.contains("hush"), "{html}");
        assert!(html.contains("name=\"field.&lt;b&gt;\"") && html.contains("type=\"password\""), "{html}");
    }
}
