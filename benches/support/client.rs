//! A minimal HTTP/1.1 client: one persistent connection, one request at a time. It supports only the HTTP
//! features of these responses: a length or chunks, JSON or a finite stream of events.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Result;
use super::wire::{self, Generation, Request};

/// A connection, with a session where the generation has sessions.
pub(crate) struct Connection {
    stream: TcpStream,
    session: Option<String>,
    next_id: u64,
    request: Vec<u8>,
    received: Vec<u8>,
    answer: String,
}

/// The relevant fields of a response's head.
#[derive(Default)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    events: bool,
    session: Option<String>,
}

impl Connection {
    /// Connects, and opens a session where the generation has sessions.
    pub(crate) async fn open(address: SocketAddr, generation: Generation) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            session: None,
            next_id: 0,
            request: Vec::new(),
            received: Vec::new(),
            answer: String::new(),
        };
        if generation == Generation::V2025 {
            connection.begin_session().await?;
        }
        Ok(connection)
    }

    /// Opens a new session on this connection. The previous session is not closed.
    pub(crate) async fn begin_session(&mut self) -> Result<()> {
        self.session = None;
        let head = self.exchange("", wire::INITIALIZE).await?;
        let session = head.session.ok_or("initialize was answered without a session id")?;
        self.session = Some(session);
        self.exchange(&self.of_session(), wire::INITIALIZED).await?;
        Ok(())
    }

    /// Returns the id of the next request.
    pub(crate) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Sends a request and returns its response. Fails if the response is an error.
    pub(crate) async fn call(&mut self, request: &Request) -> Result<&str> {
        let headers = match request.generation {
            Generation::V2025 => self.of_session(),
            Generation::V2026 => format!(
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {}\r\nMcp-Name: {}\r\n",
                request.method, request.name
            ),
        };
        let head = self.exchange(&headers, &request.body).await?;
        if head.events {
            // The response is the last event of its stream.
            let start = self.answer.rfind("data: ").ok_or("a stream without an answer")? + "data: ".len();
            self.answer.drain(..start);
        }
        wire::check(&self.answer)?;
        Ok(&self.answer)
    }

    /// Sends a request and does not wait. The response stays pending while the connection is open.
    pub(crate) async fn send(&mut self, request: &Request) -> Result<()> {
        self.write("POST", &self.of_session(), &request.body).await
    }

    /// Opens the stream for a session's unsolicited messages.
    pub(crate) async fn listen(&mut self) -> Result<()> {
        self.write("GET", &self.of_session(), "").await?;
        match self.head().await?.status {
            200 => Ok(()),
            status => Err(format!("the server answers a listener with {status}").into()),
        }
    }

    /// Returns the headers of a message in the session.
    fn of_session(&self) -> String {
        let session = self.session.as_deref().unwrap_or_default();
        format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n")
    }

    async fn write(&mut self, method: &str, headers: &str, message: &str) -> Result<()> {
        self.request.clear();
        let line = format!("{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n");
        self.request.extend_from_slice(line.as_bytes());
        self.request.extend_from_slice(b"Accept: application/json, text/event-stream\r\n");
        self.request.extend_from_slice(headers.as_bytes());
        self.request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes());
        self.request.extend_from_slice(message.as_bytes());
        Ok(self.stream.write_all(&self.request).await?)
    }

    async fn exchange(&mut self, headers: &str, message: &str) -> Result<Head> {
        self.write("POST", headers, message).await?;
        let head = self.head().await?;
        self.body(&head).await?;
        if !(200..300).contains(&head.status) {
            return Err(format!("the server answers {message} with {}: {}", head.status, self.answer).into());
        }
        Ok(head)
    }

    async fn head(&mut self) -> Result<Head> {
        let end = loop {
            if let Some(end) = find(&self.received, b"\r\n\r\n") {
                break end;
            }
            self.receive().await?;
        };
        let text = std::str::from_utf8(&self.received[..end])?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or("no status line")?;
        let mut head = Head { status: status.parse()?, ..Head::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            match name {
                "content-length" => head.length = Some(value.parse()?),
                "transfer-encoding" => head.chunked = value == "chunked",
                "content-type" => head.events = value.starts_with("text/event-stream"),
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        self.received.drain(..end + 4);
        Ok(head)
    }

    /// Reads the body into `answer`.
    async fn body(&mut self, head: &Head) -> Result<()> {
        self.answer.clear();
        if !head.chunked {
            return self.take(head.length.unwrap_or(0)).await;
        }
        loop {
            let end = loop {
                if let Some(end) = find(&self.received, b"\r\n") {
                    break end;
                }
                self.receive().await?;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.received[..end])?, 16)?;
            self.received.drain(..end + 2);
            self.take(size).await?;
            while self.received.len() < 2 {
                self.receive().await?;
            }
            self.received.drain(..2);
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// Moves this number of bytes to `answer`.
    async fn take(&mut self, bytes: usize) -> Result<()> {
        while self.received.len() < bytes {
            self.receive().await?;
        }
        self.answer.push_str(std::str::from_utf8(&self.received[..bytes])?);
        self.received.drain(..bytes);
        Ok(())
    }

    async fn receive(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}
