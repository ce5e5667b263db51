//! Timeouts of one connection. [`TimeoutSocket`] is a socket that fails if its peer reads nothing, or too
//! slowly. [`HeaderTimeout`] tracks how long the head of a request has been arriving, which the HTTP library
//! does not distinguish from an idle connection. [`TimeoutBody`] is a body that fails if it arrives too
//! slowly. This module must not know the content.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf as _;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::idle::{IdleConnections, IdleState};
use super::limits::ConnectionLimits;

/// Grace period of a body before its minimum rate applies.
const RUN_UP: Duration = Duration::from_secs(5);

/// A socket with a write timeout and a minimum rate at which its peer must read.
pub(super) struct TimeoutSocket<S> {
    socket: S,
    stalled_for: Duration,
    rate: u64,
    /// Set from the first write that has to wait until the next flush.
    behind: Option<Box<Behind>>,
    heads: HeaderTimeout,
}

/// Progress of a peer that reads slower than the server writes.
struct Behind {
    since: Instant,
    taken: u64,
    /// When the peer last accepted bytes.
    last: Instant,
    late: Pin<Box<Sleep>>,
}

impl<S> TimeoutSocket<S> {
    pub(super) fn new(socket: S, limits: &ConnectionLimits, heads: HeaderTimeout) -> Self {
        Self { socket, stalled_for: limits.stalled_for, rate: limits.answer_rate, behind: None, heads }
    }

    /// Updates the progress after a write attempt, and fails past the deadline.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(taken)) = &written
            && let Some(behind) = &mut self.behind
        {
            behind.taken += *taken as u64;
            behind.last = Instant::now();
        }
        if written.is_ready() {
            return written;
        }
        let behind = self.behind.get_or_insert_with(|| {
            let now = Instant::now();
            Box::new(Behind { since: now, taken: 0, last: now, late: Box::pin(sleep_until(now)) })
        });
        let due = behind.taken.checked_div(self.rate).map_or(Duration::MAX, Duration::from_secs);
        let by_rate = behind.since.checked_add(due.saturating_add(self.stalled_for));
        let stalled = behind.last + self.stalled_for;
        let deadline = by_rate.map_or(stalled, |by_rate| by_rate.min(stalled));
        if behind.late.deadline() != deadline {
            behind.late.as_mut().reset(deadline);
        }
        ready!(behind.late.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes too little")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, into);
        if into.filled().len() > before {
            self.heads.came();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, from);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, from);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The writer flushes after it has written everything.
        self.behind = None;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Tracks how long the head of a request has been arriving, and whether the connection is idle. Cheap to
/// clone.
#[derive(Clone)]
pub(super) struct HeaderTimeout(Arc<Mutex<Progress>>);

struct Progress {
    awaited: Awaited,
    idle: IdleState,
}

#[derive(Clone, Copy)]
enum Awaited {
    /// Nothing of the next request has arrived.
    Nothing,
    /// A part of the head has arrived, or the connection is new and its first head is due.
    Head { since: Instant },
    /// A request is in progress. Bytes that arrive belong to its body or to a pipelined request.
    InHand,
}

impl HeaderTimeout {
    /// Starts tracking a new connection.
    pub(super) fn begin(among: &IdleConnections) -> Self {
        let awaited = Awaited::Head { since: Instant::now() };
        Self(Arc::new(Mutex::new(Progress { awaited, idle: among.join() })))
    }

    /// Restarts the head timeout after the TLS handshake.
    pub(super) fn secured(&self) {
        self.0.lock().awaited = Awaited::Head { since: Instant::now() };
    }

    /// Records that bytes arrived.
    fn came(&self) {
        let mut progress = self.0.lock();
        if matches!(progress.awaited, Awaited::Nothing) {
            progress.awaited = Awaited::Head { since: Instant::now() };
        }
    }

    /// Records that a head is complete. The caller keeps the returned guard until the response is sent.
    pub(super) fn in_hand(&self) -> RequestGuard {
        self.set_busy();
        RequestGuard(self.clone())
    }

    /// Marks the connection as busy: a request is in progress, or the rest of the connection is its response.
    pub(super) fn set_busy(&self) {
        let mut progress = self.0.lock();
        progress.awaited = Awaited::InHand;
        progress.idle.set_busy();
    }

