//! Server-sent events: their encoding and their ids. An id is sealed and contains everything that is needed
//! to resume its stream. So no event log is kept, and any replica can resume the stream. It must not know the
//! meaning of the messages.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::clock::{self, Entropy};
use crate::mcp::session::message_sink::Resume;
use crate::seal::{Purpose, Seal};

/// Event without content, for a quiet stream. It keeps the connection open, and detects a client that has
/// disconnected.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// A position in a stream. Its sealed form is the id of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamPosition {
    /// The nonce of the session that the stream belongs to.
    #[serde(rename = "s")]
    pub(crate) session: String,
    /// The name of the stream, which stays the same when it is resumed.
    #[serde(rename = "t")]
    pub(crate) stream: String,
    /// The number of events with an id so far.
    #[serde(rename = "n")]
    count: u64,
    /// How to resume the stream.
    #[serde(rename = "r")]
    pub(crate) resume: Resume,
    /// True if no event follows this one.
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) last: bool,
}

impl StreamPosition {
    /// Starts a new stream.
    pub(crate) fn start(session: &str, resume: Resume, entropy: &dyn Entropy) -> Self {
        let stream: [u8; 10] = clock::random(entropy);
        let stream = data_encoding::BASE32_NOPAD.encode(&stream).to_ascii_lowercase();
        Self { session: session.to_owned(), stream, count: 0, resume, last: false }
    }

    /// Opens an event id of this session. Returns `None` if it belongs to another session or is invalid.
    pub(crate) fn open(seal: &Seal, session: &str, id: &str) -> Option<Self> {
        seal.open(Purpose::Event, id).filter(|position: &Self| position.session == session)
    }

    /// Returns the id of the next event.
    pub(crate) fn advance(&mut self, seal: &Seal) -> String {
        self.count = self.count.wrapping_add(1);
        seal.seal(Purpose::Event, self)
    }
}

/// Encodes the first event of a stream: an id that the client can resume from, and no data.
pub(crate) fn priming(id: &str, retry_ms: u32) -> Bytes {
    format!("id: {id}\nretry: {retry_ms}\ndata:\n\n").into()
}

/// Encodes the last event of a connection whose stream can be resumed: how long to wait before reconnecting.
pub(crate) fn retry(retry_ms: u32) -> Bytes {
    format!("retry: {retry_ms}\n\n").into()
}

/// Encodes one JSON-RPC message. Its text must not contain a line break; compact JSON never does.
pub(crate) fn message(id: Option<&str>, json: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(json.len() + id.map_or(0, str::len) + 32);
    event.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        event.extend_from_slice(b"id: ");
        event.extend_from_slice(id.as_bytes());
        event.push(b'\n');
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(json);
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::clock::System;

    /// The first event has a retry time and no data.
    #[test]
    fn sse_event_has_fields_and_blank() {
        assert_eq!(message(Some("7"), b"{}"), "event: message\nid: 7\ndata: {}\n\n");
        assert_eq!(message(None, b"{}"), "event: message\ndata: {}\n\n");
        assert_eq!(priming("7", 5), "id: 7\nretry: 5\ndata:\n\n");
    }

    /// Event ids are unique, printable, and do not open in another session or with another key.
    #[test]
    fn event_id_opens_only_its_session() {
        let seal = Seal::new(&[1; 32], System::entropy());
        let mut position = StreamPosition::start("mine", Resume::Listen { lists: None }, &System);
        let ids: HashSet<String> = (0..100).map(|_| position.advance(&seal)).collect();
        assert_eq!(ids.len(), 100);
        for id in &ids {
            assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
            let opened = StreamPosition::open(&seal, "mine", id).unwrap();
            assert_eq!(
                (opened.stream, opened.resume),
                (position.stream.clone(), Resume::Listen { lists: None })
            );
            assert_eq!(StreamPosition::open(&seal, "other", id), None);
        }
        assert_eq!(StreamPosition::open(&seal, "mine", "nonsense"), None);
        let other = Seal::new(&[2; 32], System::entropy());
        assert_eq!(StreamPosition::open(&other, "mine", &position.advance(&seal)), None);
    }
}
