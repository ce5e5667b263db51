//! Streams that clients listen to for hours. The HTTP library keeps two buffers of 8 KiB for every connection, which is
//! most of what a stream costs on which little is said. So once the head of such a response is out, its connection is
//! taken from the library: what is left to do is one chunk after the other (RFC 9112, section 7.1), and to see when the
//! client goes away. It must not know what is in the events.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::scan::HeadScanner;

/// What a stream still has to say.
pub(super) type Events = BoxStream<'static, Bytes>;

/// The events of a response, for whoever is first to take them: the connection, or the response's own body.
#[derive(Clone)]
struct Offered(Arc<Mutex<Option<Events>>>);

/// Makes a response whose connection may be taken from the HTTP library.
pub(super) fn offer(mut response: Response, events: Events) -> Response {
    let offered = Offered(Arc::new(Mutex::new(Some(events))));
    let taken = offered.clone();
    let events = stream::once(async move { taken.0.lock().take() });
    let events = events.flat_map(|events| events.unwrap_or_else(|| stream::empty().boxed()));
    *response.body_mut() = Body::from_stream(events.map(Ok::<_, Infallible>));
    response.extensions_mut().insert(offered);
    response
}

/// A connection's own side of the matter.
#[derive(Clone, Default)]
pub(super) struct Takeover {
    events: Arc<Mutex<Option<Events>>>,
    /// True once all that the library had to write has been written.
    written: Arc<AtomicBool>,
}

impl Takeover {
    /// Takes the events of a response, if it offers them. Nothing else can be asked on the connection from then on.
    pub(super) fn of(&self, version: Version, mut response: Response) -> Response {
        // Before 1.1 there are no chunks.
        let offered = response.extensions_mut().remove::<Offered>().filter(|_| version == Version::HTTP_11);
        let Some(events) = offered.and_then(|offered| offered.0.lock().take()) else { return response };
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        // Its length is unknown, so that the head says that chunks follow.
        *response.body_mut() = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        self.written.store(false, Ordering::Relaxed);
        *self.events.lock() = Some(events);
        response
    }

    /// The events, once the head of their response is out.
    pub(super) fn take(&self) -> Option<Events> {
        let head_is_out = self.written.load(Ordering::Relaxed);
        head_is_out.then(|| self.events.lock().take()).flatten()
    }

    /// A socket that notes what was written, and has what comes scanned.
    pub(super) fn watch<S>(&self, socket: S, scanner: HeadScanner) -> Watched<S> {
        Watched { socket, written: Arc::clone(&self.written), scanner }
    }
}

/// A socket that notes whether all that was to be written has been, and has what comes scanned.
pub(super) struct Watched<S> {
    socket: S,
    written: Arc<AtomicBool>,
    scanner: HeadScanner,
}

impl<S> Watched<S> {
    /// The socket alone.
    pub(super) fn into_socket(self) -> S {
        self.socket
    }

    fn note(&self, written: &Poll<io::Result<usize>>, whole: usize) {
        let all = matches!(written, Poll::Ready(Ok(written)) if *written == whole);
        self.written.store(all, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.scanner.poll_ready(context));
        let before = into.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, into);
        self.scanner.scan(&into.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, from);
        self.note(&written, from.len());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, from);
        self.note(&written, from.iter().map(|slice| slice.len()).sum());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Sends the events until there are no more, or the client is gone.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn pour<S: AsyncRead + AsyncWrite>(socket: S, mut events: Events) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(socket);
    let pouring = async {
        while let Some(event) = events.next().await {
            to.write_all(&chunk(&event)).await?;
            to.flush().await?;
        }
        to.write_all(b"0\r\n\r\n").await?;
        to.shutdown().await
    };
    let gone = async {
        // Whatever a client says here is not heard: the head has told it that the connection closes.
        let mut ignored = [0; 256];
        while from.read(&mut ignored).await? > 0 {}
        Ok(())
    };
    tokio::select! {
        poured = pouring => poured,
        gone = gone => gone,
    }
}

/// One chunk. One without content would end the stream.
fn chunk(event: &Bytes) -> Vec<u8> {
    if event.is_empty() {
        return Vec::new();
    }
    let mut chunk = format!("{:x}\r\n", event.len()).into_bytes();
    chunk.extend_from_slice(event);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn a_chunk_says_how_long_it_is() {
        assert_eq!(chunk(&Bytes::from_static(b": still here\n\n")), b"e\r\n: still here\n\n\r\n");
        assert_eq!(chunk(&Bytes::new()), b"");
    }

    fn events() -> Events {
        stream::iter(["a", "b"]).map(|event| Bytes::from_static(event.as_bytes())).boxed()
    }

    async fn text(response: Response) -> Bytes {
        axum::body::to_bytes(response.into_body(), 10).await.unwrap()
    }

    #[tokio::test]
    async fn a_connection_is_taken_once_its_head_is_out() {
        let takeover = Takeover::default();
        let response = takeover.of(Version::HTTP_11, offer(Response::default(), events()));
        assert_eq!(response.headers()[header::CONNECTION], "close");
        assert!(takeover.take().is_none(), "the head is not out yet");
        takeover.written.store(true, Ordering::Relaxed);
        assert_eq!(takeover.take().unwrap().count().await, 2);
        assert!(takeover.take().is_none(), "it was taken");
    }

    #[tokio::test]
    async fn a_client_without_chunks_and_a_response_that_does_not_last_are_left_to_the_library() {
        let takeover = Takeover::default();
        let older = takeover.of(Version::HTTP_10, offer(Response::default(), events()));
        let short = takeover.of(Version::HTTP_11, Response::new(Body::from("short")));
        takeover.written.store(true, Ordering::Relaxed);
        assert!(takeover.take().is_none());
        assert_eq!((text(older).await, text(short).await), ("ab".into(), "short".into()));
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_events_or_with_its_client() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connected = async || {
            let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            (client.unwrap(), accepted.unwrap().0)
        };
        let (mut client, socket) = connected().await;
        pour(socket, events()).await.unwrap();
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
        let (client, socket) = connected().await;
        drop(client);
        pour(socket, stream::pending().boxed()).await.unwrap();
    }

    #[tokio::test]
    async fn a_body_that_nobody_took_over_has_the_events() {
        assert_eq!(text(offer(Response::default(), events())).await, "ab");
    }
}
