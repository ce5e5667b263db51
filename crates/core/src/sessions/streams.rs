//! The state of a session's streams that processes over one store share: open listening streams, streams that
//! were resumed on another connection, cancelled requests, and the last reports on tasks. It is kept in the
//! session's row ([`super::SessionSettings`]), so that a process that reads it late sees it too. Pure;
//! it must not depend on a protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::tasks::task::TaskId;

/// How long a listening stream counts as open without a renewal.
pub const LISTENER_LEASE: Duration = Duration::from_secs(45);

/// The maximum number of entries in each list. An older entry rarely matters; if it does, a stream that has
/// no reader stays open.
const MAX_ENTRIES: usize = 32;

/// The shared state of a session's streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Streams {
    /// The number of the newest stream. Numbers increase even after the state was deleted, because each is
    /// at least the time in milliseconds when it was assigned.
    n: u64,
    /// The leases of listening streams; an expired one may remain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listening: Vec<ListenerLease>,
    /// Resumed streams by name, with the number of the connection that resumed each last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken_up: Vec<(String, u64)>,
    /// Requests by id, with the time when each was cancelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancelled: Vec<(String, Timestamp)>,
    /// The last report on each task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told: Vec<TaskReport>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ListenerLease {
    n: u64,
    until: Timestamp,
}

/// The last report to a session on a task: by a request that waited for it, or by a listening stream that
/// was replaced or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub task: TaskId,
    /// The number of the newest reported note.
    pub note: Option<u64>,
    /// The start time of the last reported engine outage.
    pub trouble: Option<Timestamp>,
    /// True if it was reported that the task is broken.
    pub broken: bool,
    /// Set if the report is from a listening stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<StreamHandover>,
}

/// The state of a listening stream, beyond notes, when it was replaced or ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamHandover {
    /// The number of the stream.
    #[serde(default)]
    pub n: u64,
    /// When the stream was replaced or ended.
    pub at: Timestamp,
    /// The events until this time count as reported.
    pub since: Timestamp,
    /// A hash of the last reported status.
    pub words: u64,
    /// The last reported progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

/// An event of a session's streams.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// A stream was opened. It has the next number.
    Opened {
        /// Its name, if it is a resumed stream.
        resumed: Option<String>,
        /// The end of its lease, if it is a listening stream.
        lease_until: Option<Timestamp>,
        /// When it was opened.
        now: Timestamp,
    },
    /// The listening stream with this number renews its lease.
    LeaseRenewed {
        /// The number.
        n: u64,
        /// The end of its lease.
        until: Timestamp,
    },
    /// The listening stream with this number has ended.
    Closed(u64),
    /// A request was cancelled.
    Cancelled {
        /// Its id, as JSON.
        request: String,
        /// When it was cancelled.
        at: Timestamp,
    },
    /// These reports were made.
    Reported(Vec<TaskReport>),
}

impl Streams {
    /// Returns the state after this event.
    #[must_use]
    pub fn with(mut self, event: &StreamEvent) -> Self {
        match event {
            StreamEvent::Opened { resumed, lease_until, now } => {
                self.n = (self.n + 1).max(u64::try_from(now.as_millis()).unwrap_or(0));
                if let Some(stream) = resumed {
                    push(&mut self.taken_up, (stream.clone(), self.n), |(other, _)| other == stream);
                }
                if let Some(until) = *lease_until {
                    push(&mut self.listening, ListenerLease { n: self.n, until }, |other| {
                        other.until <= *now
                    });
                }
            }
            StreamEvent::LeaseRenewed { n, until } => {
                push(&mut self.listening, ListenerLease { n: *n, until: *until }, |other| other.n == *n);
            }
            StreamEvent::Closed(n) => self.listening.retain(|other| other.n != *n),
            StreamEvent::Cancelled { request, at } => {
                push(&mut self.cancelled, (request.clone(), *at), |(other, _)| other == request);
            }
            StreamEvent::Reported(all) => {
                for report in all {
                    push(&mut self.told, report.clone(), |other| other.task == report.task);
                }
            }
        }
        self
    }

