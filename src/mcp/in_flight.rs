//! Registry of what is open in this process, by session: requests in flight, which `notifications/cancelled`
//! can end, and streams. All of it ends with the session. A request that is answered at once is never
//! registered, and neither is an HTTP request without a session. It must not access the store: nothing here
//! is needed after the process.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio_util::sync::CancellationToken;

use super::jsonrpc::Id;
use crate::tasks::streams::Streams;

/// How many streams of cancelled requests are remembered.
const CANCELLED: usize = 1024;

/// Maximum clock difference of two processes that use the store's time.
const APART: Duration = Duration::from_secs(2);

/// The registry. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct InFlight {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, Entry>,
    /// Names of streams. Some clients resume the stream of a request that they cancelled; these get the
    /// answer that it has ended.
    cancelled: VecDeque<String>,
    serial: u64,
}

/// A session with something open.
#[derive(Default)]
struct Entry {
    over: CancellationToken,
    waits: HashMap<Id, Wait>,
    streams: HashMap<String, Stream>,
    /// Number of guards of this entry.
    open: usize,
}

/// A request in flight.
struct Wait {
    serial: u64,
    since: Timestamp,
    over: CancellationToken,
}

/// A named stream.
struct Stream {
    serial: u64,
    /// Number of its connection among those of its session ([`crate::tasks::streams`]). 0 if it has none: a
    /// POST opened the stream, or the store cannot be shared.
    n: u64,
    /// Cancelled when the stream is resumed on another connection.
    taken_up: CancellationToken,
}

/// Parameters of [`InFlight::open`].
#[derive(Clone, Copy)]
pub(super) struct Opening<'a> {
    /// The session.
    pub(super) session: &'a str,
    /// The request in flight, if there is one.
    pub(super) waits_for: Option<&'a Id>,
    /// The name and the number of its stream, if it already has them.
    pub(super) stream: Option<(&'a str, u64)>,
    /// The current time.
    pub(super) now: Timestamp,
}

/// Guard of something open. Dropping it closes it.
pub(super) struct InFlightGuard {
    live: InFlight,
    session: String,
    serial: u64,
    waits_for: Option<Id>,
    stream: Option<String>,
    over: CancellationToken,
    taken_up: CancellationToken,
}

/// Why something must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// The request was cancelled, or the session has ended.
    Unwanted,
    /// The client has resumed the stream on another connection.
    TakenUp,
}

impl InFlight {
    /// Opens something in a session: a request in flight, or a listening stream. `stream` is set if the
    /// stream has a name from the start. An earlier connection of the same stream is then closed.
    pub(super) fn open(&self, opening: Opening<'_>) -> InFlightGuard {
        let Opening { session, waits_for, stream, now } = opening;
        let mut state = self.state.lock();
        state.serial += 1;
        let serial = state.serial;
        let entry = state.sessions.entry(session.to_owned()).or_default();
        entry.open += 1;
        let (over, taken_up) = (entry.over.child_token(), CancellationToken::new());
        if let Some(id) = waits_for {
            entry.waits.insert(id.clone(), Wait { serial, since: now, over: over.clone() });
        }
        drop(state);
        let (session, waits_for) = (session.to_owned(), waits_for.cloned());
        let mut open =
            InFlightGuard { live: self.clone(), session, serial, waits_for, stream: None, over, taken_up };
        if let Some((stream, n)) = stream {
            open.name_as(stream, n);
        }
        open
    }

    /// Cancels this request, if it is in flight. Of two with this id, it cancels the later.
    pub(super) fn cancel(&self, session: &str, id: &Id) {
        let mut state = self.state.lock();
        if let Some(wait) = state.sessions.get_mut(session).and_then(|entry| entry.waits.remove(id)) {
            wait.over.cancel();
        }
    }

