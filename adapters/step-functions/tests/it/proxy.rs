//! Proxy between the adapter and an emulator. It counts requests, and makes the next request of an operation
//! fail.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Outcome of a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The request is served, and its response is lost.
    ReplyLost,
    /// The request is refused with a status, a code and a message.
    Answered(u16, &'static str, &'static str),
    /// The request is answered with this body.
    Told(serde_json::Value),
    /// The request is answered with an empty list and this HTTP date.
    Dated(&'static str),
    /// The request is not answered.
    Silent,
}

/// Recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Such as `StartExecution`.
    pub(crate) operation: String,
    /// In lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    faults: HashMap<&'static str, Vec<Fault>>,
    asked: Vec<Asked>,
}

/// Proxy. It stops when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
    _serving: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn before(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let mut serving = JoinSet::new();
        let shared = seen.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let seen = shared.clone();
                // A client that disconnects early is not an error.
                connections.spawn(async move { drop(serve(client, upstream, &seen).await) });
            }
        });
        Self { port, seen, _serving: serving }
    }

    /// Makes the next request of this operation fail.
    pub(crate) fn make(&self, operation: &'static str, fault: Fault) {
        self.seen.lock().faults.entry(operation).or_default().push(fault);
    }

    /// Returns the requests since the last call of this function.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.seen.lock().asked)
    }

    /// Returns the number of requests per operation since the last call of this function.
    pub(crate) fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for asked in self.asked() {
            *counts.entry(asked.operation).or_default() += 1;
        }
        counts
    }
}

/// Serves one request. The connection is then closed, so that each request has its own.
async fn serve(mut client: TcpStream, upstream: u16, seen: &Mutex<Seen>) -> io::Result<()> {
    let Some((head, body)) = read(&mut client).await? else { return Ok(()) };
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let operation =
        headers.get("x-amz-target").and_then(|target| target.rsplit('.').next()).unwrap_or_default();
    let fault = {
        let mut seen = seen.lock();
        seen.asked.push(Asked {
            operation: operation.to_owned(),
            headers: headers.clone(),
            body: body.clone(),
        });
        seen.faults.get_mut(operation).filter(|faults| !faults.is_empty()).map(|faults| faults.remove(0))
    };
    let told = match &fault {
        Some(Fault::Answered(status, code, message)) => {
            Some((*status, serde_json::json!({"__type": code, "message": message})))
        }
        Some(Fault::Told(body)) => Some((200, body.clone())),
        Some(Fault::Dated(_)) => Some((200, serde_json::json!({"stateMachines": []}))),
        _ => None,
    };
    if let Some((status, body)) = told {
        // A request without a target goes to the Security Token Service, which uses XML.
        let body = match operation {
            "" => format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>",
                body["__type"].as_str().unwrap_or_default(),
                body["message"].as_str().unwrap_or_default()
            ),
            _ => body.to_string(),
        };
        let date = match fault {
            Some(Fault::Dated(date)) => format!("date: {date}\r\n"),
            _ => String::new(),
        };
        let answer = format!(
            "HTTP/1.1 {status} told\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n{date}connection: \
             close\r\n\r\n{body}",
            body.len()
        );
        return client.write_all(answer.as_bytes()).await;
    }
    if let Some(Fault::Silent) = fault {
        // Waits until the client disconnects.
        return client.read(&mut [0]).await.map(drop);
    }
    let mut server = TcpStream::connect(("127.0.0.1", upstream)).await?;
    let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    request.push_str("connection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    server.write_all(&body).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    match fault {
        Some(Fault::ReplyLost) => Ok(()),
        _ => client.write_all(&answer).await,
    }
}

/// Reads a request: its head without the empty line, and its body.
async fn read(client: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            let mut body = bytes.split_off(end + 4);
            let length: usize = length.unwrap_or(0);
            let missing = length.saturating_sub(body.len());
            let mut rest = vec![0; missing];
            client.read_exact(&mut rest).await?;
            body.extend(rest);
            return Ok(Some((head, body)));
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}
