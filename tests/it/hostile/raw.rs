//! [`RawConnection`]: a connection that can send any bytes, from any local address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Timeout for anything that the server must do. Its own limits are far shorter in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A 2026-07-28 message that lists the tools.
pub(crate) const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A connection.
pub(crate) struct RawConnection {
    pub(crate) stream: TcpStream,
}

/// A response that was read completely.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Returns the address of the server in a URL.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once("://").unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

impl RawConnection {
    pub(crate) async fn open(url: &str) -> Self {
        Self::open_from(url, [127, 0, 0, 1].into()).await
    }

    /// Connects from this local address.
    pub(crate) async fn open_from(url: &str, from: Ipv4Addr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(from), 0)).unwrap();
        Self { stream: socket.connect(address(url)).await.unwrap() }
    }

    /// Connects with a small receive buffer.
    pub(crate) async fn with_small_buffer(url: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        Self { stream: socket.connect(address(url)).await.unwrap() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends a GET request and returns the response.
    pub(crate) async fn get(&mut self, path: &str) -> Option<RawResponse> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        self.read_response().await
    }

    /// Sends a message with the headers that a client needs.
    pub(crate) async fn post(&mut self, message: &str) -> RawResponse {
        self.send(post(message)).await;
        self.read_response().await.expect("a message is answered")
    }

    /// Reads one response; `None` if the connection ends in any way before it is complete.
    pub(crate) async fn read_response(&mut self) -> Option<RawResponse> {
        let mut received = Vec::new();
        let end = loop {
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.read_more(&mut received).await?;
        };
        let head = String::from_utf8(received[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let value = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(key, _)| *key == name)
                .map(|(_, v)| v)
        };
        let length: usize = value("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = received.split_off(end + 4);
        while body.len() < length {
            self.read_more(&mut body).await?;
        }
        Some(RawResponse { status, body: String::from_utf8(body).unwrap() })
    }

    /// Reads the head of the next response.
    pub(crate) async fn read_head(&mut self) -> String {
        let mut received = Vec::new();
        while !received.windows(4).any(|four| four == b"\r\n\r\n") {
            self.read_more(&mut received).await.expect("a head comes");
        }
        String::from_utf8_lossy(&received).into_owned()
    }

    async fn read_more(&mut self, received: &mut Vec<u8>) -> Option<()> {
        let read = timeout(TIMEOUT, self.stream.read_buf(received)).await.expect("the server does something");
        // A connection that is closed while data is in transit is reset.
        matches!(read, Ok(n) if n > 0).then_some(())
    }

    /// Waits until the server closes the connection, and returns what it sent until then.
    pub(crate) async fn read_to_end(mut self) -> String {
        let mut received = Vec::new();
        while self.read_more(&mut received).await.is_some() {}
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Returns true if the server closes the connection without sending anything.
    pub(crate) async fn closes_silently(self) -> bool {
        self.read_to_end().await.is_empty()
    }
}

impl RawResponse {
    /// Returns the code and the message of the JSON-RPC error in the body.
    pub(crate) fn error(&self) -> (i64, String) {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"));
        let error = &body["error"];
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }
}

/// Returns a POST request with a 2026-07-28 message.
pub(crate) fn post(message: &str) -> String {
    let parsed: Value = serde_json::from_str(message).unwrap_or_default();
    let method = parsed["method"].as_str().unwrap_or("tools/list");
    let params = &parsed["params"];
    let name = ["name", "uri", "taskId"].iter().find_map(|field| params[*field].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{message}",
        message.len()
    )
}
