//! [`Exchange`]: a handler that serves one HTTP request. The connection that waits for the response polls it,
//! so no task is spawned, and the handler is dropped when the client disconnects.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use taskbridge_sdk::Timestamp;

use super::batch::{self, Answers};
use super::in_flight_limit::InFlightPermit;
use super::refusal::Refusal;
use super::{Http, Result, cross_replica, post, stream};
use crate::auth::Principal;
use crate::mcp::caller_key::CallerKey;
use crate::mcp::in_flight::{CloseReason, InFlightGuard, Opening};
use crate::mcp::jsonrpc::{self, Error, Id, Outcome, Payload, Request};
use crate::mcp::memory_budget::{CallerBudget, MemoryReservation, SMALL};
use crate::mcp::message_sink::{MessageSink, Resume};
use crate::mcp::offers::Edition;
use crate::mcp::outbound_queue::OutboundQueue;
use crate::mcp::session::{Caller, Session};
use crate::mcp::sse::StreamPosition;
use crate::mcp::v2026_07_28::StatelessCaller;
use crate::mcp::{v2025_11_25, v2026_07_28};

/// How long an answer may take before the client gets a stream. Answers without a wait take a few
/// milliseconds. A slower answer usually waits for a job, and its client needs the resume information early.
const QUICK: Duration = Duration::from_millis(250);

/// The result of an exchange: the response to a request, or nothing.
pub(super) type Ending = Option<(Id, Outcome<Payload>)>;

/// A running handler.
pub(super) struct Exchange {
    pub(super) http: Arc<Http>,
    /// The caller.
    pub(super) principal: Principal,
    /// The session. `None` in the generation without sessions.
    pub(super) session: Option<Session>,
    pub(super) feed: Arc<OutboundQueue>,
    pub(super) work: Pin<Box<dyn Future<Output = Ending> + Send>>,
    /// The position in the stream, once the stream can be resumed.
    pub(super) place: Option<StreamPosition>,
    /// The number of the stream within its session. 0 if no other replica tracks it.
    n: u64,
    /// True for a listening stream.
    listens: bool,
    /// Ends the exchange when its request is cancelled, its session ends, or its stream is resumed on another
    /// connection. `None` without a session.
    pub(super) open: Option<InFlightGuard>,
    /// The HTTP status of an error that is answered without a stream.
    status: fn(&Error) -> u16,
    /// Counts the request until the exchange ends. The entries of a batch have their own.
    _share: Option<InFlightPermit>,
}

impl Exchange {
    /// Creates an exchange of the generation with sessions.
    fn new<W>(
        http: &Arc<Http>,
        share: Option<InFlightPermit>,
        caller: Caller,
        place: Option<StreamPosition>,
        work: impl FnOnce(Arc<Http>, Caller, Arc<OutboundQueue>) -> W,
    ) -> Self
    where
        W: Future<Output = Ending> + Send + 'static,
    {
        let (principal, session) = (caller.principal.clone(), caller.session.clone());
        let (http, feed) = (Arc::clone(http), feed_for(http, &principal));
        let work = Box::pin(work(Arc::clone(&http), caller, Arc::clone(&feed)));
        Self {
            http,
            principal,
            session,
            feed,
            work,
            place,
            n: 0,
            listens: false,
            open: None,
            status: |_| 200,
            _share: share,
        }
    }

    /// Answers a request with a single response, or with a stream if the answer takes time.
    pub(super) async fn handle(
        http: &Arc<Http>,
        share: InFlightPermit,
        caller: Caller,
        request: Request,
    ) -> Response {
        let id = request.id.clone();
        let exchange = Self::new(http, Some(share), caller, None, |http, caller, feed| async move {
            let id = request.id.clone();
            Some((id, v2025_11_25::handle(&http.bridge, &caller, request, &*feed).await))
        });
        exchange.answer(&id, QUICK).await
    }

