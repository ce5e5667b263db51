//! [`Limits`]: how much one message, session or owner may demand of the server. This module checks the size
//! and structure of a message before a handler receives it. The other limits are applied where the counted
//! events happen. It must not know any method.

use std::io;

use serde_json::Value;

use super::jsonrpc::{self, Bounds, Error, INVALID_PARAMS, Malformed, Message, batch};

/// Limits of messages, sessions and owners: settings of `[limits]`. Where callers are not identified, a limit
/// per owner applies per client address. Each process counts on its own.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Limits of the JSON structure (`max_json_depth`, `max_json_elements`).
    pub json: Bounds,
    /// Maximum number of messages in one batch.
    pub batch: usize,
    /// Maximum size of the `arguments` of a request as compact JSON, in bytes.
    pub max_argument_bytes: usize,
    /// Maximum number of open streams and pending requests per owner.
    pub max_streams_per_owner: usize,
    /// Maximum number of sessions that one owner may end per day.
    pub max_ended_sessions_per_day: u32,
    /// Maximum number of sessions per owner and day that begin to store settings.
    pub max_kept_sessions_per_day: u32,
    /// Maximum number of resources that one session, or one subscription, may follow.
    pub max_followed_resources: usize,
    /// Maximum length of the address of a followed resource, in bytes.
    pub max_url_bytes: usize,
    /// Memory budget of bodies and answers in transit, in bytes. Only those above 64 KiB count.
    pub max_bytes_in_hand: usize,
}

/// The defaults of the config.
impl Default for Limits {
    fn default() -> Self {
        Self {
            json: Bounds { depth: 64, elements: 100_000 },
            batch: 32,
            max_argument_bytes: 1024 * 1024,
            max_streams_per_owner: 1024,
            max_ended_sessions_per_day: 10_000,
            max_kept_sessions_per_day: 10_000,
            max_followed_resources: 100,
            max_url_bytes: 4_096,
            max_bytes_in_hand: 256 * 1024 * 1024,
        }
    }
}

impl Limits {
    /// Parses one message, and checks its structure and the size of its arguments.
    ///
    /// # Errors
    /// As [`jsonrpc::parse`], and -32602 for arguments that are too large.
    pub fn read(&self, text: &[u8]) -> Result<Message, Malformed> {
        let message = jsonrpc::parse(text, self.json)?;
        // Only a message above this size is measured, because its arguments are a part of it.
        if text.len() > self.max_argument_bytes
            && let Message::Request(request) = &message
            && let Some(arguments) = request.params.get("arguments")
            && size(arguments) > self.max_argument_bytes
        {
            let detail = format!(
                "the arguments are larger than the {} bytes that this server takes",
                self.max_argument_bytes
            );
            return Err(Malformed {
                id: Some(request.id.clone()),
                error: Error::new(INVALID_PARAMS, detail),
            });
        }
        Ok(message)
    }

    /// Parses the entries of a batch, each like a single message, with its own error.
    ///
    /// # Errors
    /// See [`batch::split`].
    pub fn read_batch(&self, text: &[u8]) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
        let entries = batch::split(text, self.batch)?;
        Ok(entries.into_iter().map(|entry| self.read(entry)).collect())
    }
}

/// Returns the size of a value as compact JSON, in bytes.
fn size(value: &Value) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    // Neither serialization nor the counter can fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The limit applies to the compact form of the arguments, however they are written.
    #[test]
    fn argument_limit_ignores_whitespace() {
        let limits = Limits { max_argument_bytes: 100, ..Limits::default() };
        let call = |arguments: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x", "arguments": arguments}});
        let fits = call(json!({"a": "x".repeat(100 - 8)}));
        let padded = serde_json::to_string_pretty(&fits).unwrap().replace('\n', "\n          ");
        for text in [fits.to_string(), padded] {
            assert!(limits.read(text.as_bytes()).is_ok(), "{text}");
        }
        let malformed =
            limits.read(call(json!({"a": "x".repeat(100 - 7)})).to_string().as_bytes()).unwrap_err();
        assert_eq!((malformed.id, malformed.error.code), (Some(jsonrpc::Id::Integer(7)), INVALID_PARAMS));
        assert_eq!(
            malformed.error.message,
            "the arguments are larger than the 100 bytes that this server takes"
        );
    }
}
