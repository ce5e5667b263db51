//! What the processes over one store must know of each other's streams: which of a session's listening streams are open,
//! which streams were taken up on another connection, which requests were cancelled, and what was told of a task's notes.
//! It is kept in the session's row ([`super::store::Settings`]), so that it holds whoever is told of it late. Pure; it
//! must not know a protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use super::task::TaskId;

/// For how long a listening stream counts as open without saying so again.
pub const LISTENS_FOR: Duration = Duration::from_secs(45);

/// How many of each are remembered. What is older matters to nobody any more, as a rule; where it does, a stream stays
/// open that nobody reads.
const MOST: usize = 32;

/// What is known of a session's streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Streams {
    /// The number of the stream that was opened last. Numbers rise, also where what was known is forgotten: none is less
    /// than the moment at which it was given.
    n: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listening: Vec<Listening>,
    /// Streams by name, with the number of the connection on which each was taken up last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken_up: Vec<(String, u64)>,
    /// Requests by id, and when each was cancelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancelled: Vec<(String, Timestamp)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told: Vec<Told>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Listening {
    n: u64,
    until: Timestamp,
}

/// What a session was told of a task: by a request that waited for it, or by a listening stream that gave way or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// The task.
    pub task: TaskId,
    /// The number of the newest note that was told.
    pub note: Option<u64>,
    /// Since when the trouble has been that was told last.
    pub trouble: Option<Timestamp>,
    /// True if it was told that the task is broken.
    pub broken: bool,
    /// Set if it was a listening stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<Handed>,
}

/// What a listening stream had told beside notes when it gave way or ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handed {
    /// The number of the stream.
    #[serde(default)]
    pub n: u64,
    /// When.
    pub at: Timestamp,
    /// What was there by this moment counted as told.
    pub since: Timestamp,
    /// A short form of where the task was said to stand.
    pub words: u64,
    /// The last progress that was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

/// What happened to a session's streams.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamNote {
    /// One was opened: it has the next number.
    Opened {
        /// Its name, if it is one that was taken up again.
        taken_up: Option<String>,
        /// Until when it listens, if it does.
        listens: Option<Timestamp>,
        /// When.
        now: Timestamp,
    },
    /// The one of this number listens still.
    Listens {
        /// The number.
        n: u64,
        /// For so long.
        until: Timestamp,
    },
    /// The one of this number has ended.
    Closed(u64),
    /// A request was cancelled.
    Cancelled {
        /// Its id, as JSON.
        request: String,
        /// When.
        at: Timestamp,
    },
    /// This was told.
    Told(Vec<Told>),
}

impl Streams {
    /// The same after this.
    #[must_use]
    pub fn with(mut self, note: &StreamNote) -> Self {
        match note {
            StreamNote::Opened { taken_up, listens, now } => {
                self.n = (self.n + 1).max(u64::try_from(now.as_millis()).unwrap_or(0));
                if let Some(stream) = taken_up {
                    push(&mut self.taken_up, (stream.clone(), self.n), |(other, _)| other == stream);
                }
                if let Some(until) = *listens {
                    push(&mut self.listening, Listening { n: self.n, until }, |other| other.until <= *now);
                }
            }
            StreamNote::Listens { n, until } => {
                push(&mut self.listening, Listening { n: *n, until: *until }, |other| other.n == *n);
            }
            StreamNote::Closed(n) => self.listening.retain(|other| other.n != *n),
            StreamNote::Cancelled { request, at } => {
                push(&mut self.cancelled, (request.clone(), *at), |(other, _)| other == request);
            }
            StreamNote::Told(all) => {
                for told in all {
                    push(&mut self.told, told.clone(), |other| other.task == told.task);
                }
            }
        }
        self
    }

    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The number of the stream that was opened last.
    pub fn newest(&self) -> u64 {
        self.n
    }

    /// The number of the listening stream that was opened last, of those that are open; 0 if none is.
    pub fn speaker(&self, now: Timestamp) -> u64 {
        self.listening.iter().filter(|other| other.until > now).map(|other| other.n).max().unwrap_or(0)
    }

    /// True if others than this listen.
    pub fn others_listen(&self, own: u64, now: Timestamp) -> bool {
        self.listening.iter().any(|other| other.n != own && other.until > now)
    }

    /// Streams by name, with the number of the connection on which each was taken up last.
    pub fn taken_up(&self) -> impl Iterator<Item = (&str, u64)> {
        self.taken_up.iter().map(|(stream, n)| (stream.as_str(), *n))
    }

    /// Requests by id, and when each was cancelled.
    pub fn cancelled(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.cancelled.iter().map(|(request, at)| (request.as_str(), *at))
    }

    /// What was told in other processes.
    pub fn told(&self) -> impl Iterator<Item = &Told> {
        self.told.iter()
    }
}

/// Adds to a list of bounded length, in place of those that are `over`.
fn push<T>(list: &mut Vec<T>, new: T, over: impl Fn(&T) -> bool) {
    list.retain(|other| !over(other));
    if list.len() >= MOST {
        list.remove(0);
    }
    list.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn listens(streams: Streams, now: i64, until: i64) -> Streams {
        streams.with(&StreamNote::Opened { taken_up: None, listens: Some(at(until)), now: at(now) })
    }

    #[test]
    fn the_newest_that_is_open_speaks_and_the_next_newest_after_it() {
        let streams = listens(listens(Streams::default(), 1, 10), 1, 20);
        assert_eq!((streams.speaker(at(5)), streams.others_listen(2, at(5))), (2, true));
        assert_eq!(streams.clone().with(&StreamNote::Closed(2)).speaker(at(5)), 1);
        // The first has not said that it listens still, and so counts as gone; when it says so it is there again.
        assert!(!streams.others_listen(2, at(10)));
        let streams = streams.with(&StreamNote::Listens { n: 1, until: at(40) });
        assert_eq!((streams.speaker(at(19)), streams.speaker(at(20)), streams.speaker(at(40))), (2, 1, 0));
        let third = listens(streams, 30, 40);
        assert_eq!((third.speaker(at(30)), third.newest()), (30, 30));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_newest() {
        let mut streams = Streams::default();
        for n in 0..2 * MOST {
            let request = n.to_string();
            streams = streams.with(&StreamNote::Cancelled { request, at: at(0) });
            let taken_up = Some(format!("s{}", n % 3));
            streams = streams.with(&StreamNote::Opened { taken_up, listens: None, now: at(0) });
        }
        let cancelled: Vec<&str> = streams.cancelled().map(|(request, _)| request).collect();
        assert_eq!((cancelled.len(), cancelled.last()), (MOST, Some(&"63")));
        let taken_up: Vec<(&str, u64)> = streams.taken_up().collect();
        assert_eq!(taken_up, [("s1", 62), ("s2", 63), ("s0", 64)]);
    }
}
