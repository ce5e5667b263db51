//! [`SimClient`]: a client of a simulated engine in another process. It makes one attempt per request. It
//! must not keep state, except idle connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::backend::BackendSettings;
use super::request::{Reply, Request};
use super::wire::{self, Control, Counts, EngineMessage, Message};
use super::{Config, Fault, Operation, SimBackend};
use crate::{DiscoveredTool, Error, JobKey, Result};

/// Maximum number of connections per client.
const CONNECTIONS: usize = 32;

/// Client of a simulated engine in another process. Clones share their connections.
#[derive(Clone)]
pub struct SimClient(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
    permits: Semaphore,
}

/// Failure of an exchange that got no reply.
enum ExchangeError {
    /// The client sent nothing.
    Before(io::Error),
    /// The request may have arrived.
    After(io::Error),
}

impl SimClient {
    /// Creates a client for the engine at this address. It does not connect yet.
    pub fn new(address: SocketAddr) -> Self {
        let permits = Semaphore::new(CONNECTIONS);
        Self(Arc::new(Shared { address, idle: Mutex::default(), permits }))
    }

    /// Creates a backend for this engine.
    pub fn backend(&self) -> Arc<SimBackend> {
        Arc::new(self.backend_for(BackendSettings::default()))
    }

    /// Creates a backend for this engine, with the backend settings of a config.
    pub fn backend_as(&self, config: &Config) -> Arc<SimBackend> {
        Arc::new(self.backend_for(BackendSettings::of(config)))
    }

    /// Creates a backend for this engine, with these backend settings.
    pub(super) fn backend_for(&self, settings: BackendSettings) -> SimBackend {
        SimBackend::of_client(self.clone(), settings)
    }

    /// Returns the counters of the engine. `starts` counts only this key.
    ///
    /// # Errors
    /// Returns `Unavailable` if the engine's process cannot be reached.
    pub async fn counts(&self, key: Option<&JobKey>) -> Result<Counts> {
        self.control(Control::Counts { key: key.cloned() }).await
    }

    /// Calls [`super::SimEngine::inject`] in the engine's process.
    ///
    /// # Errors
    /// Returns `Unavailable` if the engine's process cannot be reached.
    pub async fn inject(&self, operation: Operation, fault: Fault) -> Result<()> {
        self.control(Control::Inject { operation, fault }).await.map(drop)
    }

    /// Calls [`super::SimEngine::set_outage`] in the engine's process.
    ///
    /// # Errors
    /// Returns `Unavailable` if the engine's process cannot be reached.
    pub async fn set_outage(&self, on: bool) -> Result<()> {
        self.control(Control::Outage { on }).await.map(drop)
    }

    /// Calls [`super::SimEngine::offer`] in the engine's process.
    ///
    /// # Errors
    /// Returns `Unavailable` if the engine's process cannot be reached.
    pub async fn offer(&self, tools: Vec<DiscoveredTool>) -> Result<()> {
        self.control(Control::Offer { tools }).await.map(drop)
    }

    async fn control(&self, control: Control) -> Result<Counts> {
        match self.exchange(&Message::Control(control)).await {
            Ok(EngineMessage::Counts(counts)) => Ok(counts),
            Ok(_) => Err(Error::unavailable("the reply of the simulated engine does not match the request")),
            Err(ExchangeError::Before(e) | ExchangeError::After(e)) => Err(self.unreachable(e)),
        }
    }

    /// Sends one request. Returns `None` if the reply is lost.
    pub(super) async fn call(&self, request: Request) -> Option<Result<Reply>> {
        match self.exchange(&Message::Request(request)).await {
            Ok(response) => response.into_reply(),
            Err(ExchangeError::Before(e)) => Some(Err(self.unreachable(e))),
            Err(ExchangeError::After(_)) => None,
        }
    }

    fn unreachable(&self, cause: io::Error) -> Error {
        let address = self.0.address;
        Error::unavailable(format!("the simulated engine at {address} cannot be reached")).caused_by(cause)
    }

    /// Sends one line and reads one. If the caller drops the future during an exchange, the connection
    /// closes.
    async fn exchange(&self, message: &Message) -> Result<EngineMessage, ExchangeError> {
        let _permit =
            self.0.permits.acquire().await.map_err(|e| ExchangeError::Before(io::Error::other(e)))?;
        let mut stream = self.connection().await.map_err(ExchangeError::Before)?;
        wire::send(&mut stream, message).await.map_err(ExchangeError::After)?;
        let response = wire::receive(&mut stream).await.map_err(ExchangeError::After)?;
        let response = response.ok_or_else(|| ExchangeError::After(io::ErrorKind::UnexpectedEof.into()))?;
        self.0.idle.lock().push(stream);
        Ok(response)
    }

    /// Returns an idle connection that the engine has not closed, or a new one.
    async fn connection(&self) -> io::Result<BufReader<TcpStream>> {
        loop {
            let Some(stream) = self.0.idle.lock().pop() else { break };
            match stream.get_ref().try_read(&mut [0]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(stream),
                Ok(_) | Err(_) => {}
            }
        }
        let stream = TcpStream::connect(self.0.address).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }
}
