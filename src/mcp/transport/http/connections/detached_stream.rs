//! Detached streams: connections of long-lived streams that are taken from the HTTP library. The library
//! keeps two buffers of 8 KiB for each connection, which is most of the memory of a quiet stream. After the
//! response head is sent, this module writes the remaining chunks itself (RFC 9112, section 7.1) and detects
//! when the client disconnects. It must not know the content of the events.

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

use super::head_scanner::HeadScanner;

/// The events that a stream has yet to send.
pub(crate) type Events = BoxStream<'static, Bytes>;

/// The events of a response. Either the connection or the response's own body takes them, once.
#[derive(Clone)]
struct EventSlot(Arc<Mutex<Option<Events>>>);

/// Makes a response whose connection can be taken from the HTTP library.
pub(crate) fn make_detachable(mut response: Response, events: Events) -> Response {
    let slot = EventSlot(Arc::new(Mutex::new(Some(events))));
    let body_slot = slot.clone();
    let events = stream::once(async move { body_slot.0.lock().take() });
    let events = events.flat_map(|events| events.unwrap_or_else(|| stream::empty().boxed()));
    *response.body_mut() = Body::from_stream(events.map(Ok::<_, Infallible>));
    response.extensions_mut().insert(slot);
    response
}

/// The connection's side of a takeover.
#[derive(Clone, Default)]
pub(in crate::mcp::transport::http) struct Takeover {
    events: Arc<Mutex<Option<Events>>>,
    /// True if the last write of the library was complete.
    write_complete: Arc<AtomicBool>,
}

impl Takeover {
    /// Takes the events of a response that offers them. The connection then accepts no further request.
    pub(in crate::mcp::transport::http) fn of(&self, version: Version, mut response: Response) -> Response {
        // Chunks exist only from HTTP/1.1 on.
        let slot = response.extensions_mut().remove::<EventSlot>().filter(|_| version == Version::HTTP_11);
        let Some(events) = slot.and_then(|slot| slot.0.lock().take()) else { return response };
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        // The length of this body is unknown, so the library announces chunks in the response head.
        *response.body_mut() = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        self.write_complete.store(false, Ordering::Relaxed);
        *self.events.lock() = Some(events);
        response
    }

    /// Returns the events, once the head of their response has been sent.
    pub(in crate::mcp::transport::http) fn take(&self) -> Option<Events> {
        let head_is_out = self.write_complete.load(Ordering::Relaxed);
        head_is_out.then(|| self.events.lock().take()).flatten()
    }

    /// Wraps a socket so that it records complete writes and passes received bytes to the scanner.
    pub(in crate::mcp::transport::http) fn watch<S>(
        &self,
        socket: S,
        scanner: HeadScanner,
    ) -> WatchedSocket<S> {
        WatchedSocket { socket, write_complete: Arc::clone(&self.write_complete), scanner }
    }
}

/// A socket that records whether the last write was complete, and passes received bytes to the scanner.
pub(in crate::mcp::transport::http) struct WatchedSocket<S> {
    socket: S,
    write_complete: Arc<AtomicBool>,
    scanner: HeadScanner,
}

impl<S> WatchedSocket<S> {
    /// Returns the inner socket.
    pub(in crate::mcp::transport::http) fn into_socket(self) -> S {
        self.socket
    }

    fn record_write(&self, result: &Poll<io::Result<usize>>, length: usize) {
        let is_complete = matches!(result, Poll::Ready(Ok(count)) if *count == length);
        self.write_complete.store(is_complete, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.scanner.poll_ready(context));
        let start = buffer.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.scanner.scan(&buffer.filled()[start..]);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(context, buffer);
        self.record_write(&result, buffer.len());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(context, buffers);
        self.record_write(&result, buffers.iter().map(|slice| slice.len()).sum());
        result
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

/// Sends the events until they end or the client disconnects.
///
/// # Errors
/// If the connection fails.
pub(in crate::mcp::transport::http) async fn write_events<S: AsyncRead + AsyncWrite>(
    socket: S,
    mut events: Events,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(socket);
    let writing = async {
        while let Some(event) = events.next().await {
            writer.write_all(&chunk(&event)).await?;
            writer.flush().await?;
        }
        writer.write_all(b"0\r\n\r\n").await?;
        writer.shutdown().await
    };
    let disconnected = async {
        // Input is ignored here: the response head announced `Connection: close`.
        let mut ignored = [0; 256];
        while reader.read(&mut ignored).await? > 0 {}
        Ok(())
    };
    tokio::select! {
        result = writing => result,
        disconnected = disconnected => disconnected,
    }
}

/// Encodes one chunk. An event without content gives no bytes, because an empty chunk would end the stream.
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

    /// An empty event makes no chunk, since an empty chunk would end the body.
    #[test]
    fn chunk_begins_with_its_length() {
        assert_eq!(chunk(&Bytes::from_static(b": still here\n\n")), b"e\r\n: still here\n\n\r\n");
        assert_eq!(chunk(&Bytes::new()), b"");
    }

    fn events() -> Events {
        stream::iter(["a", "b"]).map(|event| Bytes::from_static(event.as_bytes())).boxed()
    }

    async fn text(response: Response) -> Bytes {
        axum::body::to_bytes(response.into_body(), 10).await.unwrap()
    }

    /// A detached stream gets its connection only after the head was written.
    #[tokio::test]
    async fn connection_detaches_after_response_head() {
        let takeover = Takeover::default();
        let response = takeover.of(Version::HTTP_11, make_detachable(Response::default(), events()));
        assert_eq!(response.headers()[header::CONNECTION], "close");
        assert!(takeover.take().is_none(), "the head is not out yet");
        takeover.write_complete.store(true, Ordering::Relaxed);
        assert_eq!(takeover.take().unwrap().count().await, 2);
        assert!(takeover.take().is_none(), "it was taken");
    }

    /// HTTP/1.0 clients and responses without a stream stay with the HTTP library.
    #[tokio::test]
    async fn short_responses_are_not_detached() {
        let takeover = Takeover::default();
        let older = takeover.of(Version::HTTP_10, make_detachable(Response::default(), events()));
        let short = takeover.of(Version::HTTP_11, Response::new(Body::from("short")));
        takeover.write_complete.store(true, Ordering::Relaxed);
        assert!(takeover.take().is_none());
        assert_eq!((text(older).await, text(short).await), ("ab".into(), "short".into()));
    }

    /// A detached stream ends when its events end or when its client disconnects.
    #[tokio::test]
    async fn detached_stream_ends_with_client() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connected = async || {
            let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            (client.unwrap(), accepted.unwrap().0)
        };
        let (mut client, socket) = connected().await;
        write_events(socket, events()).await.unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
        let (client, socket) = connected().await;
        drop(client);
        write_events(socket, stream::pending().boxed()).await.unwrap();
    }

    /// A body whose connection was not detached sends the events itself.
    #[tokio::test]
    async fn attached_body_still_has_events() {
        assert_eq!(text(make_detachable(Response::default(), events())).await, "ab");
    }
}
