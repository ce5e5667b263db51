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
    ErrorResponse(u16, &'static str, &'static str),
    /// The request is answered with this body.
    Response(serde_json::Value),
    /// The request is answered with an empty list and this HTTP date.
    DatedResponse(&'static str),
    /// The request is not answered.
    NoResponse,
}

/// Recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Such as `StartExecution`.
    pub(crate) operation: String,
    /// In lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct ProxyState {
    faults: HashMap<&'static str, Vec<Fault>>,
    requests: Vec<RecordedRequest>,
}

/// Proxy. It stops when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<Mutex<ProxyState>>,
    _server: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<ProxyState>> = Arc::default();
        let mut server = JoinSet::new();
        let shared = state.clone();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let state = shared.clone();
                // A client that disconnects early is not an error.
                connections.spawn(async move { drop(serve(client, upstream, &state).await) });
            }
        });
        Self { port, state, _server: server }
    }

    /// Makes the next request of this operation fail.
    pub(crate) fn inject(&self, operation: &'static str, fault: Fault) {
        self.state.lock().faults.entry(operation).or_default().push(fault);
    }

    /// Returns the requests since the last call of this function.
    pub(crate) fn take_requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.state.lock().requests)
    }

    /// Returns the number of requests per operation since the last call of this function.
    pub(crate) fn take_counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for request in self.take_requests() {
            *counts.entry(request.operation).or_default() += 1;
        }
        counts
    }
}

/// Serves one request. The connection is then closed, so that each request has its own.
async fn serve(mut client: TcpStream, upstream: u16, state: &Mutex<ProxyState>) -> io::Result<()> {
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
        let mut state = state.lock();
        state.requests.push(RecordedRequest {
            operation: operation.to_owned(),
            headers: headers.clone(),
            body: body.clone(),
        });
        state.faults.get_mut(operation).filter(|faults| !faults.is_empty()).map(|faults| faults.remove(0))
    };
    let injected_response = match &fault {
        Some(Fault::ErrorResponse(status, code, message)) => {
            Some((*status, serde_json::json!({"__type": code, "message": message})))
        }
        Some(Fault::Response(body)) => Some((200, body.clone())),
        Some(Fault::DatedResponse(_)) => Some((200, serde_json::json!({"stateMachines": []}))),
        _ => None,
    };
    if let Some((status, body)) = injected_response {
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
            Some(Fault::DatedResponse(date)) => format!("date: {date}\r\n"),
            _ => String::new(),
        };
        let response = format!(
            "HTTP/1.1 {status} injected\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n{date}connection: \
             close\r\n\r\n{body}",
            body.len()
        );
        return client.write_all(response.as_bytes()).await;
    }
    if let Some(Fault::NoResponse) = fault {
        // Waits until the client disconnects.
        return client.read(&mut [0]).await.map(drop);
    }
    let mut server = TcpStream::connect(("127.0.0.1", upstream)).await?;
    let forwarded = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = forwarded.flat_map(|line| [line, "\r\n"]).collect();
    request.push_str("connection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    server.write_all(&body).await?;
    let mut response = Vec::new();
    server.read_to_end(&mut response).await?;
    match fault {
        Some(Fault::ReplyLost) => Ok(()),
        _ => client.write_all(&response).await,
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
