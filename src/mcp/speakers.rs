//! One stream of a session speaks at a time: a client may hold several streams that it opened to listen, and every
//! message goes out on exactly one of them. The newest speaks, since an older one may hang on a connection that is
//! gone. It must not know how anything is said.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::sync::watch;

use super::heard::Heard;
use super::offers::Edition;
use crate::tasks::task::{Task, TaskId};

/// Of how many tasks it is remembered what was told of their notes, before all is forgotten. A request that waited leaves
/// a mark here that nothing takes away if its task had ended.
const MOST_HEARD: usize = 1024;

/// The listening streams of all sessions.
#[derive(Clone, Default)]
pub struct Speakers {
    floors: Arc<Mutex<HashMap<String, Arc<Floor>>>>,
}

/// What a session was last told of one task, on whichever of its streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// [`crate::tasks::task::Task::changed_at`] of the row that was told of.
    pub changed_at: Timestamp,
    /// A short form of where it was said to stand.
    pub words: u64,
    /// The last progress that was reported.
    pub progress: Option<f64>,
}

/// The listening streams of one session.
struct Floor {
    /// When the first of them opened.
    since: Timestamp,
    streams: watch::Sender<Streams>,
    lists: Mutex<Edition>,
    told: Mutex<HashMap<TaskId, Told>>,
    heard: Mutex<HashMap<TaskId, Heard>>,
}

#[derive(Default)]
struct Streams {
    opened: u64,
    open: Vec<u64>,
}

/// One listening stream's part in its session. Dropped, the stream is gone and the next newest speaks.
pub struct Turn {
    session: String,
    stream: u64,
    floor: Arc<Floor>,
    speakers: Speakers,
}

impl Speakers {
    /// A new stream of this session: from now on it is the one that speaks. Where it is the only one, its client knows
    /// these lists.
    pub fn enter(&self, session: &str, now: Timestamp, lists: Edition) -> Turn {
        let mut floors = self.floors.lock();
        let new = || Floor {
            since: now,
            streams: watch::Sender::default(),
            lists: Mutex::new(lists),
            told: Mutex::default(),
            heard: Mutex::default(),
        };
        let floor = Arc::clone(floors.entry(session.to_owned()).or_insert_with(|| Arc::new(new())));
        let mut stream = 0;
        floor.streams.send_modify(|streams| {
            streams.opened += 1;
            stream = streams.opened;
            streams.open.push(stream);
        });
        Turn { session: session.to_owned(), stream, floor, speakers: self.clone() }
    }

    /// True if a stream of this session listens here.
    pub fn is_listened(&self, session: &str) -> bool {
        self.floors.lock().contains_key(session)
    }

    /// Notes what a request of this session that waited for a task was told of its notes.
    pub fn heard_elsewhere(&self, session: &str, task: &Task, heard: Heard) {
        if let Some(floor) = self.floors.lock().get(session) {
            let heard = if task.has_ended() { heard } else { heard.handed_on() };
            floor.remember(task, heard);
        }
    }
}

impl Floor {
    fn remember(&self, task: &Task, heard: Heard) {
        let mut all = self.heard.lock();
        if all.len() == MOST_HEARD {
            all.clear();
        }
        all.insert(task.id.clone(), heard);
    }
}

impl Turn {
    /// Waits until it is this stream's turn to speak.
    pub async fn begins(&self) {
        self.until(true).await;
    }

    /// Waits until it no longer is.
    pub async fn ends(&self) {
        self.until(false).await;
    }

    /// The edition of the lists that the client knows.
    pub fn lists_known(&self) -> Edition {
        *self.floor.lists.lock()
    }

    /// Notes which edition of the lists the client knows.
    pub fn knows_lists(&self, lists: Edition) {
        *self.floor.lists.lock() = lists;
    }

    /// What the session was told, to be read and changed by the stream that speaks.
    pub fn told<T>(&self, act: impl FnOnce(&mut HashMap<TaskId, Told>) -> T) -> T {
        act(&mut self.floor.told.lock())
    }

    /// What the session was told of a task's notes. Where nothing was told, what was there before the first stream
    /// opened counts as told.
    pub fn heard(&self, task: &Task) -> Heard {
        let heard = self.floor.heard.lock().get(&task.id).copied();
        heard.unwrap_or_else(|| Heard::since(self.floor.since))
    }

    /// Notes what it was told of them; nothing, once the task is over.
    pub fn now_heard(&self, task: &Task, heard: Heard) {
        match task.has_ended() {
            true => drop(self.floor.heard.lock().remove(&task.id)),
            false => self.floor.remember(task, heard),
        }
    }

    async fn until(&self, speaks: bool) {
        let mut streams = self.floor.streams.subscribe();
        let own = self.stream;
        // The sender lives in the floor, which this holds.
        let _ = streams.wait_for(|streams| (streams.open.last() == Some(&own)) == speaks).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut floors = self.speakers.floors.lock();
        let own = self.stream;
        self.floor.streams.send_modify(|streams| streams.open.retain(|stream| *stream != own));
        if self.floor.streams.borrow().open.is_empty() {
            floors.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn the_newest_stream_speaks_and_the_next_newest_after_it() {
        let speakers = Speakers::default();
        let now = Timestamp::from_millis(0);
        let lists = Edition::default();
        let first = speakers.enter("s", now, lists);
        assert!(first.begins().now_or_never().is_some());
        let second = speakers.enter("s", now, lists);
        assert!(first.ends().now_or_never().is_some());
        assert!(first.begins().now_or_never().is_none());
        assert!(second.begins().now_or_never().is_some());
        let other = speakers.enter("t", now, lists);
        assert!(other.begins().now_or_never().is_some());
        drop(second);
        assert!(first.begins().now_or_never().is_some());
        assert!(speakers.is_listened("s") && !speakers.is_listened("u"));
        drop((first, other));
        assert!(!speakers.is_listened("s"));
        assert!(speakers.floors.lock().is_empty());
    }
}