    /// Answers a request of the stateless generation.
    pub(super) async fn handle_alone(
        http: &Arc<Http>,
        share: InFlightPermit,
        asker: StatelessCaller,
        request: Request,
    ) -> Response {
        let id = request.id.clone();
        let principal = asker.principal.clone();
        let (http, feed) = (Arc::clone(http), feed_for(http, &principal));
        // Such a call may first wait a short time for the result, to avoid creating a task.
        let quick = QUICK + http.bridge.settings().quick_wait;
        let work = {
            let (http, feed, id) = (Arc::clone(&http), Arc::clone(&feed), id.clone());
            Box::pin(
                async move { Some((id, v2026_07_28::handle(&http.bridge, &asker, request, &*feed).await)) },
            )
        };
        let status = v2026_07_28::status;
        let exchange = Self {
            http,
            principal,
            session: None,
            feed,
            work,
            place: None,
            n: 0,
            listens: false,
            open: None,
            status,
            _share: Some(share),
        };
        exchange.answer(&id, quick).await
    }

    /// Answers the requests of a batch: with one response or, if one of them takes time, with one message per
    /// answer on a stream. `answers` already exist.
    pub(super) async fn handle_batch(
        http: &Arc<Http>,
        caller: Caller,
        requests: Vec<(usize, Request, InFlightPermit)>,
        answers: Vec<(usize, Vec<u8>)>,
    ) -> Response {
        let answers = Arc::new(Answers::new(answers));
        let handed = Arc::clone(&answers);
        let mut exchange = Self::new(http, None, caller, None, |http, caller, feed| async move {
            let (http, caller, feed, answers) = (&*http, &caller, &*feed, &*handed);
            let entries = requests.into_iter().map(|(n, request, share)| async move {
                let answer = entry(http, caller, feed, request).await;
                drop(share);
                if let Some(answer) = answer {
                    answers.give(n, answer, feed).await;
                }
            });
            futures_util::future::join_all(entries).await;
            None
        });
        exchange.open_as(None);
        tokio::select! {
            biased;
            _ = over(exchange.open.as_ref()) => return stream::empty(),
            _ = &mut exchange.work => {
                if exchange.feed.is_empty() {
                    return exchange.together(answers.take());
                }
                exchange.work = Box::pin(std::future::ready(None));
            }
            () = exchange.feed.has_some() => {}
            () = tokio::time::sleep(QUICK) => {}
        }
        let (done, feed) = (answers.take(), Arc::clone(&exchange.feed));
        let rest = std::mem::replace(&mut exchange.work, Box::pin(std::future::ready(None)));
        exchange.work = Box::pin(async move {
            let first = async {
                for answer in done {
                    batch::send(answer, &feed).await;
                }
            };
            futures_util::join!(first, rest).1
        });
        stream::respond(exchange, None)
    }

