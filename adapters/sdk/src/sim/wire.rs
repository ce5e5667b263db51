//! Wire protocol of the simulated engine: one JSON object per line in each direction over TCP, with one reply
//! per request, in order.
//!
//! ```text
//! -> {"request":{"do":"start","key":"tb-...","target":{"delay_ms":50,...},"may_exist":false}}
//! <- {"reply":{"started":{"handle":"0.tb-...","first":null}}}
//! -> {"request":{"do":"observe","handles":["0.tb-..."]}}
//! <- {"error":{"kind":"unavailable","message":"..."}}
//! -> {"control":{"do":"counts","key":"tb-..."}}
//! <- {"counts":{"mode":"keyed","running":1,"total_starts":1,"starts":1}}
//! ```
//!
//! A lost reply closes the connection. There is no authentication: use it on loopback only.

use std::io;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::request::{Reply, Request};
use super::{Fault, Mode, Operation, SimEngine};
use crate::{DiscoveredTool, Error, ErrorKind, JobKey};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of open connections. Further clients wait until they are accepted.
const CONNECTIONS: usize = 512;

/// Message of a client.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// Request of a backend. Faults apply to it.
    Request(Request),
    /// Direct access of a test to the engine. Faults do not apply to it.
    Control(Control),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Control {
    Counts { key: Option<JobKey> },
    Inject { operation: Operation, fault: Fault },
    Outage { on: bool },
    Offer { tools: Vec<DiscoveredTool> },
    Hasten,
}

/// Message of the engine.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EngineMessage {
    Reply(Reply),
    Error {
        kind: ErrorKind,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<Duration>,
    },
    Counts(Counts),
}

/// Counters of an engine, as a [`super::SimClient`] reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How the engine handles a key that it knows.
    pub mode: Mode,
    /// How many jobs have not ended.
    pub running: usize,
    /// How many jobs were accepted in total.
    pub total_starts: u64,
    /// How many of the remembered jobs were accepted under the requested key.
    pub starts: usize,
}

/// Serves an engine to all clients. It returns only if the listener fails.
pub async fn serve(listener: TcpListener, engine: SimEngine) -> io::Error {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => connections.push(serve_connection(stream, engine.clone())),
                // The client gave up before it was accepted.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => return e,
            },
            // The client notices how its connection ended.
            Some(_) = connections.next(), if !connections.is_empty() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, engine: SimEngine) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let message = match receive::<Message>(&mut stream).await {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(()),
            Err(e) => {
                let response = EngineMessage::Error {
                    kind: ErrorKind::Rejected,
                    message: format!("not a request: {e}"),
                    retry_after: None,
                };
                return send(&mut stream, &response).await;
            }
        };
        let response = match message {
            Message::Control(control) => apply_control(&engine, control),
            Message::Request(request) => match engine.call(request).await {
                Some(Ok(reply)) => EngineMessage::Reply(reply),
                Some(Err(error)) => EngineMessage::Error {
                    kind: error.kind(),
                    message: error.to_string(),
                    retry_after: error.retry_after(),
                },
                None => return Ok(()),
            },
        };
        send(&mut stream, &response).await?;
    }
}

fn apply_control(engine: &SimEngine, control: Control) -> EngineMessage {
    let mut starts = 0;
    match control {
        Control::Counts { key } => starts = key.map_or(0, |key| engine.starts(&key)),
        Control::Inject { operation, fault } => engine.inject(operation, fault),
        Control::Outage { on } => engine.set_outage(on),
        Control::Offer { tools } => engine.offer(tools),
        Control::Hasten => engine.hasten(),
    }
    EngineMessage::Counts(Counts {
        mode: engine.mode(),
        running: engine.running().len(),
        total_starts: engine.total_starts(),
        starts,
    })
}

impl EngineMessage {
    /// Converts the message into the reply of a backend request. Returns `None` for counters.
    pub(super) fn into_reply(self) -> Option<crate::Result<Reply>> {
        match self {
            EngineMessage::Reply(reply) => Some(Ok(reply)),
            EngineMessage::Error { kind, message, retry_after } => {
                let error = Error::new(kind, message);
                Some(Err(retry_after.into_iter().fold(error, Error::with_retry_after)))
            }
            EngineMessage::Counts(_) => None,
        }
    }
}

/// Writes one line.
pub(super) async fn send(stream: &mut BufReader<TcpStream>, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads one line; `None` if the other side has closed.
pub(super) async fn receive<T: DeserializeOwned>(stream: &mut BufReader<TcpStream>) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    (&mut *stream).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        return match line.len() {
            0 => Ok(None),
            n => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a line of {n} bytes does not end with a newline"),
            )),
        };
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
