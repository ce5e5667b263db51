//! Values as text. Pure.

use serde_json::Value as Json;

/// Returns a value as plain text: a text unchanged, and everything else as JSON.
pub(crate) fn plain_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
