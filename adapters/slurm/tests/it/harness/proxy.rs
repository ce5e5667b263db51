//! A proxy in front of slurmrestd, on a Unix socket or on TCP. It counts requests, drops responses and
//! answers in slurmrestd's place. It must not know what a request means.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

/// A fault for one request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The request is processed, and the response is lost.
    ReplyLost,
    /// The request is not processed, and gets this status and JSON.
    Response(u16, &'static str),
}

#[derive(Default)]
struct Shared {
    /// Faults for requests whose first line contains these words.
    faults: Vec<(String, VecDeque<Fault>)>,
    /// The first lines of requests, and the status codes of the responses.
    requests: Vec<(String, u16)>,
}

pub(crate) struct Proxy {
    shared: Arc<Mutex<Shared>>,
    /// The proxy's address, in the format of `rest.socket` or `rest.url`.
    pub(crate) address: String,
    _running: JoinSet<()>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Proxy {
    /// Starts a proxy for the socket of a slurmrestd, in this folder.
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
        Self { shared, address: path.to_str().unwrap().to_owned(), _running: running }
    }

    /// Starts a proxy for the port of a slurmrestd.
    pub(crate) async fn on_tcp(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
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
        Self { shared, address, _running: running }
    }

    /// Injects a fault into the next request whose first line contains these words.
    pub(crate) fn inject(&self, pattern: &str, fault: Fault) {
        let mut shared = self.shared.lock().unwrap();
        match shared.faults.iter_mut().find(|(existing, _)| existing == pattern) {
            Some((_, faults)) => faults.push_back(fault),
            None => shared.faults.push((pattern.to_owned(), VecDeque::from([fault]))),
        }
    }

    /// Returns the requests since the last call, with their status codes; 0 for a lost response.
    pub(crate) fn take_requests(&self) -> Vec<(String, u16)> {
        std::mem::take(&mut self.shared.lock().unwrap().requests)
    }
}

/// Serves the requests of a connection, one after the other. The connection stays open, like slurmrestd's
/// own: a client may send its next request at any time after a response, and would otherwise see an error.
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

/// Responds to a request. Returns false if the connection ends with it.
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
            .find(|(pattern, faults)| line.contains(pattern.as_str()) && !faults.is_empty())
            .and_then(|(_, faults)| faults.pop_front())
    };
    let reply = match &fault {
        Some(Fault::Response(status, body)) => format!(
            "HTTP/1.1 {status} injected\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
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
    shared.lock().unwrap().requests.push((line, if lost { 0 } else { status }));
    if !lost {
        client.write_all(&reply).await?;
    }
    Ok(fault.is_none())
}

/// Reads one HTTP message completely, according to its `content-length`.
async fn message(stream: &mut Box<dyn Stream>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut total_length = usize::MAX;
    while bytes.len() < total_length {
        let mut part = [0; 65536];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&part[..count]);
        if total_length == usize::MAX {
            let text = String::from_utf8_lossy(&bytes);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
                });
                total_length = head.len() + 4 + length.unwrap_or(0);
            }
        }
    }
    Ok(bytes)
}
