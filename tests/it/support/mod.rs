//! A real server for tests of the program's public interface, and minimal clients for it.
//!
//! [`TestDir`] is a config in its own folder, [`Server`] the program that runs there, and [`TestApp`] both.
//! [`Client`] implements MCP 2025-11-25 over HTTP, [`ModernClient`] 2026-07-28; they implement only what
//! tests need. Nothing is left behind: a server is killed by its process id, and a dropped [`TestDir`] checks
//! for processes that still belong to it. This module must not decide which behavior is correct: the tests
//! do.

#![allow(dead_code, unused_imports, reason = "a kit: not every test needs every tool")]
#![allow(clippy::print_stderr, reason = "a failing test shows what its server said")]

pub(crate) mod certificates;
mod client;
mod events;
mod front;
pub(crate) mod issuer;
mod loops;
mod modern;
mod numbers;
mod place;
pub(crate) mod port;
pub(crate) mod postgres;
mod process;
mod proxy;
mod pty;
mod random;
pub(crate) mod schema;
mod sim;

pub(crate) use client::{Client, Fault, text};
pub(crate) use events::Events;
pub(crate) use front::LoadBalancer;
pub(crate) use loops::{PausedClock, PlainTools};
pub(crate) use modern::ModernClient;
pub(crate) use numbers::MetricsScrape;
pub(crate) use place::{ProgramOutput, TestDir};
pub(crate) use process::{Server, raise_file_limit};
pub(crate) use proxy::{Proxy, ProxyMode};
pub(crate) use pty::{CTRL_C, CTRL_D, Pty};
pub(crate) use random::Random;
pub(crate) use schema::Generation;
pub(crate) use sim::SimProcess;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_taskbridge");

/// The beginning of every config: a free port, one owner, and state next to the config.
pub(crate) const BASICS: &str = r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000

[auth]
single_user = true

[store]
path = "state/taskbridge.db"
"#;

/// A running server with its own [`TestDir`].
pub(crate) struct TestApp {
    /// The server. It is stopped before its [`TestDir`] checks for leftover processes.
    pub(crate) server: Server,
    /// Its folder with the config.
    pub(crate) dir: TestDir,
}

impl TestApp {
    /// Starts a server with [`BASICS`] and `config`.
    pub(crate) fn start(config: &str) -> Self {
        let dir = TestDir::new(&format!("{BASICS}{config}"));
        Self { server: dir.serve(), dir }
    }

    /// Opens a new session.
    pub(crate) async fn client(&self) -> Client {
        Client::open(self.server.url()).await.unwrap()
    }
}

/// Returns a number from the environment that sets the length of a long test.
pub(crate) fn knob<T: std::str::FromStr>(name: &str, default: T) -> T {
    #[expect(clippy::disallowed_methods, reason = "the length of a test is set from outside")]
    let value = std::env::var(name);
    match value {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("${name} is no number: {text}")),
        Err(_) => default,
    }
}
