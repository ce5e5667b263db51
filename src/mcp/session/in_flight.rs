//! Registry of what is open in this process, by session: requests in flight, which `notifications/cancelled`
//! can end, and streams. All of it ends with the session. A request that is answered at once is never
//! registered, and neither is an HTTP request without a session. It must not access the store: nothing here
//! is needed after the process.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio_util::sync::CancellationToken;

use super::MAX_CLOCK_SKEW;
use crate::mcp::wire::jsonrpc::Id;
use crate::sessions::streams::Streams;

/// How many streams of cancelled requests are remembered.
const MAX_CANCELLED: usize = 1024;

/// The registry. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<String, SessionEntry>,
    /// Names of streams. Some clients resume the stream of a request that they cancelled; these get the
    /// answer that it has ended.
    cancelled: VecDeque<String>,
    serial: u64,
}

/// A session with something open.
#[derive(Default)]
struct SessionEntry {
    cancel_token: CancellationToken,
    requests: HashMap<Id, PendingRequest>,
    streams: HashMap<String, Stream>,
    /// Number of guards of this entry.
    guards: usize,
}

/// A request in flight.
struct PendingRequest {
    serial: u64,
    since: Timestamp,
    cancel_token: CancellationToken,
}

/// A named stream.
struct Stream {
    serial: u64,
    /// Number of its connection among those of its session ([`crate::sessions::streams`]). 0 if it has none:
    /// a POST opened the stream, or the store cannot be shared.
    n: u64,
    /// Cancelled when the stream is resumed on another connection.
    resumed: CancellationToken,
}

/// Parameters of [`InFlight::open`].
#[derive(Clone, Copy)]
pub(crate) struct OpenParams<'a> {
    /// The session.
    pub(crate) session: &'a str,
    /// The request in flight, if there is one.
    pub(crate) request_id: Option<&'a Id>,
    /// The name and the number of its stream, if it already has them.
    pub(crate) stream: Option<(&'a str, u64)>,
    /// The current time.
    pub(crate) now: Timestamp,
}

/// Guard of something open. Dropping it closes it.
pub(crate) struct InFlightGuard {
    registry: InFlight,
    session: String,
    serial: u64,
    request_id: Option<Id>,
    stream: Option<String>,
    cancel_token: CancellationToken,
    resumed: CancellationToken,
}

/// Why something must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The request was cancelled, or the session has ended.
    Cancelled,
    /// The client has resumed the stream on another connection.
    Resumed,
}

impl InFlight {
    /// Opens something in a session: a request in flight, or a listening stream. `stream` is set if the
    /// stream has a name from the start. An earlier connection of the same stream is then closed.
    pub(crate) fn open(&self, params: OpenParams<'_>) -> InFlightGuard {
        let OpenParams { session, request_id, stream, now } = params;
        let mut state = self.state.lock();
        state.serial += 1;
        let serial = state.serial;
        let entry = state.sessions.entry(session.to_owned()).or_default();
        entry.guards += 1;
        let (cancel_token, resumed) = (entry.cancel_token.child_token(), CancellationToken::new());
        if let Some(id) = request_id {
            entry.requests.insert(
                id.clone(),
                PendingRequest { serial, since: now, cancel_token: cancel_token.clone() },
            );
        }
        drop(state);
        let (session, request_id) = (session.to_owned(), request_id.cloned());
        let mut guard = InFlightGuard {
            registry: self.clone(),
            session,
            serial,
            request_id,
            stream: None,
            cancel_token,
            resumed,
        };
        if let Some((stream, n)) = stream {
            guard.name_as(stream, n);
        }
        guard
    }

    /// Cancels this request, if it is in flight. Of two with this id, it cancels the later.
    pub(crate) fn cancel(&self, session: &str, id: &Id) {
        let mut state = self.state.lock();
        if let Some(request) = state.sessions.get_mut(session).and_then(|entry| entry.requests.remove(id)) {
            request.cancel_token.cancel();
        }
    }