    /// Returns the answers to a batch in one response. The response is empty if all requests were cancelled.
    fn together(self, answers: Vec<Vec<u8>>) -> Response {
        if answers.is_empty() {
            return stream::empty();
        }
        let text = [b"[", answers.join(&b","[..]).as_slice(), b"]"].concat();
        match self.room_for(text.len()) {
            Ok(None) => post::whole(200, text.into()),
            Ok(Some(spot)) => post::whole(200, spot.hold(text)),
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn answer(mut self, id: &Id, quick: Duration) -> Response {
        // Most handlers finish at the first poll. They need no registration and no timer.
        if let std::task::Poll::Ready(ending) = futures_util::poll!(&mut self.work) {
            return self.finish(ending);
        }
        self.open_as(Some(id));
        tokio::select! {
            biased;
            _ = over(self.open.as_ref()) => stream::empty(),
            ending = &mut self.work => self.finish(ending),
            () = self.feed.has_some() => stream::respond(self, None),
            () = tokio::time::sleep(quick) => stream::respond(self, None),
        }
    }

    /// Resumes the stream of a request.
    pub(super) fn resume(
        http: &Arc<Http>,
        share: InFlightPermit,
        caller: Caller,
        (place, n): (StreamPosition, u64),
        id: &Id,
    ) -> Response {
        let resume = place.resume.clone();
        let mut exchange =
            Self::new(http, Some(share), caller, Some(place), |http, caller, feed| async move {
                let (id, outcome) = v2025_11_25::resume(&http.bridge, &caller, resume, &*feed).await?;
                Some((id, outcome.map(Payload::Value)))
            });
        exchange.n = n;
        exchange.open_as(Some(id));
        stream::respond(exchange, None)
    }

    /// Opens a listening stream. It sends messages from `since` on, which is before the client knows that it
    /// listens. `lists` is as in `v2025_11_25::listen`.
    pub(super) fn listen(
        http: &Arc<Http>,
        share: InFlightPermit,
        caller: Caller,
        (place, n, since): (StreamPosition, u64, Timestamp),
        lists: (Option<Edition>, bool),
    ) -> Response {
        let mut exchange =
            Self::new(http, Some(share), caller, Some(place), move |http, caller, feed| async move {
                v2025_11_25::listen(&http.bridge, &caller, (n, since), lists, &*feed).await;
                None
            });
        (exchange.n, exchange.listens) = (n, true);
        exchange.feed.set_long_lived();
        exchange.open_as(None);
        stream::respond(exchange, None)
    }

    fn open_as(&mut self, waits_for: Option<&Id>) {
        let Self { http, session, place, n, .. } = &*self;
        let stream = place.as_ref().map(|place| (place.stream.as_str(), *n));
        let now = http.bridge.clock.now();
        let opening = |session| Opening { session, waits_for, stream, now };
        self.open = session.as_ref().map(|session| http.live.open(opening(&session.nonce)));
    }

    /// Records that the stream is still open, and applies changes made by other replicas. Returns false if
    /// the session has ended or expired.
    pub(super) async fn lives(&mut self) -> bool {
        let Some(session) = &self.session else { return true };
        let listens = Some(self.n).filter(|n| self.listens && *n > 0);
        self.http.bridge.clock.now() < session.expires
            && cross_replica::sync_session(&self.http, session, listens).await
    }

    /// Reserves memory budget for an answer of this size. Returns `None` for a small answer. Uses the budget
    /// that the handler has already reserved for a large answer.
    pub(super) fn room_for(&self, bytes: usize) -> Result<Option<MemoryReservation>> {
        match bytes <= SMALL {
            true => Ok(None),
            false => self.feed.room_for_answer(bytes).map(Some).ok_or_else(Refusal::no_room_for_answer),
        }
    }

    /// Returns the response of a handler that finished before a stream was opened. It is a stream only if the
    /// handler sent messages before its answer.
    fn finish(self, ending: Ending) -> Response {
        match ending {
            Some((id, outcome)) if self.feed.is_empty() => {
                let status = outcome.as_ref().err().map_or(200, self.status);
                let pieces = jsonrpc::pieces(&id, outcome);
                let [text] = pieces.as_slice() else { return post::in_pieces(status, pieces) };
                match self.room_for(text.len()) {
                    Ok(None) => post::whole(status, text.clone()),
                    Ok(Some(spot)) => post::whole(status, spot.hold(text.clone())),
                    Err(refusal) => refusal.to(Some(id)).into_response(),
                }
            }
            ending => stream::respond(self, Some(ending)),
        }
    }
}

/// Handles one request of a batch. Returns `None` if it was cancelled.
async fn entry(http: &Http, caller: &Caller, feed: &OutboundQueue, request: Request) -> Option<Vec<u8>> {
    let (id, session) = (request.id.clone(), caller.session.as_ref()?);
    let now = http.bridge.clock.now();
    let open = http.live.open(Opening { session: &session.nonce, waits_for: Some(&id), stream: None, now });
    let outlet = Entry(feed);
    tokio::select! {
        biased;
        _ = open.over() => None,
        outcome = v2025_11_25::handle(&http.bridge, caller, request, &outlet) => {
            Some(jsonrpc::pieces(&id, outcome).concat())
        }
    }
}

/// The message sink of one batch entry. The stream of a batch serves several requests, so it cannot be
/// resumed.
struct Entry<'a>(&'a OutboundQueue);

#[async_trait]
impl MessageSink for Entry<'_> {
    async fn send(&self, message: Value) -> bool {
        self.0.send(message).await
    }

    fn resumable(&self, _resume: Resume) {}

    fn reserve(&self, bytes: usize) -> bool {
        self.0.reserve(bytes)
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn is_superseded(&self) -> bool {
        self.0.is_superseded()
    }
}

/// Creates the message sink of one exchange.
fn feed_for(http: &Http, principal: &Principal) -> Arc<OutboundQueue> {
    let most = http.bridge.settings().limits.max_bytes_in_hand;
    Arc::new(OutboundQueue::new(CallerBudget {
        room: http.room.clone(),
        whose: CallerKey::of(principal),
        most,
    }))
}

/// Waits until the client cancels the request, the session ends, or another connection takes over the stream.
pub(super) async fn over(open: Option<&InFlightGuard>) -> CloseReason {
    match open {
        Some(open) => open.over().await,
        None => std::future::pending().await,
    }
}
