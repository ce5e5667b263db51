//! [`TestServer`]: a server that sends exactly the bytes that a test gives, and records what it receives.

mod certainty;
mod limits;
mod redirects;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{Client, NetConfig, Reply, Request, SendError};

/// Timeout of requests whose end does not depend on it.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Limit on replies, unless a test sets another.
pub(crate) const MAX_REPLY: u64 = 64 * 1024;

/// What the server does with one request, whose head and body it gets.
type Answer = dyn Fn(&Received) -> Step + Send + Sync;

/// Reply of the server.
pub(crate) enum Step {
    /// Sends these bytes and closes the connection.
    Send(Vec<u8>),
    /// Closes the connection without a reply.
    Close,
    /// Sends these bytes again and again, until the client is gone.
    Repeat(Vec<u8>, Vec<u8>),
    /// Sends these bytes, and then nothing, with an open connection.
    Hang(Vec<u8>),
}

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Method and path, such as `GET /x`.
    pub(crate) line: String,
    head: String,
    pub(crate) body: String,
}

impl Received {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// The server. It ends when it is dropped.
pub(crate) struct TestServer {
    pub(crate) url: Url,
    received: Arc<Mutex<Vec<Received>>>,
    _tasks: JoinSet<()>,
}

impl TestServer {
    pub(crate) async fn start(answer: impl Fn(&Received) -> Step + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, answer): (_, Arc<Answer>) = (Arc::clone(&received), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, Arc::clone(&log), Arc::clone(&answer)));
            }
        });
        Self { url, received, _tasks: tasks }
    }

    /// Returns all requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    /// Returns a client for this server.
    pub(crate) fn client(&self) -> Client {
        Client::new(&NetConfig::new(self.url.clone())).unwrap()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        request(method, self.url.join(path).unwrap())
    }
}

async fn serve(mut connection: TcpStream, log: Arc<Mutex<Vec<Received>>>, answer: Arc<Answer>) {
    let Some(received) = read_request(&mut connection).await else { return };
    log.lock().push(received.clone());
    match answer(&received) {
        Step::Send(bytes) => drop(connection.write_all(&bytes).await),
        Step::Close => {}
        Step::Repeat(first, again) => {
            let mut result = connection.write_all(&first).await;
            while result.is_ok() {
                result = connection.write_all(&again).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Step::Hang(bytes) => {
            let _ = connection.write_all(&bytes).await;
            // Ends when the client closes its side.
            while connection.read(&mut [0; 64]).await.is_ok_and(|length| length > 0) {}
        }
    }
}

async fn read_request(connection: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = [0; 4096];
        let length = connection.read(&mut chunk).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&chunk[..length]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let mut received = Received { line, head, body: String::new() };
    let length: usize = received.header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = bytes.split_off(end);
    while body.len() < length {
        let mut chunk = [0; 4096];
        let read = connection.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        body.extend_from_slice(&chunk[..read]);
    }
    received.body = String::from_utf8_lossy(&body).into_owned();
    Some(received)
}

pub(crate) fn request(method: Method, url: Url) -> Request {
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    Request { method, url, headers, body, max_reply: MAX_REPLY, timeout: LONG, follow: true, download: false }
}

/// Returns a reply with a body.
pub(crate) fn reply(status: u16, headers: &str, body: &str) -> Step {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    Step::Send(text.into_bytes())
}

/// Sends one GET to a server that answers with these steps.
async fn get(answer: impl Fn(&Received) -> Step + Send + Sync + 'static) -> Result<Reply, SendError> {
    let server = TestServer::start(answer).await;
    server.client().send(server.request(Method::GET, "/x")).await
}
