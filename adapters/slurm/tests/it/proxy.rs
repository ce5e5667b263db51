//! A proxy before slurmrestd, on a unix socket or on TCP as that is: it counts requests, loses replies and answers in its place. It
//! must not know what a request means.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

/// What happens to one request instead of what should.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is served, and the reply is lost.
    ReplyLost,
    /// It is not served, and answered with this status and JSON.
    Answered(u16, &'static str),
}

#[derive(Default)]
struct Shared {
    /// For requests whose first line holds these words.
    faults: Vec<(String, VecDeque<Fault>)>,
    /// The first lines of requests, and the statuses that they were answered with.
    seen: Vec<(String, u16)>,
}

pub(crate) struct Proxy {
    shared: Arc<Mutex<Shared>>,
    /// Where it listens: as `rest.socket` or `rest.url` has it.
    pub(crate) place: String,
    _running: JoinSet<()>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Proxy {
    /// Before the socket of a slurmrestd, in this folder.
    pub(crate) async fn on_socket(upstream: &Path, folder: &Path) -> Self {
        let path = folder.join("rest.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let upstream = upstream.to_owned();
        let connect = move || {
            let upstream = upstream.clone();
            async move { Ok(Box::new(UnixStream::connect(upstream).await?) as Box<dyn Stream>) }
        };
        let shared = Arc::<Mutex<Shared>>::default();
        let mut running = JoinSet::new();
        let inner = shared.clone();
        running.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (shared, connect) = (inner.clone(), connect.clone());
                open.spawn(async move { drop(serve(Box::new(client), connect, &shared).await) });
            }
        });
        Self { shared, place: path.to_str().unwrap().to_owned(), _running: running }
    }

    /// Before the port of a slurmrestd.
    pub(crate) async fn on_tcp(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = format!("http://{}", listener.local_addr().unwrap());
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let connect = move || {
            let upstream = upstream.clone();
            async move { Ok(Box::new(TcpStream::connect(upstream).await?) as Box<dyn Stream>) }
        };
        let shared = Arc::<Mutex<Shared>>::default();
        let mut running = JoinSet::new();
        let inner = shared.clone();
        running.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (shared, connect) = (inner.clone(), connect.clone());
                open.spawn(async move { drop(serve(Box::new(client), connect, &shared).await) });
            }
        });
        Self { shared, place, _running: running }
    }

    /// Has the next request go wrong whose first line holds these words.
    pub(crate) fn make(&self, words: &str, fault: Fault) {
        let mut shared = self.shared.lock().unwrap();
        match shared.faults.iter_mut().find(|(known, _)| known == words) {
            Some((_, faults)) => faults.push_back(fault),
            None => shared.faults.push((words.to_owned(), VecDeque::from([fault]))),
        }
    }

    /// What was asked since the last time, and how it was answered; 0 for a reply that was lost.
    pub(crate) fn seen(&self) -> Vec<(String, u16)> {
        std::mem::take(&mut self.shared.lock().unwrap().seen)
    }
}

/// The requests of a connection, one after the other. It stays open as slurmrestd's own would: a client that has just been told so
/// may send its next request at any moment, and would see that break.
async fn serve<F: Future<Output = io::Result<Box<dyn Stream>>>>(
    mut client: Box<dyn Stream>,
    connect: impl Fn() -> F,
    shared: &Mutex<Shared>,
) -> io::Result<()> {
    loop {
        let request = message(&mut client).await?;
        if request.is_empty() || !reply(&mut client, &request, &connect, shared).await? {
            return Ok(());
        }
    }
}

/// Replies to a request. False if the connection ends with it.
async fn reply<F: Future<Output = io::Result<Box<dyn Stream>>>>(
    client: &mut Box<dyn Stream>,
    request: &[u8],
    connect: &impl Fn() -> F,
    shared: &Mutex<Shared>,
) -> io::Result<bool> {
    let line =
        String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    let fault = {
        let mut shared = shared.lock().unwrap();
        shared
            .faults
            .iter_mut()
            .find(|(words, faults)| line.contains(words.as_str()) && !faults.is_empty())
            .and_then(|(_, faults)| faults.pop_front())
    };
    let reply = match &fault {
        Some(Fault::Answered(status, body)) => format!(
            "HTTP/1.1 {status} told\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
        _ => {
            let mut upstream = connect().await?;
            upstream.write_all(request).await?;
            message(&mut upstream).await?
        }
    };
    let lost = matches!(fault, Some(Fault::ReplyLost));
    let status =
        String::from_utf8_lossy(&reply).split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    shared.lock().unwrap().seen.push((line, if lost { 0 } else { status }));
    if !lost {
        client.write_all(&reply).await?;
    }
    Ok(fault.is_none())
}

/// One HTTP message, whole: as many bytes as its head says.
async fn message(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut wanted = usize::MAX;
    while bytes.len() < wanted {
        let mut part = [0; 65536];
        let read = stream.read(&mut part).await?;
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..read]);
        if wanted == usize::MAX {
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
                });
                wanted = head.len() + 4 + length.unwrap_or(0);
            }
        }
    }
    Ok(bytes)
}