    /// Returns the number of sessions with something open here.
    pub(crate) fn sessions(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// Returns true if something of this session is open here.
    pub(crate) fn has(&self, session: &str) -> bool {
        self.state.lock().sessions.contains_key(session)
    }

    /// Applies what the session's row contains: ends the requests that were cancelled, and the connections
    /// whose stream a later connection has resumed.
    pub(crate) fn apply_remote_changes(&self, session: &str, changes: &Streams) {
        let mut state = self.state.lock();
        let Some(entry) = state.sessions.get_mut(session) else { return };
        for (request, at) in changes.cancelled() {
            let Ok(id) = serde_json::from_str::<Id>(request) else { continue };
            // A cancellation only applies to a request from before it (within the clock difference): a client
            // may use an id again.
            if entry.requests.get(&id).is_some_and(|pending| pending.since <= at + MAX_CLOCK_SKEW)
                && let Some(pending) = entry.requests.remove(&id)
            {
                pending.cancel_token.cancel();
            }
        }
        for (stream, n) in changes.resumed_streams() {
            if let Some(stream) = entry.streams.get(stream).filter(|stream| stream.n < n) {
                stream.resumed.cancel();
            }
        }
    }

    /// Records that the request of this stream was cancelled.
    pub(crate) fn note_cancelled(&self, stream: &str) {
        let mut state = self.state.lock();
        if state.cancelled.len() == MAX_CANCELLED {
            state.cancelled.pop_front();
        }
        state.cancelled.push_back(stream.to_owned());
    }

    /// Returns true if the request of this stream was cancelled in this process, and is among the last 1024.
    pub(crate) fn was_cancelled(&self, stream: &str) -> bool {
        self.state.lock().cancelled.iter().any(|cancelled| cancelled == stream)
    }

    /// Ends everything that is open in a session.
    pub(crate) fn end(&self, session: &str) {
        if let Some(entry) = self.state.lock().sessions.get(session) {
            entry.cancel_token.cancel();
        }
    }
}

impl InFlightGuard {
    /// Names its stream. An earlier stream of this name ends.
    pub(crate) fn name(&mut self, stream: &str) {
        self.name_as(stream, 0);
    }

    fn name_as(&mut self, stream: &str, n: u64) {
        self.stream = Some(stream.to_owned());
        let mut state = self.registry.state.lock();
        let Some(entry) = state.sessions.get_mut(&self.session) else { return };
        let new_stream = Stream { serial: self.serial, n, resumed: self.resumed.clone() };
        if let Some(earlier) = entry.streams.insert(stream.to_owned(), new_stream) {
            earlier.resumed.cancel();
        }
    }

