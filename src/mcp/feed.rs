//! [`Feed`]: the outlet of one stream. The handler puts messages in, the stream that runs the handler takes them out.
//! It holds a few messages at most: a handler waits while the client does not read.

use std::collections::VecDeque;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::outlet::{Outlet, Resume};
use super::room::{Part, Spot};

/// How many messages wait before their sender does.
const ROOM: usize = 16;

/// Messages on their way to a stream.
pub(super) struct Feed {
    part: Part,
    state: Mutex<State>,
    news: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<(Value, Option<Spot>)>,
    /// The room of what goes out next.
    spot: Option<Spot>,
    resume: Option<Resume>,
    gave_way: bool,
    lasts: bool,
}

impl Feed {
    /// A way for messages, of which the large ones take room.
    pub(super) fn new(part: Part) -> Self {
        Self { part, state: Mutex::default(), news: Notify::new(), room: Notify::new() }
    }

    /// Room for an answer of so many bytes: that which was taken for it before, or else what is left. `None` if there is too
    /// little.
    pub(super) fn room_for_answer(&self, bytes: usize) -> Option<Spot> {
        match self.state.lock().spot.take() {
            Some(spot) => Some(spot.resized(bytes)),
            None => self.part.take(bytes),
        }
    }

    /// The next message, if one is there, and the room that was taken for it.
    pub(super) fn take(&self) -> Option<(Value, Option<Spot>)> {
        let message = self.state.lock().messages.pop_front()?;
        self.room.notify_one();
        Some(message)
    }

    /// The next message.
    pub(super) async fn next(&self) -> (Value, Option<Spot>) {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.news.notified().await;
        }
    }

    /// True if no message is there.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().messages.is_empty()
    }

    /// Waits until there is a message, and leaves it.
    pub(super) async fn has_some(&self) {
        while self.is_empty() {
            self.news.notified().await;
        }
    }

    /// How the stream can be taken up again, if it can.
    pub(super) fn resume(&self) -> Option<Resume> {
        self.state.lock().resume.clone()
    }

    /// True if the client listens for long.
    pub(super) fn is_lasting(&self) -> bool {
        self.state.lock().lasts
    }

    /// Notes that a newer stream has taken over.
    pub(super) fn give_way(&self) {
        self.state.lock().gave_way = true;
    }
}

#[async_trait]
impl Outlet for Feed {
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
        // Whoever sends is run by the stream: once that is gone, so is the sender.
        true
    }

    fn resumable(&self, resume: Resume) {
        self.state.lock().resume = Some(resume);
    }

    fn lasts(&self) {
        self.state.lock().lasts = true;
    }

    fn room(&self, bytes: usize) -> bool {
        // First, so that what was taken in vain before is not in its way.
        self.state.lock().spot = None;
        let spot = self.part.take(bytes);
        let found = spot.is_some();
        self.state.lock().spot = spot;
        found
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn gave_way(&self) -> bool {
        self.state.lock().gave_way
    }
}

#[cfg(test)]
mod tests {
    use super::super::room::Room;
    use super::super::whose::Whose;
    use super::*;

    #[tokio::test]
    async fn a_sender_waits_for_room_and_loses_nothing() {
        let part = Part { room: Room::default(), whose: Whose::named("ann"), most: 0 };
        let feed = Feed::new(part);
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
