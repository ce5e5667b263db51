//! Properties of a JSON Schema, out of an engine's list of parameters or fields. Pure.

use serde_json::{Map, Value};

use crate::config::Property;
use crate::language::{Expression, Scope, plain_text};

/// Adds the properties that `listed` names to the schema of an object, and to what it requires.
///
/// # Errors
/// The expression that cannot be evaluated.
pub(crate) fn add_properties(
    schema: &mut Map<String, Value>,
    listed: Option<&Expression>,
    property: &Property,
    scope: &Scope,
) -> Result<(), String> {
    let members: Vec<(Option<String>, Value)> = match listed.map_or(Ok(None), |listed| listed.some(scope))? {
        Some(Value::Object(members)) => {
            members.into_iter().map(|(name, value)| (Some(name), value)).collect()
        }
        Some(Value::Array(items)) => items.into_iter().map(|item| (None, item)).collect(),
        _ => return Ok(()),
    };
    for (name, value) in members {
        let scope = scope.clone().with("name", &name).with("value", &value);
        let evaluate =
            |expression: &Option<Expression>| expression.as_ref().map_or(Ok(None), |e| e.some(&scope));
        let own_name = evaluate(&property.name)?.as_ref().map(plain_text);
        let Some(name) = own_name.or(name) else { continue };
        let mut member = match evaluate(&property.schema)? {
            Some(Value::Object(member)) => member,
            _ => Map::new(),
        };
        for (field, expression) in [("default", &property.default), ("description", &property.description)] {
            member.extend(evaluate(expression)?.map(|value| (field.to_owned(), value)));
        }
        if property.required.as_ref().map_or(Ok(false), |required| required.is_true(&scope))? {
            let required = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
            required.as_array_mut().ok_or("`required` is not a list")?.push(name.as_str().into());
        }
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        properties.ok_or("the schema has no `properties`")?.insert(name, member.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A list has the names in its items, and an object in its members. What is required is appended.
    #[test]
    fn fields_of_engine_become_properties() {
        let property = json!({
            "name": "value.called", "schema": "{'type': value.kind}", "default": "value.at_first",
            "required": "value.needed",
        });
        let property: Property = serde_json::from_value(property).unwrap();
        let listed: Expression = serde_json::from_value(json!("item.fields")).unwrap();
        let fields = [
            json!([{"called": "copies", "kind": "integer", "needed": true, "at_first": 1}, {"kind": "string"}]),
            json!({"copies": {"kind": "integer", "needed": true, "at_first": 1}}),
        ];
        for fields in fields {
            let scope = Scope::default().with("item", json!({ "fields": fields }));
            let schema = json!({"type": "object", "properties": {"choice": {}}, "required": ["choice"]});
            let mut schema = schema.as_object().unwrap().clone();
            add_properties(&mut schema, Some(&listed), &property, &scope).unwrap();
            assert_eq!(schema["required"], json!(["choice", "copies"]));
            let copies = json!({"type": "integer", "default": 1});
            assert_eq!(schema["properties"], json!({"choice": {}, "copies": copies}));
        }
        let mut schema = Map::new();
        let scope = Scope::default().with("item", json!({ "fields": {"a": {}} }));
        let error = add_properties(&mut schema, Some(&listed), &property, &scope).unwrap_err();
        assert_eq!(error, "the schema has no `properties`");
    }
}