    /// Waits until it must be closed.
    pub(crate) async fn closed(&self) -> CloseReason {
        tokio::select! {
            biased;
            () = self.cancel_token.cancelled() => CloseReason::Cancelled,
            () = self.resumed.cancelled() => CloseReason::Resumed,
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut state = self.registry.state.lock();
        let Some(entry) = state.sessions.get_mut(&self.session) else { return };
        entry.guards -= 1;
        if entry.guards == 0 {
            state.sessions.remove(&self.session);
            return;
        }
        // Of two requests with one id only the later can be cancelled, and a name belongs to its latest
        // stream.
        if let Some(id) = &self.request_id
            && entry.requests.get(id).is_some_and(|request| request.serial == self.serial)
        {
            entry.requests.remove(id);
        }
        if let Some(stream) = &self.stream
            && entry.streams.get(stream).is_some_and(|current| current.serial == self.serial)
        {
            entry.streams.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::sessions::streams::StreamEvent;

    fn open(
        registry: &InFlight,
        session: &str,
        request_id: Option<&Id>,
        stream: Option<&str>,
    ) -> InFlightGuard {
        let stream = stream.map(|stream| (stream, 10_001));
        registry.open(OpenParams { session, request_id, stream, now: Timestamp::from_millis(10_000) })
    }

    fn is_cancelled(guard: &InFlightGuard) -> bool {
        guard.closed().now_or_never() == Some(CloseReason::Cancelled)
    }

    /// A stream that is resumed by its name ends the connection that served it.
    #[test]
    fn resumed_stream_ends_previous_one() {
        let registry = InFlight::default();
        let mut first = open(&registry, "a", None, None);
        first.name("s");
        let other = open(&registry, "a", None, Some("t"));
        assert_eq!(first.closed().now_or_never(), None);
        let second = open(&registry, "a", None, Some("s"));
        assert_eq!(first.closed().now_or_never(), Some(CloseReason::Resumed));
        assert_eq!((second.closed().now_or_never(), other.closed().now_or_never()), (None, None));
        drop(first);
        let third = open(&registry, "a", None, Some("s"));
        assert_eq!(
            second.closed().now_or_never(),
            Some(CloseReason::Resumed),
            "the name is the second's still"
        );
        registry.end("a");
        assert!(is_cancelled(&third) && is_cancelled(&other));
    }

    /// A cancelled request id ends the wait of that session only.
    #[test]
    fn cancel_ends_only_own_session() {
        let registry = InFlight::default();
        let id = Id::Integer(1);
        let (own, other) = (open(&registry, "a", Some(&id), None), open(&registry, "b", Some(&id), None));
        registry.cancel("a", &Id::Text("1".to_owned()));
        assert!(!is_cancelled(&own));
        registry.cancel("a", &id);
        assert!(is_cancelled(&own) && !is_cancelled(&other));
        drop((own, other));
        assert!(registry.state.lock().sessions.is_empty());
        registry.cancel("b", &id);
    }

    /// Messages of other replicas end the named requests and streams, and not newer ones with the same id.
    #[test]
    fn cross_replica_messages_end_their_streams() {
        let registry = InFlight::default();
        let [one, two] = [1, 2].map(Id::Integer);
        let (first, second) =
            (open(&registry, "a", Some(&one), None), open(&registry, "a", Some(&two), None));
        let [resumed, other] = ["s", "t"].map(|stream| open(&registry, "a", None, Some(stream)));
        let cancelled = |request: &str, at| StreamEvent::Cancelled {
            request: request.to_owned(),
            at: Timestamp::from_millis(at),
        };
        // The second request has the id of an earlier one, which was cancelled long before.
        let changes = Streams::default().with(&cancelled("1", 10_001)).with(&cancelled("2", 1_000));
        let now = Timestamp::from_millis(10_001);
        let taken_up =
            |stream: &str| StreamEvent::Opened { resumed: Some(stream.to_owned()), lease_until: None, now };
        // The other stream is the connection that resumed `t` itself.
        let changes = changes.with(&taken_up("t")).with(&taken_up("s"));
        registry.apply_remote_changes("b", &changes);
        assert!(!is_cancelled(&first) && registry.has("a") && !registry.has("b"));
        registry.apply_remote_changes("a", &changes);
        assert!(is_cancelled(&first) && !is_cancelled(&second) && !is_cancelled(&other));
        assert_eq!(resumed.closed().now_or_never(), Some(CloseReason::Resumed));
    }

    #[test]
    fn remembers_the_newest_cancelled_streams() {
        let registry = InFlight::default();
        for stream in 0..=MAX_CANCELLED {
            registry.note_cancelled(&stream.to_string());
        }
        assert!(
            !registry.was_cancelled("0") && registry.was_cancelled("1") && registry.was_cancelled("1024")
        );
    }

    /// Of two requests with one id, a cancellation ends the later one.
    #[test]
    fn cancel_reaches_later_duplicate_request() {
        let registry = InFlight::default();
        let id = Id::Text("x".to_owned());
        let (first, second) = (open(&registry, "a", Some(&id), None), open(&registry, "a", Some(&id), None));
        registry.cancel("a", &id);
        assert!(!is_cancelled(&first) && is_cancelled(&second));
        let third = open(&registry, "a", Some(&id), None);
        drop(first);
        registry.cancel("a", &id);
        assert!(is_cancelled(&third));
    }

    /// All open streams and requests of a session end with it.
    #[test]
    fn ended_session_closes_its_streams() {
        let registry = InFlight::default();
        let (stream, request) =
            (open(&registry, "a", None, None), open(&registry, "a", Some(&Id::Integer(1)), None));
        let other = open(&registry, "b", None, None);
        registry.end("a");
        assert!(is_cancelled(&stream) && is_cancelled(&request) && !is_cancelled(&other));
    }
}