    /// Returns the number of sessions with something open here.
    pub(super) fn sessions(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// Returns true if something of this session is open here.
    pub(super) fn has(&self, session: &str) -> bool {
        self.state.lock().sessions.contains_key(session)
    }

    /// Applies what the session's row contains: ends the requests that were cancelled, and the connections
    /// whose stream a later connection has resumed.
    pub(super) fn apply_remote_changes(&self, session: &str, said: &Streams) {
        let mut state = self.state.lock();
        let Some(entry) = state.sessions.get_mut(session) else { return };
        for (request, at) in said.cancelled() {
            let Ok(id) = serde_json::from_str::<Id>(request) else { continue };
            // A cancellation only applies to a request from before it (within the clock difference): a client
            // may use an id again.
            if entry.waits.get(&id).is_some_and(|wait| wait.since <= at + APART)
                && let Some(wait) = entry.waits.remove(&id)
            {
                wait.over.cancel();
            }
        }
        for (stream, n) in said.taken_up() {
            if let Some(stream) = entry.streams.get(stream).filter(|stream| stream.n < n) {
                stream.taken_up.cancel();
            }
        }
    }

    /// Records that the request of this stream was cancelled.
    pub(super) fn note_cancelled(&self, stream: &str) {
        let mut state = self.state.lock();
        if state.cancelled.len() == CANCELLED {
            state.cancelled.pop_front();
        }
        state.cancelled.push_back(stream.to_owned());
    }

    /// Returns true if the request of this stream was cancelled in this process, and is among the last 1024.
    pub(super) fn was_cancelled(&self, stream: &str) -> bool {
        self.state.lock().cancelled.iter().any(|cancelled| cancelled == stream)
    }

    /// Ends everything that is open in a session.
    pub(super) fn end(&self, session: &str) {
        if let Some(entry) = self.state.lock().sessions.get(session) {
            entry.over.cancel();
        }
    }
}

impl InFlightGuard {
    /// Names its stream. An earlier stream of this name ends.
    pub(super) fn name(&mut self, stream: &str) {
        self.name_as(stream, 0);
    }

    fn name_as(&mut self, stream: &str, n: u64) {
        self.stream = Some(stream.to_owned());
        let mut state = self.live.state.lock();
        let Some(entry) = state.sessions.get_mut(&self.session) else { return };
        let named = Stream { serial: self.serial, n, taken_up: self.taken_up.clone() };
        if let Some(earlier) = entry.streams.insert(stream.to_owned(), named) {
            earlier.taken_up.cancel();
        }
    }