    /// Returns true if the state is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of the newest stream.
    pub fn newest(&self) -> u64 {
        self.n
    }

    /// Returns the number of the newest open listening stream, which is the active one; 0 if none is open.
    pub fn active_listener(&self, now: Timestamp) -> u64 {
        self.listening.iter().filter(|other| other.until > now).map(|other| other.n).max().unwrap_or(0)
    }

    /// Returns true if any listening stream other than this one is open.
    pub fn has_other_listeners(&self, own: u64, now: Timestamp) -> bool {
        self.listening.iter().any(|other| other.n != own && other.until > now)
    }

    /// Returns the resumed streams by name, with the number of the connection that resumed each last.
    pub fn resumed_streams(&self) -> impl Iterator<Item = (&str, u64)> {
        self.taken_up.iter().map(|(stream, n)| (stream.as_str(), *n))
    }

    /// Returns the cancelled requests by id, with the time of cancellation.
    pub fn cancelled(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.cancelled.iter().map(|(request, at)| (request.as_str(), *at))
    }

    /// Returns the last report on each task, whichever process recorded it.
    pub fn reports(&self) -> impl Iterator<Item = &TaskReport> {
        self.told.iter()
    }
}

/// Appends to a list, and removes the entries that match `is_replaced`. If the list is then full
/// ([`MAX_ENTRIES`]), removes the oldest one, too.
fn push<T>(list: &mut Vec<T>, new: T, is_replaced: impl Fn(&T) -> bool) {
    list.retain(|other| !is_replaced(other));
    if list.len() >= MAX_ENTRIES {
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

    fn open_listener(streams: Streams, now: i64, until: i64) -> Streams {
        streams.with(&StreamEvent::Opened { resumed: None, lease_until: Some(at(until)), now: at(now) })
    }

    /// The newest stream with a valid lease is elected. A renewal makes an expired one count again.
    #[test]
    fn stream_election_respects_leases() {
        let streams = open_listener(open_listener(Streams::default(), 1, 10), 1, 20);
        assert_eq!((streams.active_listener(at(5)), streams.has_other_listeners(2, at(5))), (2, true));
        assert_eq!(streams.clone().with(&StreamEvent::Closed(2)).active_listener(at(5)), 1);
        // The first stream has not renewed its lease, so it counts as closed. A renewal opens it again.
        assert!(!streams.has_other_listeners(2, at(10)));
        let streams = streams.with(&StreamEvent::LeaseRenewed { n: 1, until: at(40) });
        assert_eq!(
            (
                streams.active_listener(at(19)),
                streams.active_listener(at(20)),
                streams.active_listener(at(40))
            ),
            (2, 1, 0)
        );
        let third = open_listener(streams, 30, 40);
        assert_eq!((third.active_listener(at(30)), third.newest()), (30, 30));
    }

    /// Only the newest cancelled requests and resumed streams are remembered.
    #[test]
    fn stream_memory_is_bounded() {
        let mut streams = Streams::default();
        for n in 0..2 * MAX_ENTRIES {
            let request = n.to_string();
            streams = streams.with(&StreamEvent::Cancelled { request, at: at(0) });
            let resumed = Some(format!("s{}", n % 3));
            streams = streams.with(&StreamEvent::Opened { resumed, lease_until: None, now: at(0) });
        }
        let cancelled: Vec<&str> = streams.cancelled().map(|(request, _)| request).collect();
        assert_eq!((cancelled.len(), cancelled.last()), (MAX_ENTRIES, Some(&"63")));
        let resumed: Vec<(&str, u64)> = streams.resumed_streams().collect();
        assert_eq!(resumed, [("s1", 62), ("s2", 63), ("s0", 64)]);
    }
}
