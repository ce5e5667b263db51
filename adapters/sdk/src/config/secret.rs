//! [`Secret`]: a text in a backend's config that must not be shown. It must not know where the text comes
//! from: the server resolves it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use crate::same_secret;

/// Text that must not be shown, and that is erased from memory when it is dropped. A config may contain the
/// text itself, `{ env = "NAME" }` or `{ file = "PATH" }`. The adapter lists its secret fields in
/// [`crate::Adapter::SECRETS`], and receives the text in all three cases.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        same_secret(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BackendSecret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "description": "The value itself.", "type": "string" },
                {
                    "description": "The environment variable with the value.",
                    "type": "object",
                    "properties": { "env": { "type": "string" } },
                    "required": ["env"],
                    "additionalProperties": false
                },
                {
                    "description": "The file that contains only the value; a relative path starts at the folder of this config file.",
                    "type": "object",
                    "properties": { "file": { "type": "string" } },
                    "required": ["file"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A secret is deserialized from a text, and its debug output hides it.
    #[test]
    fn secret_is_hidden_in_debug_output() {
        let secret: Secret = serde_json::from_str("\"s3cret\"").expect("a string is accepted");
        assert_eq!((secret.reveal(), format!("{secret:?}").as_str()), ("s3cret", "Secret(hidden)"));
        assert!(secret == Secret::from("s3cret") && secret != Secret::from("s3cres"));
    }
}