    /// Waits until it must be closed.
    pub(super) async fn over(&self) -> CloseReason {
        tokio::select! {
            biased;
            () = self.over.cancelled() => CloseReason::Unwanted,
            () = self.taken_up.cancelled() => CloseReason::TakenUp,
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut state = self.live.state.lock();
        let Some(entry) = state.sessions.get_mut(&self.session) else { return };
        entry.open -= 1;
        if entry.open == 0 {
            state.sessions.remove(&self.session);
            return;
        }
        // Of two requests with one id only the later can be cancelled, and a name belongs to its latest
        // stream.
        if let Some(id) = &self.waits_for
            && entry.waits.get(id).is_some_and(|wait| wait.serial == self.serial)
        {
            entry.waits.remove(id);
        }
        if let Some(stream) = &self.stream
            && entry.streams.get(stream).is_some_and(|named| named.serial == self.serial)
        {
            entry.streams.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::tasks::streams::StreamNote;

    fn open(live: &InFlight, session: &str, waits_for: Option<&Id>, stream: Option<&str>) -> InFlightGuard {
        let stream = stream.map(|stream| (stream, 10_001));
        live.open(Opening { session, waits_for, stream, now: Timestamp::from_millis(10_000) })
    }

    fn is_over(open: &InFlightGuard) -> bool {
        open.over().now_or_never() == Some(CloseReason::Unwanted)
    }

    /// A stream that is resumed by its name ends the connection that served it.
    #[test]
    fn resumed_stream_ends_previous_one() {
        let live = InFlight::default();
        let mut first = open(&live, "a", None, None);
        first.name("s");
        let other = open(&live, "a", None, Some("t"));
        assert_eq!(first.over().now_or_never(), None);
        let second = open(&live, "a", None, Some("s"));
        assert_eq!(first.over().now_or_never(), Some(CloseReason::TakenUp));
        assert_eq!((second.over().now_or_never(), other.over().now_or_never()), (None, None));
        drop(first);
        let third = open(&live, "a", None, Some("s"));
        assert_eq!(
            second.over().now_or_never(),
            Some(CloseReason::TakenUp),
            "the name is the second's still"
        );
        live.end("a");
        assert!(is_over(&third) && is_over(&other));
    }

    /// A cancelled request id ends the wait of that session only.
    #[test]
    fn cancel_ends_only_own_session() {
        let live = InFlight::default();
        let id = Id::Integer(1);
        let (mine, theirs) = (open(&live, "a", Some(&id), None), open(&live, "b", Some(&id), None));
        live.cancel("a", &Id::Text("1".to_owned()));
        assert!(!is_over(&mine));
        live.cancel("a", &id);
        assert!(is_over(&mine) && !is_over(&theirs));
        drop((mine, theirs));
        assert!(live.state.lock().sessions.is_empty());
        live.cancel("b", &id);
    }

    /// Messages of other replicas end the named requests and streams, and not newer ones with the same id.
    #[test]
    fn cross_replica_messages_end_their_streams() {
        let live = InFlight::default();
        let [one, two] = [1, 2].map(Id::Integer);
        let (first, second) = (open(&live, "a", Some(&one), None), open(&live, "a", Some(&two), None));
        let [taken, other] = ["s", "t"].map(|stream| open(&live, "a", None, Some(stream)));
        let cancelled = |request: &str, at| StreamNote::Cancelled {
            request: request.to_owned(),
            at: Timestamp::from_millis(at),
        };
        // The second request has the id of an earlier one, which was cancelled long before.
        let said = Streams::default().with(&cancelled("1", 10_001)).with(&cancelled("2", 1_000));
        let now = Timestamp::from_millis(10_001);
        let taken_up =
            |stream: &str| StreamNote::Opened { taken_up: Some(stream.to_owned()), listens: None, now };
        // The other stream is the connection that resumed `t` itself.
        let said = said.with(&taken_up("t")).with(&taken_up("s"));
        live.apply_remote_changes("b", &said);
        assert!(!is_over(&first) && live.has("a") && !live.has("b"));
        live.apply_remote_changes("a", &said);
        assert!(is_over(&first) && !is_over(&second) && !is_over(&other));
        assert_eq!(taken.over().now_or_never(), Some(CloseReason::TakenUp));
    }

    #[test]
    fn remembers_the_newest_cancelled_streams() {
        let live = InFlight::default();
        for stream in 0..=CANCELLED {
            live.note_cancelled(&stream.to_string());
        }
        assert!(!live.was_cancelled("0") && live.was_cancelled("1") && live.was_cancelled("1024"));
    }

    /// Of two requests with one id, a cancellation ends the later one.
    #[test]
    fn cancel_reaches_later_duplicate_request() {
        let live = InFlight::default();
        let id = Id::Text("x".to_owned());
        let (first, second) = (open(&live, "a", Some(&id), None), open(&live, "a", Some(&id), None));
        live.cancel("a", &id);
        assert!(!is_over(&first) && is_over(&second));
        let third = open(&live, "a", Some(&id), None);
        drop(first);
        live.cancel("a", &id);
        assert!(is_over(&third));
    }

    /// All open streams and requests of a session end with it.
    #[test]
    fn ended_session_closes_its_streams() {
        let live = InFlight::default();
        let (listens, waits) = (open(&live, "a", None, None), open(&live, "a", Some(&Id::Integer(1)), None));
        let other = open(&live, "b", None, None);
        live.end("a");
        assert!(is_over(&listens) && is_over(&waits) && !is_over(&other));
    }
}
