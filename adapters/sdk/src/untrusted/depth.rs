//! Limits the nesting of JSON from engines and jobs, counts its values, and parses stored JSON that is nested
//! deeper than the parser allows. It must not know what the JSON means.

use std::fmt::Write as _;

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Map, Value};

/// Maximum nesting of an external value that is stored. The stored row nests the value a few levels deeper,
/// and the JSON parser reads at most [`MAX_PARSER_DEPTH`] levels.
pub const MAX_VALUE_DEPTH: usize = 100;

/// Maximum nesting that the JSON parser accepts.
const MAX_PARSER_DEPTH: usize = 127;

/// Replaces every value nested deeper than [`MAX_VALUE_DEPTH`] with its JSON text.
pub fn limit_depth(value: &mut Value) {
    limit(value, MAX_VALUE_DEPTH);
}

/// Does the same as [`limit_depth`] for the members of an object.
pub(super) fn limit_members(members: &mut Map<String, Value>) {
    members.values_mut().for_each(|value| limit(value, MAX_VALUE_DEPTH - 1));
}

fn limit(value: &mut Value, levels: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => *value = Value::String(value.to_string()),
        Value::Array(items) => items.iter_mut().for_each(|item| limit(item, levels - 1)),
        Value::Object(members) => members.values_mut().for_each(|member| limit(member, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns an upper bound for the number of values in a JSON text, without parsing it. Parsed values take up
/// to a hundred times the memory of the text.
pub fn count_values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// Parses JSON of any nesting. A part that is nested deeper than the parser allows becomes its JSON text.
///
/// # Errors
/// Returns an error if the text is not JSON, or not of this type.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| {
        let text = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
        flatten(text).map_or(Err(error), |flat| serde_json::from_str(&flat))
    })
}

/// Returns the text with each part that is nested deeper than [`MAX_PARSER_DEPTH`] as a string; `None` if
/// there is no such part. It does not recurse, so that no nesting can exhaust the stack.
fn flatten(text: &str) -> Option<String> {
    let mut flat = String::new();
    let (mut depth, mut copied_len, mut deep_from) = (0usize, 0, 0);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth == MAX_PARSER_DEPTH + 1 {
                    deep_from = at;
                }
            }
            b'}' | b']' => {
                if depth == MAX_PARSER_DEPTH + 1 {
                    flat.push_str(&text[copied_len..deep_from]);
                    // Writing to a string cannot fail.
                    let _ = write!(flat, "{}", Value::from(&text[deep_from..=at]));
                    copied_len = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    (copied_len > 0).then(|| flat + &text[copied_len..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns a value of this depth with alternating arrays and objects. It contains strings that look like
    /// nesting.
    fn nested(levels: usize) -> Value {
        let mut value = json!("]}\\\"[{");
        for level in 0..levels {
            value = if level % 2 == 0 { json!([1, value, "}"]) } else { json!({ "a\"[": value, "b": 1 }) };
        }
        value
    }

    /// Replaces strings that contain JSON with the parsed JSON.
    fn unflatten(value: Value) -> Value {
        match value {
            Value::String(text) if text.starts_with(['[', '{']) => {
                from_json::<Value>(text.as_bytes()).map_or(Value::String(text), unflatten)
            }
            Value::Array(items) => items.into_iter().map(unflatten).collect(),
            Value::Object(members) => members.into_iter().map(|(k, v)| (k, unflatten(v))).collect(),
            other => other,
        }
    }

    #[test]
    fn deep_value_becomes_text() {
        for levels in [0, 1, MAX_VALUE_DEPTH - 1, MAX_VALUE_DEPTH, MAX_VALUE_DEPTH + 1, 200] {
            let value = nested(levels);
            let mut limited = value.clone();
            limit_depth(&mut limited);
            assert!(depth(&limited) <= MAX_VALUE_DEPTH, "{levels}");
            assert_eq!(limited == value, levels <= MAX_VALUE_DEPTH, "{levels}");
            assert_eq!(unflatten(limited), value, "{levels}");
        }
    }

    #[test]
    fn json_of_any_depth_is_read() {
        for levels in [0, 1, MAX_PARSER_DEPTH - 1, MAX_PARSER_DEPTH, MAX_PARSER_DEPTH + 1, 200, 500] {
            let value = nested(levels);
            let read: Value = from_json(value.to_string().as_bytes()).unwrap();
            assert_eq!(read == value, levels <= MAX_PARSER_DEPTH, "{levels}");
            assert_eq!(unflatten(read), value, "{levels}");
        }
        let bomb = format!("{}{}", "[".repeat(2_000_000), "]".repeat(2_000_000));
        assert!(from_json::<Value>(bomb.as_bytes()).is_ok());
    }

    /// Brackets and commas inside strings do not count.
    #[test]
    fn json_values_are_counted_before_parsing() {
        for (json, values) in
            [("1", 1), (r#""a, [{\\\", b""#, 1), (r#"[1, [2], {"a": "b,c", "d": {"e": null}}]"#, 8)]
        {
            assert_eq!(count_values(json.as_bytes()), values, "{json}");
        }
    }

    proptest! {
        #[test]
        fn invalid_json_stays_invalid(text in "[\\[\\]{}\",:\\\\a1]{0,40}", open in 0usize..300) {
            let text = format!("{}{text}", "[".repeat(open));
            if let Ok(value) = from_json::<Value>(text.as_bytes()) {
                prop_assert!(depth(&value) <= MAX_PARSER_DEPTH);
            }
            let unclosed = text + "[";
            prop_assert!(from_json::<Value>(unclosed.as_bytes()).is_err());
        }
    }
}
