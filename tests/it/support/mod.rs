//! A real server for tests that go through the front door, and a small client for it.
//!
//! [`Place`] is a config with a folder of its own; [`Server`] is the program running there; [`TestApp`] is both.
//! [`Client`] speaks MCP 2025-11-25 over HTTP, [`Modern`] 2026-07-28, and neither more than tests need. What ends here leaves nothing behind:
//! a server is killed by its process id, and a place that goes away looks for processes that still belong to it.
//! It must not decide what is right: that is said by the tests.

#![allow(dead_code, unused_imports, reason = "a kit: not every test needs every tool")]
#![allow(clippy::print_stderr, reason = "a failing test shows what its server said")]

pub(crate) mod certificates;
mod client;
mod events;
mod front;
pub(crate) mod issuer;
mod modern;
mod numbers;
mod place;
pub(crate) mod postgres;
mod process;
mod proxy;
mod pty;
mod random;
pub(crate) mod schema;
mod sim;

pub(crate) use client::{Client, Fault, text};
pub(crate) use events::Events;
pub(crate) use front::Front;
pub(crate) use modern::Modern;
pub(crate) use numbers::Numbers;
pub(crate) use place::{Ended, Place};
pub(crate) use process::{Server, raise_file_limit};
pub(crate) use proxy::{Proxy, Way};
pub(crate) use pty::{CTRL_C, CTRL_D, Pty};
pub(crate) use random::Random;
pub(crate) use schema::Generation;
pub(crate) use sim::SimProcess;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_taskbridge");

/// What every config begins with: a free port, one owner, and state beside the config.
pub(crate) const BASICS: &str = r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000

[auth]
single_user = true

[store]
path = "state/taskbridge.db"
"#;

/// A running server in a place of its own.
pub(crate) struct TestApp {
    /// The server. It is stopped before the place is looked over.
    pub(crate) server: Server,
    /// Where it runs.
    pub(crate) place: Place,
}

impl TestApp {
    /// Starts a server with [`BASICS`] and this.
    pub(crate) fn start(config: &str) -> Self {
        let place = Place::new(&format!("{BASICS}{config}"));
        Self { server: place.serve(), place }
    }

    /// A new session.
    pub(crate) async fn client(&self) -> Client {
        Client::open(self.server.url()).await.unwrap()
    }
}

/// A number that the environment can set: how long a long test is.
pub(crate) fn knob<T: std::str::FromStr>(name: &str, default: T) -> T {
    #[expect(clippy::disallowed_methods, reason = "the length of a test is set from outside")]
    let value = std::env::var(name);
    match value {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("${name} is no number: {text}")),
        Err(_) => default,
    }
}
