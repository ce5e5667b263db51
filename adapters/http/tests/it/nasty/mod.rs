//! An engine with an HTTP API that misbehaves on request: lost replies, errors after acceptance, lists that
//! lag, and replies that break HTTP. It keeps its jobs in memory.

mod engine;
mod wire;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) use engine::{Engine, Fault, Seen};
pub(crate) use wire::{Answer, Request};

/// A running engine. It stops when it is dropped.
pub(crate) struct Nasty {
    pub(crate) engine: Arc<Mutex<Engine>>,
    pub(crate) address: String,
    server: JoinHandle<()>,
}

impl Nasty {
    #[allow(clippy::disallowed_methods, reason = "the engine is a program of its own")]
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let engine = Arc::new(Mutex::new(Engine::new(address.clone())));
        let served = engine.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(wire::serve(stream, served.clone()));
            }
        });
        Self { engine, address, server }
    }

    /// Makes the next request whose line begins with this text fail.
    pub(crate) fn fault(&self, line: &str, fault: Fault) {
        self.engine.lock().faults.push((line.to_owned(), fault));
    }

    /// Answers requests whose line begins with this text, always.
    pub(crate) fn script(&self, line: &str, answer: Answer) {
        self.engine.lock().scripted.insert(0, (line.to_owned(), answer));
    }

    /// Returns the requests so far whose line begins with this text.
    pub(crate) fn seen(&self, line: &str) -> Vec<Seen> {
        self.engine.lock().seen.iter().filter(|seen| seen.line.starts_with(line)).cloned().collect()
    }
}

impl Drop for Nasty {
    fn drop(&mut self) {
        self.server.abort();
    }
}
