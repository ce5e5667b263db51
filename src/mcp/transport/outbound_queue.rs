//! [`OutboundQueue`]: the outbound queue of one stream. The handler adds messages, and the stream that runs
//! the handler removes them. The queue is short: a handler waits while the client does not read. It must not
//! know how a message is encoded.

use std::collections::VecDeque;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::limits::memory_budget::{CallerBudget, MemoryReservation};
use crate::mcp::session::message_sink::{MessageSink, Resume};

/// Maximum number of queued messages; then the sender waits.
const CAPACITY: usize = 16;

/// Outbound queue of a stream.
pub(crate) struct OutboundQueue {
    budget: CallerBudget,
    state: Mutex<State>,
    message_added: Notify,
    space_freed: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(Value, Option<MemoryReservation>)>,
    /// Memory reservation for the next message or answer.
    reservation: Option<MemoryReservation>,
    resume: Option<Resume>,
    is_superseded: bool,
    is_long_lived: bool,
}

impl OutboundQueue {
    /// Creates a queue. [`MessageSink::reserve`] takes memory from `budget`.
    pub(crate) fn new(budget: CallerBudget) -> Self {
        Self { budget, state: Mutex::default(), message_added: Notify::new(), space_freed: Notify::new() }
    }

    /// Returns a memory reservation for an answer of this size: the handler's reservation, resized, or a new
    /// one. Returns `None` if a new one does not fit the budget.
    pub(crate) fn reserve_for_answer(&self, bytes: usize) -> Option<MemoryReservation> {
        match self.state.lock().reservation.take() {
            Some(reservation) => Some(reservation.resize(bytes)),
            None => self.budget.take(bytes),
        }
    }

    /// Removes the next message, if there is one, with its memory reservation.
    pub(crate) fn take(&self) -> Option<(Value, Option<MemoryReservation>)> {
        let message = self.state.lock().messages.pop_front()?;
        self.space_freed.notify_one();
        Some(message)
    }

    /// Waits for the next message, and removes it.
    pub(crate) async fn next(&self) -> (Value, Option<MemoryReservation>) {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.message_added.notified().await;
        }
    }

    /// Returns true if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().messages.is_empty()
    }

    /// Waits until there is a message, without removing it.
    pub(crate) async fn wait_for_message(&self) {
        while self.is_empty() {
            self.message_added.notified().await;
        }
    }

    /// Returns how the stream can be resumed, if it can.
    pub(crate) fn resume(&self) -> Option<Resume> {
        self.state.lock().resume.clone()
    }

    /// Returns true if the stream is long-lived.
    pub(crate) fn is_long_lived(&self) -> bool {
        self.state.lock().is_long_lived
    }

    /// Records that a newer stream has taken over.
    pub(crate) fn supersede(&self) {
        self.state.lock().is_superseded = true;
    }
}

#[async_trait]
impl MessageSink for OutboundQueue {
    async fn send(&self, message: Value) -> bool {
        let mut message = Some((message, self.state.lock().reservation.take()));
        loop {
            {
                let mut state = self.state.lock();
                if state.messages.len() < CAPACITY {
                    state.messages.extend(message.take());
                    break;
                }
            }
            self.space_freed.notified().await;
        }
        self.message_added.notify_one();
        // The stream runs the sender: once the stream is gone, so is the sender.
        true
    }

    fn set_resume(&self, resume: Resume) {
        self.state.lock().resume = Some(resume);
    }

    fn set_long_lived(&self) {
        self.state.lock().is_long_lived = true;
    }

    fn reserve(&self, bytes: usize) -> bool {
        // First, so that an unused reservation does not take up the budget.
        self.state.lock().reservation = None;
        let reservation = self.budget.take(bytes);
        let is_reserved = reservation.is_some();
        self.state.lock().reservation = reservation;
        is_reserved
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_superseded(&self) -> bool {
        self.state.lock().is_superseded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::caller_key::CallerKey;
    use crate::limits::memory_budget::MemoryBudget;

    /// A sender waits for free space, and no message is lost.
    #[tokio::test]
    async fn full_message_sink_delays_sender() {
        let budget =
            CallerBudget { budget: MemoryBudget::default(), caller_key: CallerKey::named("ann"), limit: 0 };
        let queue = OutboundQueue::new(budget);
        let send_all = async {
            for n in 0..100 {
                queue.send(Value::from(n)).await;
                assert!(queue.state.lock().messages.len() <= CAPACITY);
            }
        };
        let receive_all = async {
            for n in 0..100 {
                assert_eq!(queue.next().await.0, Value::from(n));
            }
        };
        futures_util::future::join(send_all, receive_all).await;
        assert!(queue.take().is_none());
    }
}
