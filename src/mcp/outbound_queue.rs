//! [`OutboundQueue`]: the outbound queue of one stream. The handler adds messages, and the stream that runs
//! the handler removes them. The queue is short: a handler waits while the client does not read. It must not
//! know how a message is encoded.

use std::collections::VecDeque;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::memory_budget::{CallerBudget, MemoryReservation};
use super::message_sink::{MessageSink, Resume};

/// Maximum number of queued messages; then the sender waits.
const ROOM: usize = 16;

/// Outbound queue of a stream.
pub(super) struct OutboundQueue {
    part: CallerBudget,
    state: Mutex<State>,
    news: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(Value, Option<MemoryReservation>)>,
    /// Memory reservation for the next message or answer.
    spot: Option<MemoryReservation>,
    resume: Option<Resume>,
    gave_way: bool,
    lasts: bool,
}

impl OutboundQueue {
    /// Creates a queue. [`MessageSink::reserve`] takes memory from `part`.
    pub(super) fn new(part: CallerBudget) -> Self {
        Self { part, state: Mutex::default(), news: Notify::new(), room: Notify::new() }
    }

    /// Returns a memory reservation for an answer of this size: the handler's reservation, resized, or a new
    /// one. Returns `None` if a new one does not fit the budget.
    pub(super) fn room_for_answer(&self, bytes: usize) -> Option<MemoryReservation> {
        match self.state.lock().spot.take() {
            Some(spot) => Some(spot.resized(bytes)),
            None => self.part.take(bytes),
        }
    }

    /// Removes the next message, if there is one, with its memory reservation.
    pub(super) fn take(&self) -> Option<(Value, Option<MemoryReservation>)> {
        let message = self.state.lock().messages.pop_front()?;
        self.room.notify_one();
        Some(message)
    }

    /// Waits for the next message, and removes it.
    pub(super) async fn next(&self) -> (Value, Option<MemoryReservation>) {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.news.notified().await;
        }
    }

    /// Returns true if the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().messages.is_empty()
    }

    /// Waits until there is a message, without removing it.
    pub(super) async fn has_some(&self) {
        while self.is_empty() {
            self.news.notified().await;
        }
    }

    /// Returns how the stream can be resumed, if it can.
    pub(super) fn resume(&self) -> Option<Resume> {
        self.state.lock().resume.clone()
    }

    /// Returns true if the stream is long-lived.
    pub(super) fn is_lasting(&self) -> bool {
        self.state.lock().lasts
    }

    /// Records that a newer stream has taken over.
    pub(super) fn supersede(&self) {
        self.state.lock().gave_way = true;
    }
}

#[async_trait]
impl MessageSink for OutboundQueue {
    async fn send(&self, message: Value) -> bool {
        let mut message = Some((message, self.state.lock().spot.take()));
        loop {
            {
                let mut state = self.state.lock();
                if state.messages.len() < ROOM {
                    state.messages.extend(message.take());
                    break;
                }
            }
            self.room.notified().await;
        }
        self.news.notify_one();
        // The stream runs the sender: once the stream is gone, so is the sender.
        true
    }

    fn resumable(&self, resume: Resume) {
        self.state.lock().resume = Some(resume);
    }

    fn set_long_lived(&self) {
        self.state.lock().lasts = true;
    }

    fn reserve(&self, bytes: usize) -> bool {
        // First, so that an unused reservation does not take up the budget.
        self.state.lock().spot = None;
        let spot = self.part.take(bytes);
        let found = spot.is_some();
        self.state.lock().spot = spot;
        found
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_superseded(&self) -> bool {
        self.state.lock().gave_way
    }
}

#[cfg(test)]
mod tests {
    use super::super::caller_key::CallerKey;
    use super::super::memory_budget::MemoryBudget;
    use super::*;

    /// A sender waits for free space, and no message is lost.
    #[tokio::test]
    async fn full_message_sink_delays_sender() {
        let part = CallerBudget { room: MemoryBudget::default(), whose: CallerKey::named("ann"), most: 0 };
        let feed = OutboundQueue::new(part);
        let sent = async {
            for n in 0..100 {
                feed.send(Value::from(n)).await;
                assert!(feed.state.lock().messages.len() <= ROOM);
            }
        };
        let received = async {
            for n in 0..100 {
                assert_eq!(feed.next().await.0, Value::from(n));
            }
        };
        futures_util::future::join(sent, received).await;
        assert!(feed.take().is_none());
    }
}
