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
const BODY_GRACE: Duration = Duration::from_secs(5);

/// A socket with a write timeout and a minimum rate at which its peer must read.
pub(in crate::mcp::transport::http) struct TimeoutSocket<S> {
    socket: S,
    stall_timeout: Duration,
    rate: u64,
    /// Set from the first write that has to wait until the next flush.
    stall: Option<Box<WriteStall>>,
    header_timeout: HeaderTimeout,
}

/// Progress of a peer that reads slower than the server writes.
struct WriteStall {
    since: Instant,
    written: u64,
    /// When the peer last accepted bytes.
    last_progress: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> TimeoutSocket<S> {
    pub(in crate::mcp::transport::http) fn new(
        socket: S,
        limits: &ConnectionLimits,
        header_timeout: HeaderTimeout,
    ) -> Self {
        Self {
            socket,
            stall_timeout: limits.stall_timeout,
            rate: limits.answer_rate,
            stall: None,
            header_timeout,
        }
    }

    /// Updates the progress after a write attempt, and fails past the deadline.
    fn check_write(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &result
            && let Some(stall) = &mut self.stall
        {
            stall.written += *count as u64;
            stall.last_progress = Instant::now();
        }
        if result.is_ready() {
            return result;
        }
        let stall = self.stall.get_or_insert_with(|| {
            let now = Instant::now();
            Box::new(WriteStall {
                since: now,
                written: 0,
                last_progress: now,
                timer: Box::pin(sleep_until(now)),
            })
        });
        let expected_time = stall.written.checked_div(self.rate).map_or(Duration::MAX, Duration::from_secs);
        let rate_deadline = stall.since.checked_add(expected_time.saturating_add(self.stall_timeout));
        let stall_deadline = stall.last_progress + self.stall_timeout;
        let deadline =
            rate_deadline.map_or(stall_deadline, |rate_deadline| rate_deadline.min(stall_deadline));
        if stall.timer.deadline() != deadline {
            stall.timer.as_mut().reset(deadline);
        }
        ready!(stall.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes too little")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > start {
            self.header_timeout.record_bytes();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(context, buffer);
        self.check_write(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(context, buffers);
        self.check_write(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The writer flushes after it has written everything.
        self.stall = None;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Tracks how long the head of a request has been arriving, and whether the connection is idle. Cheap to
/// clone.
#[derive(Clone)]
pub(in crate::mcp::transport::http) struct HeaderTimeout(Arc<Mutex<HeaderState>>);

struct HeaderState {
    phase: HeaderPhase,
    idle: IdleState,
}

#[derive(Clone, Copy)]
enum HeaderPhase {
    /// Nothing of the next request has arrived.
    Nothing,
    /// A part of the head has arrived, or the connection is new and its first head is due.
    Head { since: Instant },
    /// A request is in progress. Bytes that arrive belong to its body or to a pipelined request.
    InProgress,
}

impl HeaderTimeout {
    /// Starts tracking a new connection.
    pub(in crate::mcp::transport::http) fn begin(idle_connections: &IdleConnections) -> Self {
        let phase = HeaderPhase::Head { since: Instant::now() };
        Self(Arc::new(Mutex::new(HeaderState { phase, idle: idle_connections.join() })))
    }

    /// Restarts the head timeout after the TLS handshake.
    pub(in crate::mcp::transport::http) fn restart(&self) {
        self.0.lock().phase = HeaderPhase::Head { since: Instant::now() };
    }

    /// Records that bytes arrived.
    fn record_bytes(&self) {
        let mut progress = self.0.lock();
        if matches!(progress.phase, HeaderPhase::Nothing) {
            progress.phase = HeaderPhase::Head { since: Instant::now() };
        }
    }

    /// Records that a head is complete. The caller keeps the returned guard until the response is sent.
    pub(in crate::mcp::transport::http) fn begin_request(&self) -> RequestGuard {
        self.set_busy();
        RequestGuard(self.clone())
    }

    /// Marks the connection as busy: a request is in progress, or the rest of the connection is its response.
    pub(in crate::mcp::transport::http) fn set_busy(&self) {
        let mut progress = self.0.lock();
        progress.phase = HeaderPhase::InProgress;
        progress.idle.set_busy();
    }

    /// Returns the token that is cancelled when this connection is evicted.
    pub(in crate::mcp::transport::http) fn evicted(&self) -> CancellationToken {
        self.0.lock().idle.evicted().clone()
    }

    /// Returns when the current head began to arrive. Returns `None` if no head is due.
    pub(in crate::mcp::transport::http) fn since(&self) -> Option<Instant> {
        match self.0.lock().phase {
            HeaderPhase::Head { since } => Some(since),
            HeaderPhase::Nothing | HeaderPhase::InProgress => None,
        }
    }
}

/// A request in progress. Dropping it marks the connection as idle.
pub(in crate::mcp::transport::http) struct RequestGuard(HeaderTimeout);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut progress = self.0.0.lock();
        progress.phase = HeaderPhase::Nothing;
        progress.idle.set_idle();
    }
}

/// The body of a response, with the guard of its request.
pub(in crate::mcp::transport::http) struct GuardedBody<B> {
    body: B,
    _request_guard: RequestGuard,
}

impl<B> GuardedBody<B> {
    pub(in crate::mcp::transport::http) fn new(body: B, request_guard: RequestGuard) -> Self {
        Self { body, _request_guard: request_guard }
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
pub(in crate::mcp::transport::http) struct TimeoutBody<B> {
    body: B,
    timeout: Duration,
    rate: u64,
    /// When the body was polled first.
    since: Option<Instant>,
    received: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Error of a request body.
#[derive(Debug, thiserror::Error)]
pub(in crate::mcp::transport::http) enum BodyError {
    /// The body arrived too slowly.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection failed, or the body is malformed.
    #[error(transparent)]
    Broken(hyper::Error),
}

impl<B> TimeoutBody<B> {
    pub(in crate::mcp::transport::http) fn new(body: B, limits: &ConnectionLimits) -> Self {
        let (timeout, rate) = (limits.body_timeout, limits.body_rate);
        Self { body, timeout, rate, since: None, received: 0, timer: None }
    }

    /// Returns the deadline for the next bytes.
    fn deadline(&mut self) -> Instant {
        let since = *self.since.get_or_insert_with(Instant::now);
        let expected_time = self.received.checked_div(self.rate).map_or(self.timeout, Duration::from_secs);
        since + self.timeout.min(expected_time.saturating_add(BODY_GRACE))
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
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        ready!(timer.as_mut().poll(context));
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
    struct SlowBody(Interval);

    impl Body for SlowBody {
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
    async fn read_slowly(period: Duration, limits: &ConnectionLimits) -> (Duration, usize) {
        let mut body = TimeoutBody::new(SlowBody(interval(period)), limits);
        let (start, mut frames) = (Instant::now(), 0);
        loop {
            match body.frame().await.expect("it never ends") {
                Ok(_) => frames += 1,
                Err(error) => {
                    assert!(matches!(error, BodyError::TooSlow), "{error}");
                    return (start.elapsed(), frames);
                }
            }
        }
    }

    /// A body is refused if its rate is too low, or if it takes longer than the limit.
    #[tokio::test(start_paused = true)]
    async fn slow_request_body_times_out() {
        let limits =
            ConnectionLimits { body_timeout: Duration::from_secs(60), body_rate: 10, ..Default::default() };
        let (elapsed, frames) = read_slowly(Duration::from_secs(1), &limits).await;
        assert!(elapsed < BODY_GRACE + Duration::from_secs(2) && frames < 8, "{elapsed:?} {frames}");
        let (elapsed, frames) = read_slowly(Duration::from_millis(50), &limits).await;
        assert!(elapsed >= limits.body_timeout && frames > 1_000, "{elapsed:?} {frames}");
    }

    /// Writes to a client that reads 16 bytes at a time. Returns the time and whether the client got
    /// everything.
    async fn write_to_slow_reader(
        period: Duration,
        bytes: usize,
        limits: &ConnectionLimits,
    ) -> (Duration, bool) {
        let (server, mut client) = tokio::io::duplex(16);
        let mut socket =
            TimeoutSocket::new(server, limits, HeaderTimeout::begin(&IdleConnections::default()));
        let reading = async {
            let mut ticks = interval(period);
            loop {
                ticks.tick().await;
                client.read_exact(&mut [0; 16]).await.unwrap();
            }
        };
        let start = Instant::now();
        let writing = async {
            let data = vec![0; bytes];
            socket.write_all(&data).await?;
            socket.flush().await
        };
        tokio::select! {
            result = writing => {
                let is_complete = result.map_err(|error| assert_eq!(error.kind(), io::ErrorKind::TimedOut)).is_ok();
                (start.elapsed(), is_complete)
            }
            () = reading => unreachable!("it takes without end"),
        }
    }

    /// A client that reads nothing, or too slowly over time, is disconnected.
    #[tokio::test(start_paused = true)]
    async fn slow_reader_times_out() {
        let stall_timeout = Duration::from_secs(5);
        let limits = ConnectionLimits { stall_timeout, answer_rate: 100, ..Default::default() };
        let (server, client) = tokio::io::duplex(16);
        let mut socket =
            TimeoutSocket::new(server, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        let start = Instant::now();
        let error = socket.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, stall_timeout));
        drop(client);

        // The client reads a little every four seconds, so it never stalls for five. It never reaches 100
        // bytes per second.
        let (elapsed, is_complete) = write_to_slow_reader(Duration::from_secs(4), 10_000, &limits).await;
        assert!(!is_complete && elapsed < stall_timeout + Duration::from_secs(2), "{elapsed:?}");
        let (elapsed, is_complete) = write_to_slow_reader(Duration::from_millis(100), 10_000, &limits).await;
        assert!(is_complete && elapsed > stall_timeout * 2, "{elapsed:?}");
        // A small response may take its time.
        assert!(write_to_slow_reader(Duration::from_secs(4), 32, &limits).await.1);
    }

    /// A client that has read everything is not measured until the next write.
    #[tokio::test(start_paused = true)]
    async fn idle_time_is_no_write_stall() {
        let limits = ConnectionLimits { stall_timeout: Duration::from_secs(5), ..Default::default() };
        let (server, mut client) = tokio::io::duplex(16);
        let mut socket =
            TimeoutSocket::new(server, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        for _ in 0..10 {
            let writing = async {
                socket.write_all(&[0; 32]).await?;
                socket.flush().await
            };
            let reading = async {
                tokio::time::sleep(Duration::from_secs(4)).await;
                client.read_exact(&mut [0; 32]).await
            };
            let (result, _) = tokio::join!(writing, reading);
            result.expect("it has taken all in time, each time");
        }
    }

    /// A detached stream ends if its client reads nothing.
    #[tokio::test(start_paused = true)]
    async fn detached_stream_stalls_with_client() {
        let (server, _client) = tokio::io::duplex(16);
        let limits = ConnectionLimits { stall_timeout: Duration::from_secs(5), ..Default::default() };
        let socket = TimeoutSocket::new(server, &limits, HeaderTimeout::begin(&IdleConnections::default()));
        let endless = futures_util::stream::repeat(bytes::Bytes::from_static(b": still here\n\n")).boxed();
        let result = timeout(
            Duration::from_secs(60),
            crate::mcp::transport::http::connections::detached_stream::write_events(socket, endless),
        )
        .await;
        assert_eq!(result.expect("it ends").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    /// No header timeout runs while a request is in progress.
    #[tokio::test(start_paused = true)]
    async fn header_timeout_starts_at_first_byte() {
        let header_timeout = HeaderTimeout::begin(&IdleConnections::default());
        let start = Instant::now();
        assert_eq!(header_timeout.since(), Some(start), "the first head has to come");
        let guard = header_timeout.begin_request();
        header_timeout.record_bytes();
        assert_eq!(header_timeout.since(), None, "what comes now is its body");
        drop(guard);
        assert_eq!(header_timeout.since(), None, "nothing has come yet");
        tokio::time::advance(Duration::from_secs(9)).await;
        header_timeout.record_bytes();
        tokio::time::advance(Duration::from_secs(1)).await;
        header_timeout.record_bytes();
        assert_eq!(header_timeout.since(), Some(start + Duration::from_secs(9)));
    }
}