    /// Returns the token that is cancelled when this connection is evicted.
    pub(super) fn evicted(&self) -> CancellationToken {
        self.0.lock().idle.evicted().clone()
    }

    /// Returns when the current head began to arrive. Returns `None` if no head is due.
    pub(super) fn since(&self) -> Option<Instant> {
        match self.0.lock().awaited {
            Awaited::Head { since } => Some(since),
            Awaited::Nothing | Awaited::InHand => None,
        }
    }
}

/// A request in progress. Dropping it marks the connection as idle.
pub(super) struct RequestGuard(HeaderTimeout);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut progress = self.0.0.lock();
        progress.awaited = Awaited::Nothing;
        progress.idle.set_idle();
    }
}

/// The body of a response, with the guard of its request.
pub(super) struct GuardedBody<B> {
    body: B,
    _in_hand: RequestGuard,
}

impl<B> GuardedBody<B> {
    pub(super) fn new(body: B, in_hand: RequestGuard) -> Self {
        Self { body, _in_hand: in_hand }
    }
}

impl<B: Body + Unpin> Body for GuardedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request, with a timeout and a minimum rate.
pub(super) struct TimeoutBody<B> {
    body: B,
    within: Duration,
    rate: u64,
    /// When the body was polled first.
    since: Option<Instant>,
    received: u64,
    late: Option<Pin<Box<Sleep>>>,
}

/// Error of a request body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The body arrived too slowly.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection failed, or the body is malformed.
    #[error(transparent)]
    Broken(hyper::Error),
}

impl<B> TimeoutBody<B> {
    pub(super) fn new(body: B, limits: &ConnectionLimits) -> Self {
        let (within, rate) = (limits.body_within, limits.body_rate);
        Self { body, within, rate, since: None, received: 0, late: None }
    }

    /// Returns the deadline for the next bytes.
    fn deadline(&mut self) -> Instant {
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = self.received.checked_div(self.rate).map_or(self.within, Duration::from_secs);
        since + self.within.min(due.saturating_add(RUN_UP))
    }
}

