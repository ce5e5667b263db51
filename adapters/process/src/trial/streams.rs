//! [`connect`]: a backend over a program in this process, on the caller's runtime and clock. It is the host of
//! child processes with another transport, for simulations. It must not be reachable by a config.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Backend, Result};
use tokio::io::{AsyncRead, AsyncWrite, empty};
use tokio::sync::Mutex;

use crate::core::Core;
use crate::driver::attempts::Attempts;
use crate::driver::link::Link;
use crate::driver::shared::Settings;
use crate::driver::transport::connection::{Connection, Transport};

/// What a program reads, and what it writes, as the host sees it: one message per line.
pub type Streams = (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncRead + Send + Unpin>);

/// A program in this process.
pub struct Program {
    /// Name of the backend.
    pub name: String,
    /// Time for one call.
    pub limit: Duration,
    /// Maximum number of calls in progress.
    pub max_in_flight: usize,
    /// Determines the random part of the times between two runs.
    pub seed: u64,
    /// Starts a run of the program. It ends when its input ends.
    pub start: Box<dyn Fn() -> io::Result<Streams> + Send + Sync>,
}

struct InProcess(Box<dyn Fn() -> io::Result<Streams> + Send + Sync>);

impl Transport for InProcess {
    fn connect(&self) -> io::Result<Connection> {
        let (input, output) = (self.0)()?;
        Ok(Connection::piped(input, output, empty(), None))
    }
}

/// Returns the backend of a program, once it is initialized, and the driver of the program. The caller must
/// run the driver meanwhile and afterwards. The driver ends when the backend is dropped.
///
/// # Errors
/// The program's error if it refuses to initialize, and `Unavailable` if it does not answer.
pub fn connect(
    program: Program,
) -> (impl Future<Output = Result<Arc<dyn Backend>>>, impl Future<Output = ()> + Send) {
    let Program { name, limit, max_in_flight, seed, start } = program;
    let settings = Settings { seed: Some(seed), ..Settings::new(&name, limit, max_in_flight) };
    let (connected, driver) = Link::prepare(settings, InProcess(start));
    let backend = async move {
        let (link, hints) = connected.await?;
        let core = Core { name, link, attempts: Attempts::default(), proof: None, hints: Mutex::new(hints) };
        Ok(Arc::new(core) as Arc<dyn Backend>)
    };
    (backend, driver)
}
