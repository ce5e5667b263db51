//! How long a client is waited for. [`Patient`] is a socket that breaks once its other end takes nothing, or too little;
//! [`Heads`] tells how long the head of a request has been on its way, which the HTTP library does not tell apart from a
//! connection that is not used; [`Paced`] is a body that breaks if it comes too slowly. It must not know what is sent.

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

/// How long a body may take to get going before its rate counts.
const RUN_UP: Duration = Duration::from_secs(5);

/// A socket whose other end may not let what is written to it lie for long.
pub(super) struct Patient<S> {
    socket: S,
    stalled_for: Duration,
    rate: u64,
    /// Set from when something could not be written until all of it is.
    behind: Option<Box<Behind>>,
    heads: Heads,
}

/// How a client takes what waits for it.
struct Behind {
    since: Instant,
    taken: u64,
    /// When it took something last.
    last: Instant,
    late: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    pub(super) fn new(socket: S, limits: &ConnectionLimits, heads: Heads) -> Self {
        Self { socket, stalled_for: limits.stalled_for, rate: limits.answer_rate, behind: None, heads }
    }

    /// What came of an attempt to write.
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

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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
        // Whoever writes here flushes when all that there was to write has been written.
        self.behind = None;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// How long the head of a request has been on its way, and whether the connection is idle. Cheap to clone.
#[derive(Clone)]
pub(super) struct Heads(Arc<Mutex<Progress>>);

struct Progress {
    awaited: Awaited,
    idle: IdleState,
}

#[derive(Clone, Copy)]
enum Awaited {
    /// Nothing came of the next request.
    Nothing,
    /// Something of its head came, or it is the first and must come.
    Head { since: Instant },
    /// A request is in hand. What comes now is its body, or waits behind it.
    InHand,
}

impl Heads {
    /// A connection has begun.
    pub(super) fn begin(among: &IdleConnections) -> Self {
        let awaited = Awaited::Head { since: Instant::now() };
        Self(Arc::new(Mutex::new(Progress { awaited, idle: among.join() })))
    }

    /// The connection is secured: the first head is awaited from now on.
    pub(super) fn secured(&self) {
        self.0.lock().awaited = Awaited::Head { since: Instant::now() };
    }

    /// Bytes came.
    fn came(&self) {
        let mut progress = self.0.lock();
        if matches!(progress.awaited, Awaited::Nothing) {
            progress.awaited = Awaited::Head { since: Instant::now() };
        }
    }

    /// A head came whole. What this gives is kept for as long as the request is in hand.
    pub(super) fn in_hand(&self) -> InHand {
        self.set_busy();
        InHand(self.clone())
    }

    /// A request is in hand, or what is left of the connection is its answer.
    pub(super) fn set_busy(&self) {
        let mut progress = self.0.lock();
        progress.awaited = Awaited::InHand;
        progress.idle.set_busy();
    }

    /// Cancelled once the connection is to be closed for another.
    pub(super) fn evicted(&self) -> CancellationToken {
        self.0.lock().idle.evicted().clone()
    }

    /// Since when a head is on its way.
    pub(super) fn since(&self) -> Option<Instant> {
        match self.0.lock().awaited {
            Awaited::Head { since } => Some(since),
            Awaited::Nothing | Awaited::InHand => None,
        }
    }
}

/// A request in hand. Dropped, it is not any more.
pub(super) struct InHand(Heads);

impl Drop for InHand {
    fn drop(&mut self) {
        let mut progress = self.0.0.lock();
        progress.awaited = Awaited::Nothing;
        progress.idle.set_idle();
    }
}

/// A response's body, and the request that it is for.
pub(super) struct Answer<B> {
    body: B,
    _in_hand: InHand,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, in_hand: InHand) -> Self {
        Self { body, _in_hand: in_hand }
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
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

/// A request's body, which must come at a pace.
pub(super) struct Paced<B> {
    body: B,
    within: Duration,
    rate: u64,
    /// Since when somebody reads it.
    since: Option<Instant>,
    received: u64,
    late: Option<Pin<Box<Sleep>>>,
}

/// Why there is no more of a body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// It came too slowly.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The connection broke, or it has another form than it must have.
    #[error(transparent)]
    Broken(hyper::Error),
}

impl<B> Paced<B> {
    pub(super) fn new(body: B, limits: &ConnectionLimits) -> Self {
        let (within, rate) = (limits.body_within, limits.body_rate);
        Self { body, within, rate, since: None, received: 0, late: None }
    }