impl<B: Body<Error = hyper::Error> + Unpin> Body for TimeoutBody<B> {
    type Data = B::Data;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BodyError>>> {
        let deadline = self.deadline();
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if let Some(Ok(frame)) = &frame {
                self.received += frame.data_ref().map_or(0, |data| data.remaining() as u64);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)));
        }
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if late.deadline() != deadline {
            late.as_mut().reset(deadline);
        }
        ready!(late.as_mut().poll(context));
        Poll::Ready(Some(Err(BodyError::TooSlow)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt as _;
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Interval, interval, timeout};

    use super::*;

    /// A body that delivers one byte at a time.
    struct Drips(Interval);

    impl Body for Drips {
        type Data = bytes::Bytes;
        type Error = hyper::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<bytes::Bytes>, hyper::Error>>> {
            ready!(self.0.poll_tick(context));
            Poll::Ready(Some(Ok(Frame::data(bytes::Bytes::from_static(b"x")))))
        }
    }

    /// Returns how long a slow body is read until it fails, and how many frames arrive.
    async fn reads(every: Duration, limits: &ConnectionLimits) -> (Duration, usize) {
        let mut body = TimeoutBody::new(Drips(interval(every)), limits);
        let (began, mut read) = (Instant::now(), 0);
        loop {
            match body.frame().await.expect("it never ends") {
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(matches!(error, BodyError::TooSlow), "{error}");
                    return (began.elapsed(), read);
                }
            }
        }
    }

    /// A body is refused if its rate is too low, or if it takes longer than the limit.
    #[tokio::test(start_paused = true)]
    async fn slow_request_body_times_out() {
        let limits =
            ConnectionLimits { body_within: Duration::from_secs(60), body_rate: 10, ..Default::default() };
        let (took, read) = reads(Duration::from_secs(1), &limits).await;
        assert!(took < RUN_UP + Duration::from_secs(2) && read < 8, "{took:?} {read}");
        let (took, read) = reads(Duration::from_millis(50), &limits).await;
        assert!(took >= limits.body_within && read > 1_000, "{took:?} {read}");
    }

    /// Writes to a client that reads 16 bytes at a time. Returns the time and whether the client got
    /// everything.
    async fn takes(every: Duration, bytes: usize, limits: &ConnectionLimits) -> (Duration, bool) {
        let (near, mut far) = tokio::io::duplex(16);
        let mut patient = TimeoutSocket::new(near, limits, HeaderTimeout::begin(&IdleConnections::default()));
        let taking = async {
            let mut beat = interval(every);
            loop {
                beat.tick().await;
                far.read_exact(&mut [0; 16]).await.unwrap();
            }
        };
        let began = Instant::now();
        let writing = async {
            let all = vec![0; bytes];
            patient.write_all(&all).await?;
            patient.flush().await
        };
        tokio::select! {
            written = writing => {
                let whole = written.map_err(|error| assert_eq!(error.kind(), io::ErrorKind::TimedOut)).is_ok();
                (began.elapsed(), whole)
            }
            () = taking => unreachable!("it takes without end"),
        }
    }

    /// A client that reads nothing, or too slowly over time, is disconnected.
    #[tokio::test(start_paused = true)]
    async fn slow_reader_times_out() {
        let patience = Duration::from_secs(5);
        let limits = ConnectionLimits { stalled_for: patience, answer_rate: 100, ..Default::default() };
        let (near, far) = tokio::io::duplex(16);
        let mut patient =
            TimeoutSocket::new(near, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        let began = Instant::now();
        let error = patient.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, patience));
        drop(far);

        // The client reads a little every four seconds, so it never stalls for five. It never reaches 100
        // bytes per second.
        let (took, whole) = takes(Duration::from_secs(4), 10_000, &limits).await;
        assert!(!whole && took < patience + Duration::from_secs(2), "{took:?}");
        let (took, whole) = takes(Duration::from_millis(100), 10_000, &limits).await;
        assert!(whole && took > patience * 2, "{took:?}");
        // A small response may take its time.
        assert!(takes(Duration::from_secs(4), 32, &limits).await.1);
    }

    /// A client that has read everything is not measured until the next write.
    #[tokio::test(start_paused = true)]
    async fn idle_time_is_no_write_stall() {
        let limits = ConnectionLimits { stalled_for: Duration::from_secs(5), ..Default::default() };
        let (near, mut far) = tokio::io::duplex(16);
        let mut patient =
            TimeoutSocket::new(near, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        for _ in 0..10 {
            let writing = async {
                patient.write_all(&[0; 32]).await?;
                patient.flush().await
            };
            let taking = async {
                tokio::time::sleep(Duration::from_secs(4)).await;
                far.read_exact(&mut [0; 32]).await
            };
            let (written, _) = tokio::join!(writing, taking);
            written.expect("it has taken all in time, each time");
        }
    }

    /// A detached stream ends if its client reads nothing.
    #[tokio::test(start_paused = true)]
    async fn detached_stream_stalls_with_client() {
        let (near, _far) = tokio::io::duplex(16);
        let limits = ConnectionLimits { stalled_for: Duration::from_secs(5), ..Default::default() };
        let patient = TimeoutSocket::new(near, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        let endless = futures_util::stream::repeat(bytes::Bytes::from_static(b": still here\n\n")).boxed();
        let poured =
            timeout(Duration::from_secs(60), super::super::detached_stream::pour(patient, endless)).await;
        assert_eq!(poured.expect("it ends").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// No header timeout runs while a request is in progress.
    #[tokio::test(start_paused = true)]
    async fn header_timeout_starts_at_first_byte() {
        let heads = HeaderTimeout::begin(&IdleConnections::default());
        let begun = Instant::now();
        assert_eq!(heads.since(), Some(begun), "the first head has to come");
        let first = heads.in_hand();
        heads.came();
        assert_eq!(heads.since(), None, "what comes now is its body");
        drop(first);
        assert_eq!(heads.since(), None, "nothing has come yet");
        tokio::time::advance(Duration::from_secs(9)).await;
        heads.came();
        tokio::time::advance(Duration::from_secs(1)).await;
        heads.came();
        assert_eq!(heads.since(), Some(begun + Duration::from_secs(9)));
    }
}
