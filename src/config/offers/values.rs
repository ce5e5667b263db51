//! Reads the accepted values of a prompt argument or a URI placeholder.

use serde_json::Value;

use super::shape::AcceptedValues;
use crate::catalog::{Definition, Values};
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

/// The tools whose parameters `same_as` can reference.
#[derive(Clone, Copy)]
pub(in crate::config) struct Tools<'a> {
    /// The valid tools.
    pub(in crate::config) valid: &'a [Definition],
    /// The names of all tools, valid or not.
    pub(in crate::config) names: &'a [String],
}

/// Reads the values, with the description of the referenced tool parameter.
pub(super) fn read(
    reader: &mut Reader<'_>,
    field: &str,
    fields: &AcceptedValues,
    tools: Tools<'_>,
) -> (Values, Option<String>) {
    let lists = [("enum", &fields.choices), ("suggest", &fields.suggest)];
    for (name, values) in lists {
        if values.as_ref().is_some_and(Vec::is_empty) {
            reader.problem(join(field, name), "must not be empty: list at least one value");
        }
    }
    match fields {
        AcceptedValues { choices: None, suggest: None, same_as: None } => (Values::Any, None),
        AcceptedValues { choices: Some(values), suggest: None, same_as: None } => {
            (Values::Only(values.clone()), None)
        }
        AcceptedValues { choices: None, suggest: Some(values), same_as: None } => {
            (Values::Suggested(values.clone()), None)
        }
        AcceptedValues { choices: None, suggest: None, same_as: Some(parameter) } => {
            match of_parameter(parameter, tools) {
                Ok(read) => read,
                Err(message) => {
                    reader.problem(join(field, "same_as"), message);
                    (Values::Any, None)
                }
            }
        }
        _ => {
            reader.problem(field, "more than one list of values: keep one of `enum`, `suggest`, `same_as`");
            (Values::Any, None)
        }
    }
}

/// Returns the tool name of `same_as`.
pub(super) fn tool_name(same_as: Option<&str>) -> Option<String> {
    same_as?.rsplit_once('.').map(|(tool, _)| tool.to_owned())
}

/// Returns the values of a tool's parameter: its `enum`, that of its items, or true and false for a boolean.
fn of_parameter(parameter: &str, tools: Tools<'_>) -> Result<(Values, Option<String>), String> {
    let Some((tool, name)) = parameter.rsplit_once('.') else {
        return Err(format!("\"{parameter}\" is not a parameter: write it as TOOL.PARAMETER"));
    };
    let Some(definition) = tools.valid.iter().find(|definition| definition.name == tool) else {
        let names: Vec<&str> = tools.names.iter().map(String::as_str).collect();
        // Errors of a tool are reported at the tool.
        return if names.contains(&tool) {
            Ok((Values::Any, None))
        } else {
            Err(unknown_name("tool", tool, &names))
        };
    };
    let known: Vec<&str> = definition.input.properties().map(|(name, _)| name.as_str()).collect();
    let Some(schema) = definition.client_schema["properties"].get(name) else {
        return Err(unknown_name("parameter", name, &known));
    };
    if definition.secret_parameters.contains(name) {
        return Err(format!("`{name}` is sensitive: its values are not shown"));
    }
    let values = schema.get("enum").or_else(|| schema.get("items")?.get("enum"));
    let values: Vec<String> = match (values.and_then(Value::as_array), &schema["type"]) {
        (Some(values), _) => values.iter().map(as_text).collect(),
        (None, Value::String(kind)) if kind == "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ => return Err(format!("`{name}` has no list of values: add an `enum` to it, or list values here")),
    };
    let description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    Ok((Values::Only(values), description))
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
