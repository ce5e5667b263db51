//! [`Events`]: the messages of an event stream, as the HTML standard defines `text/event-stream`.

use reqwest::Response;
use serde_json::Value;

use super::{Fault, Generation, schema};

/// An open event stream.
pub(crate) struct Events {
    generation: Generation,
    response: Response,
    unread: Vec<u8>,
    /// The id of the last event, for `Last-Event-ID`.
    pub(crate) last_id: Option<String>,
}

impl Events {
    /// Returns the stream of a server of this generation.
    pub(crate) fn new(generation: Generation, response: Response) -> Self {
        Self { generation, response, unread: Vec::new(), last_id: None }
    }

    /// Returns the next JSON-RPC message, checked against the schema; `None` at the end of the stream. Skips
    /// events without data.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Fault> {
        loop {
            while let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.unread.drain(..end + 2).collect();
                if let Some(message) = self.read(&String::from_utf8(event).unwrap()) {
                    schema::check(self.generation, &message);
                    return Ok(Some(message));
                }
            }
            match self.response.chunk().await.map_err(|e| Fault::Lost(e.to_string()))? {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    fn read(&mut self, event: &str) -> Option<Value> {
        let mut data = String::new();
        for line in event.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => data.push_str(value),
                "id" => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        (!data.is_empty()).then(|| serde_json::from_str(&data).unwrap())
    }
}
