//! Validates values against schemas that a program declared. It must not fetch anything.

use serde_json::{Map, Value};

/// Largest schema that is compiled, in bytes of JSON.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Validates a value against a schema that a program declared.
///
/// # Errors
/// The first violation, after the name of the field; or that the schema itself is invalid.
pub(crate) fn validate(field: &str, schema: &Map<String, Value>, value: &Value) -> Result<(), String> {
    match violations(field, schema, value).into_iter().next() {
        Some((at, message)) => Err(format!("{at}: {message}")),
        None => Ok(()),
    }
}

/// Returns the violations, each with its field.
pub(crate) fn violations(field: &str, schema: &Map<String, Value>, value: &Value) -> Vec<(String, String)> {
    let schema = Value::Object(schema.clone());
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        let message = format!("the program's schema has more than {MAX_SCHEMA_BYTES} bytes");
        return vec![(field.to_owned(), message)];
    }
    let validator = match jsonschema::options().build(&schema) {
        Ok(validator) => validator,
        Err(error) => return vec![(field.to_owned(), format!("the program's schema is invalid: {error}"))],
    };
    let named = |path: String| match path.trim_matches('/') {
        "" => field.to_owned(),
        path if field.is_empty() => path.replace('/', "."),
        path => format!("{field}.{}", path.replace('/', ".")),
    };
    let errors = validator.iter_errors(value).take(20);
    errors.map(|error| (named(error.instance_path().to_string()), error.to_string())).collect()
}
