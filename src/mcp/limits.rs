//! [`Limits`]: how much one message may ask of the server, whatever it asks for. They are looked at before anything is
//! made of the message. It must not know a method.

use std::io;

use serde_json::Value;

use super::jsonrpc::{self, Bounds, Error, INVALID_PARAMS, Malformed, Message, batch};

/// How much one message may ask.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How much structure it may have.
    pub json: Bounds,
    /// Messages in one batch.
    pub batch: usize,
    /// The most bytes of arguments, as JSON.
    pub max_argument_bytes: usize,
    /// Streams and requests in hand of one owner at once.
    pub max_streams_per_owner: usize,
    /// Sessions that one owner may end in a day.
    pub max_ended_sessions_per_day: u32,
    /// Sessions of one owner that may begin to set something in a day.
    pub max_kept_sessions_per_day: u32,
    /// Resources that one session, or one subscription, may follow.
    pub max_followed_resources: usize,
    /// The longest address of a resource that a session may follow, in bytes.
    pub max_url_bytes: usize,
    /// Bytes of large bodies and answers that are on their way.
    pub max_bytes_in_hand: usize,
}

/// As much as the config allows by default.
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
    /// Reads one message, if it is within the limits.
    ///
    /// # Errors
    /// See [`jsonrpc::parse`]; with -32602 for arguments that are too large.
    pub fn read(&self, text: &[u8]) -> Result<Message, Malformed> {
        let message = jsonrpc::parse(text, self.json)?;
        // What is written shorter than this holds nothing larger.
        if text.len() > self.max_argument_bytes
            && let Message::Request(request) = &message
            && let Some(arguments) = request.params.get("arguments")
            && size(arguments) > self.max_argument_bytes
        {
            let words = format!(
                "the arguments are larger than the {} bytes that this server takes",
                self.max_argument_bytes
            );
            return Err(Malformed { id: Some(request.id.clone()), error: Error::new(INVALID_PARAMS, words) });
        }
        Ok(message)
    }

    /// Reads the entries of a batch, each as a message by itself.
    ///
    /// # Errors
    /// See [`batch::split`].
    pub fn read_batch(&self, text: &[u8]) -> Result<Vec<Result<Message, Malformed>>, Malformed> {
        let entries = batch::split(text, self.batch)?;
        Ok(entries.into_iter().map(|entry| self.read(entry)).collect())
    }
}

/// The bytes of a value as JSON without blanks.
fn size(value: &Value) -> usize {
    struct Counts(usize);
    impl io::Write for Counts {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counts = Counts(0);
    // Neither a value nor the counter can fail.
    let _ = serde_json::to_writer(&mut counts, value);
    counts.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_held_against_their_limit_however_they_are_written() {
        let limits = Limits { max_argument_bytes: 100, ..Limits::default() };
        let call = |arguments: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x", "arguments": arguments}});
        let fits = call(json!({"a": "x".repeat(100 - 8)}));
        let padded = serde_json::to_string_pretty(&fits).unwrap().replace('\n', "\n          ");
        for text in [fits.to_string(), padded] {
            assert!(limits.read(text.as_bytes()).is_ok(), "{text}");
        }
        let refused =
            limits.read(call(json!({"a": "x".repeat(100 - 7)})).to_string().as_bytes()).unwrap_err();
        assert_eq!((refused.id, refused.error.code), (Some(jsonrpc::Id::Integer(7)), INVALID_PARAMS));
        assert_eq!(
            refused.error.message,
            "the arguments are larger than the 100 bytes that this server takes"
        );
    }
}
