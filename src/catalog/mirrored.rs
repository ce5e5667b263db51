//! Parameters that clients repeat in HTTP headers, so that proxies can route by them: `x-mcp-header` in a
//! tool's input schema (MCP 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters"). It must
//! not read a header.

use serde_json::Value;

/// The schema keyword.
pub const KEYWORD: &str = "x-mcp-header";

/// A parameter that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredParameter {
    /// The name of the header, without the common prefix.
    pub header: String,
    /// The property names that lead to the parameter, the outermost first.
    pub path: Vec<String>,
}

impl MirroredParameter {
    /// Returns the parameter's value in these arguments. Null counts as absent.
    pub fn value<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let step = |value: Option<&'a Value>, name: &String| value?.get(name);
        self.path.iter().fold(Some(arguments), step).filter(|value| !value.is_null())
    }
}

/// Returns all mirrored parameters of a schema.
///
/// # Errors
/// If a name is not a valid header name, or is used twice. If a parameter is not text, a whole number or a
/// boolean, or is not reached through `properties` alone. The text is for the author of the schema.
pub fn all(schema: &Value) -> Result<Vec<MirroredParameter>, String> {
    let mut parameters = Vec::new();
    collect(schema, &mut Vec::new(), &mut parameters)?;
    let occurrences = count(schema, false);
    if occurrences > parameters.len() {
        return Err(format!(
            "`{KEYWORD}` is allowed only on properties that are reached through `properties` alone"
        ));
    }
    for (index, mirrored) in parameters.iter().enumerate() {
        let name = &mirrored.header;
        if parameters[..index].iter().any(|other| other.header.eq_ignore_ascii_case(name)) {
            return Err(format!(
                "`{KEYWORD}` names the header {name:?} twice: header names are case-insensitive"
            ));
        }
    }
    Ok(parameters)
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    parameters: &mut Vec<MirroredParameter>,
) -> Result<(), String> {
    if let Some(header) = schema.get(KEYWORD)
        && !path.is_empty()
    {
        parameters.push(MirroredParameter { header: header_name(header, path)?, path: path.clone() });
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            let parameter_path = path.join(".");
            return Err(format!(
                "`{parameter_path}`: `{KEYWORD}` needs a type of \"string\", \"integer\" or \"boolean\""
            ));
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        collect(property, path, parameters)?;
        path.pop();
    }
    Ok(())
}

/// Checks that a header's name is a token (RFC 9110, 5.1).
fn header_name(name: &Value, path: &[String]) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match name.as_str() {
        Some(name) if !name.is_empty() && name.bytes().all(is_token) => Ok(name.to_owned()),
        _ => Err(format!(
            "`{}`: {name} is not a header name: use letters, digits and `-`, such as \"Region\"",
            path.join(".")
        )),
    }
}

/// Counts how often the keyword occurs in a schema. Names of properties are not keywords.
fn count(schema: &Value, is_name_map: bool) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match key.as_str() {
                KEYWORD if !is_name_map => 1,
                "const" | "enum" | "default" | "examples" if !is_name_map => 0,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                    if !is_name_map =>
                {
                    count(value, true)
                }
                _ => count(value, false),
            })
            .sum(),
        Value::Array(items) => items.iter().map(|item| count(item, false)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_parameters_wherever_properties_lead() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "x-mcp-header": {"type": "string"},
            "where": {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}},
        }});
        let parameters = all(&schema).unwrap();
        let names: Vec<_> = parameters.iter().map(|m| (m.header.as_str(), m.path.join("."))).collect();
        assert_eq!(names, [("Region", "region".to_owned()), ("Zone", "where.zone".to_owned())]);
        let arguments = json!({"where": {"zone": 3}, "region": null});
        assert_eq!(parameters[1].value(&arguments), Some(&json!(3)));
        assert_eq!(parameters[0].value(&arguments), None);
    }

    /// A header that no client could send is an error of the tool's schema.
    #[test]
    fn unusable_mirrored_header_is_refused() {
        let with_property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        for (schema, part) in [
            (with_property(json!({"type": "string", "x-mcp-header": ""})), "not a header name"),
            (with_property(json!({"type": "string", "x-mcp-header": "a b"})), "not a header name"),
            (with_property(json!({"type": "string", "x-mcp-header": 1})), "not a header name"),
            (with_property(json!({"type": "number", "x-mcp-header": "A"})), "needs a type of"),
            (
                with_property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
                "`properties` alone",
            ),
            (json!({"type": "object", "x-mcp-header": "A"}), "`properties` alone"),
            (
                json!({"type": "object", "properties": {
                    "a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}
                }}),
                "twice",
            ),
        ] {
            let text = all(&schema).unwrap_err();
            assert!(text.contains(part), "{schema}: {text}");
        }
    }
}