    /// When it is too late for the next byte.
    fn deadline(&mut self) -> Instant {
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = self.received.checked_div(self.rate).map_or(self.within, Duration::from_secs);
        since + self.within.min(due.saturating_add(RUN_UP))
    }
}

impl<B: Body<Error = hyper::Error> + Unpin> Body for Paced<B> {
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

    /// A body of one byte at a time.
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

    /// How long a body that drips is read, and how much of it.
    async fn reads(every: Duration, limits: &ConnectionLimits) -> (Duration, usize) {
        let mut body = Paced::new(Drips(interval(every)), limits);
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

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_given_up_by_its_rate_and_at_last_by_its_time() {
        let limits =
            ConnectionLimits { body_within: Duration::from_secs(60), body_rate: 10, ..Default::default() };
        let (took, read) = reads(Duration::from_secs(1), &limits).await;
        assert!(took < RUN_UP + Duration::from_secs(2) && read < 8, "{took:?} {read}");
        let (took, read) = reads(Duration::from_millis(50), &limits).await;
        assert!(took >= limits.body_within && read > 1_000, "{took:?} {read}");
    }

    /// How long a client is written to that takes 16 bytes at a time, and whether it got all of it.
    async fn takes(every: Duration, bytes: usize, limits: &ConnectionLimits) -> (Duration, bool) {
        let (near, mut far) = tokio::io::duplex(16);
        let mut patient = Patient::new(near, limits, Heads::begin(&IdleConnections::default()));
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

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_too_long_or_too_little_is_given_up() {
        let patience = Duration::from_secs(5);
        let limits = ConnectionLimits { stalled_for: patience, answer_rate: 100, ..Default::default() };
        let (near, far) = tokio::io::duplex(16);
        let mut patient = Patient::new(near, &limits, Heads::begin(&IdleConnections::default()));
        let began = Instant::now();
        let error = patient.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, patience));
        drop(far);

        // A little every four seconds is never nothing for five, and never a hundred bytes a second.
        let (took, whole) = takes(Duration::from_secs(4), 10_000, &limits).await;
        assert!(!whole && took < patience + Duration::from_secs(2), "{took:?}");
        let (took, whole) = takes(Duration::from_millis(100), 10_000, &limits).await;
        assert!(whole && took > patience * 2, "{took:?}");
        // What is little in itself may take its time.
        assert!(takes(Duration::from_secs(4), 32, &limits).await.1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_taken_all_owes_nothing_for_what_comes_later() {
        let limits = ConnectionLimits { stalled_for: Duration::from_secs(5), ..Default::default() };
        let (near, mut far) = tokio::io::duplex(16);
        let mut patient = Patient::new(near, &limits, Heads::begin(&IdleConnections::default()));
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

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_lasts_ends_for_a_client_that_takes_nothing() {
        let (near, _far) = tokio::io::duplex(16);
        let limits = ConnectionLimits { stalled_for: Duration::from_secs(5), ..Default::default() };
        let patient = Patient::new(near, &limits, Heads::begin(&IdleConnections::default()));
        let endless = futures_util::stream::repeat(bytes::Bytes::from_static(b": still here\n\n")).boxed();
        let poured = timeout(Duration::from_secs(60), super::super::lasting::pour(patient, endless)).await;
        assert_eq!(poured.expect("it ends").unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_awaited_from_its_first_byte_on_and_not_while_a_request_is_in_hand() {
        let heads = Heads::begin(&IdleConnections::default());
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
