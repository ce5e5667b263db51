//! The output to the client: [`Stdout`] for messages, and [`Reply`] for responses to requests. It must not
//! know the content of a message.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::mcp::session::message_sink::{MessageSink, Resume};

/// The message sink of the client: open while the server runs, and never resumable.
#[derive(Clone)]
pub(super) struct Stdout(pub(super) mpsc::Sender<Vec<u8>>);

impl Stdout {
    pub(super) async fn write_line(&self, mut line: Vec<u8>) -> bool {
        line.push(b'\n');
        self.0.send(line).await.is_ok()
    }
}

#[async_trait]
impl MessageSink for Stdout {
    async fn send(&self, message: Value) -> bool {
        self.write_line(message.to_string().into_bytes()).await
    }

    fn set_resume(&self, _resume: Resume) {}

    fn is_shared(&self) -> bool {
        true
    }

    fn is_superseded(&self) -> bool {
        false
    }
}

/// The destination of a response: a line of its own, or one line for its whole batch.
#[derive(Clone)]
pub(super) enum Reply {
    Single,
    Batch(Arc<Batch>),
}

impl Reply {
    /// Writes a response, or nothing if its request was cancelled. For a batch, the last response writes them
    /// all.
    pub(super) async fn send(self, answer: Option<Vec<u8>>, sink: &Stdout) {
        let line = match self {
            Self::Single => answer,
            Self::Batch(batch) => batch.add(answer),
        };
        if let Some(line) = line {
            sink.write_line(line).await;
        }
    }
}

/// The responses to a batch.
pub(super) struct Batch(Mutex<(usize, Vec<Vec<u8>>)>);

impl Batch {
    /// Expects this number of responses.
    pub(super) fn of(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new((count, Vec::new()))))
    }

    /// Adds a response, or `None` if its request was cancelled. Returns the array after the last one, unless
    /// it is empty.
    fn add(&self, answer: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut state = self.0.lock();
        let (remaining, answers) = &mut *state;
        *remaining -= 1;
        answers.extend(answer);
        if *remaining > 0 || answers.is_empty() {
            return None;
        }
        Some([&b"["[..], &answers.join(&b','), b"]"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_response_waits_for_all() {
        let batch = Batch::of(3);
        assert_eq!((batch.add(Some(b"1".to_vec())), batch.add(None)), (None, None));
        assert_eq!(batch.add(Some(b"2".to_vec())), Some(b"[1,2]".to_vec()));
        assert_eq!(Batch::of(1).add(None), None);
    }
}
