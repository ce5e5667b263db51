//! Detection of form fields that ask for a secret. A form passes through the client, its host and perhaps
//! its model, so secrets are never requested in one.

use serde_json::{Map, Value};

/// Words and pairs of words that mean a secret.
const WORDS: [&str; 15] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passphrases",
    "passcode",
    "secret",
    "secrets",
    "token",
    "tokens",
    "credential",
    "credentials",
    "apikey",
    "apikeys",
];
const PAIRS: [(&str, &str); 6] = [
    ("api", "key"),
    ("api", "keys"),
    ("access", "key"),
    ("access", "keys"),
    ("private", "key"),
    ("private", "keys"),
];

/// Returns true if this field asks for a secret: by its format `password` or `writeOnly`, whatever its type;
/// or if it is free text and its name or title means a secret.
pub(super) fn is_secret_field(name: &str, field: &Map<String, Value>) -> bool {
    let has = |key: &str, value: &Value| field.get(key) == Some(value);
    if has("format", &"password".into()) || has("writeOnly", &true.into()) {
        return true;
    }
    let is_text =
        has("type", &"string".into()) && !field.contains_key("enum") && !field.contains_key("oneOf");
    let title = field.get("title").and_then(Value::as_str).unwrap_or_default();
    is_text && (names_secret(name) || names_secret(title))
}

fn names_secret(text: &str) -> bool {
    let words = words(text);
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words.windows(2).any(|two| PAIRS.contains(&(two[0].as_str(), two[1].as_str())))
}

/// Splits a name into lower-case words: the same for `dbPassword`, `db_password` and `DB password`.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_small) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Names and titles such as `apiKey` are recognized, also in parts, but `tokenizer` is not.
    #[test]
    fn secret_field_is_recognized_by_name() {
        let asks = |name: &str, field: Value| is_secret_field(name, field.as_object().unwrap());
        for name in ["password", "dbPassword", "DB_PASSWORD", "api-key", "apiKey", "API key", "accessToken"] {
            assert!(asks(name, json!({"type": "string"})), "{name}");
            assert!(asks("x", json!({"type": "string", "title": name})), "{name}");
        }
        for name in ["name", "secretary", "tokenizer", "key", "api", "keyboard", "passage"] {
            assert!(!asks(name, json!({"type": "string"})), "{name}");
        }
        assert!(asks("x", json!({"type": "string", "format": "password"})));
        assert!(asks("x", json!({"type": "integer", "writeOnly": true})));
        for field in [
            json!({"type": "boolean"}),
            json!({"type": "integer"}),
            json!({"type": "string", "enum": ["reset", "keep"]}),
            json!({"type": "string", "oneOf": []}),
        ] {
            assert!(!asks("password", field.clone()), "{field}");
        }
    }
}
