//! JSON-RPC batches: several messages in one JSON array. This module only splits a batch. It must not parse
//! an entry: the caller parses and checks each like a single message.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::parse::{Malformed, invalid, unreadable};

/// Returns true if this text is a batch, provided that it is valid JSON.
pub fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Returns the texts of a batch's entries, of which there may be at most `most`.
///
/// # Errors
/// [`Malformed`] for a text that is not JSON, for a batch without entries, and for a batch with too many.
pub fn split(text: &[u8], limit: usize) -> Result<Vec<&[u8]>, Malformed> {
    let Ok(text) = std::str::from_utf8(text) else { return Err(unreadable("the message is not UTF-8")) };
    let mut reader = serde_json::Deserializer::from_str(text);
    let entries =
        Entries { limit }.deserialize(&mut reader).and_then(|entries| reader.end().map(|()| entries));
    match entries {
        Ok(entries) if entries.is_empty() => Err(invalid(None, "a batch must not be empty")),
        Ok(entries) => Ok(entries.into_iter().map(|entry| entry.get().as_bytes()).collect()),
        Err(error) if error.is_data() => Err(invalid(
            None,
            &format!(
                "a batch may have {limit} messages at most (limits.batch): send the others in another one"
            ),
        )),
        Err(error) => Err(unreadable(&format!("the message is not JSON: {error}"))),
    }
}

/// Returns the error for a batch from a client whose revision has no batches.
pub fn refuse(text: &[u8]) -> Malformed {
    match std::str::from_utf8(text).map(serde_json::from_str::<IgnoredAny>) {
        Ok(Ok(_)) => invalid(None, "batches are not supported: send each message by itself"),
        Ok(Err(error)) => unreadable(&format!("the message is not JSON: {error}")),
        Err(_) => unreadable("the message is not UTF-8"),
    }
}

/// Collects the entries without parsing them, and stops at the first one above the limit.
struct Entries {
    limit: usize,
}

impl<'de> DeserializeSeed<'de> for Entries {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = sequence.next_element()? {
            if entries.len() == self.limit {
                return Err(A::Error::custom("too many"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{INVALID_REQUEST, PARSE_ERROR};

    #[test]
    fn batch_is_taken_apart() {
        let deep = format!("[{}1{}]", "[".repeat(100_000), "]".repeat(100_000));
        assert!(is_batch(b" \n[1]") && !is_batch(b"{\"a\":[]}") && !is_batch(b""));
        assert_eq!(
            split(b" [ {\"a\": [1, 2]} , 7,\n\"]\" ] ", 3).unwrap(),
            [&b"{\"a\": [1, 2]}"[..], b"7", b"\"]\""]
        );
        assert_eq!(split(deep.as_bytes(), 1).unwrap().len(), 1);
    }

    #[test]
    fn bad_batches_are_refused_whole() {
        for (text, code, expected) in [
            ("[]", INVALID_REQUEST, "must not be empty"),
            ("[1,2,3]", INVALID_REQUEST, "2 messages at most (limits.batch)"),
            ("[1,", PARSE_ERROR, "not JSON"),
            ("[1] 2", PARSE_ERROR, "not JSON"),
            ("[{\"a\":}]", PARSE_ERROR, "not JSON"),
        ] {
            let malformed = split(text.as_bytes(), 2).unwrap_err();
            assert_eq!((malformed.id, malformed.error.code), (None, code), "{text}");
            assert!(malformed.error.message.contains(expected), "{text}: {}", malformed.error.message);
        }
        assert_eq!(split(b"[\xff]", 2).unwrap_err().error.code, PARSE_ERROR);
    }
}
