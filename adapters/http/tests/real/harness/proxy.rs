//! [`Proxy`]: forwards requests to an engine, one for each connection, and replaces a chosen one by a fault.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The engine receives it, and its reply is lost.
    ReplyLost,
    /// The engine does not receive it. The reply has this status and no body.
    Status(u16),
}

/// Fault of the next request whose first line contains a text.
type Planned = Arc<Mutex<Vec<(&'static str, Fault)>>>;

/// The proxy. It ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    planned: Planned,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(engine: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let planned = Planned::default();
        let faults = Arc::clone(&planned);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, engine, Arc::clone(&faults)));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, planned, _tasks: tasks }
    }

    /// Plans a fault for the next request whose first line, such as `GET /path HTTP/1.1`, contains the text.
    pub(crate) fn inject(&self, text: &'static str, fault: Fault) {
        self.planned.lock().push((text, fault));
    }
}

async fn serve(mut client: TcpStream, engine: u16, planned: Planned) {
    let Some(request) = read_message(&mut client, false).await else { return };
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let fault = {
        let mut planned = planned.lock();
        let at = planned.iter().position(|(text, _)| line.contains(text));
        at.map(|at| planned.remove(at).1)
    };
    let reply = match fault {
        Some(Fault::Status(status)) => {
            format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
        }
        Some(Fault::ReplyLost) => {
            forward(engine, &request).await;
            return;
        }
        None => forward(engine, &request).await.unwrap_or_default(),
    };
    let _ = client.write_all(&reply).await;
    let _ = client.shutdown().await;
}

/// Sends a request over a connection of its own, and returns the whole reply.
async fn forward(engine: u16, request: &[u8]) -> Option<Vec<u8>> {
    let mut engine = TcpStream::connect(("127.0.0.1", engine)).await.ok()?;
    let end = request.windows(2).position(|pair| pair == b"\r\n")? + 2;
    engine.write_all(&request[..end]).await.ok()?;
    engine.write_all(b"connection: close\r\n").await.ok()?;
    engine.write_all(&request[end..]).await.ok()?;
    let mut reply = read_message(&mut engine, true).await?;
    let end = reply.windows(2).position(|pair| pair == b"\r\n")? + 2;
    if !String::from_utf8_lossy(&reply[..reply.len().min(4096)])
        .to_lowercase()
        .contains("\r\nconnection: close")
    {
        reply.splice(end..end, *b"connection: close\r\n");
    }
    Some(reply)
}

/// Reads a request or a reply with its body. A reply without a length ends with its connection. With a length,
/// the connection may stay open: a job of Toil is a child of the server, and has its open connections.
pub(crate) async fn read_message(stream: &mut TcpStream, is_reply: bool) -> Option<Vec<u8>> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length: Option<usize> =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if length.map_or(!is_reply, |length| bytes.len() >= end + 4 + length) {
                return Some(bytes);
            }
        }
        match stream.read(&mut chunk).await.ok()? {
            0 => return is_reply.then_some(bytes),
            read => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
