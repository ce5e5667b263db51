//! Values as text. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

/// Returns a value as plain text: a text unchanged, and everything else as JSON.
pub(crate) fn plain_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986. It is safe in a piece of a path, in a
/// query and in a form: a reader of forms takes `%20` for a space, too.
pub(crate) fn percent_encode(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes the pairs of a query or a form.
pub(crate) fn encode_pairs<K: AsRef<str>, V: AsRef<str>>(pairs: &[(K, V)]) -> String {
    let encode = |(name, value): &(K, V)| {
        format!("{}={}", percent_encode(name.as_ref()), percent_encode(value.as_ref()))
    };
    pairs.iter().map(encode).collect::<Vec<_>>().join("&")
}
