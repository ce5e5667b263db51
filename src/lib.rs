//! taskbridge: durable MCP tasks over the workflow engines that already exist.
//!
//! A client calls a tool. The bridge keeps a durable row, starts a job in the tool's engine, watches the job,
//! and translates.
//!
//! The map: [`cli`] parses, [`app`] wires, and [`taskbridge_client`] is `taskbridge call`; [`config`] becomes
//! the [`catalog`] of tools. [`mcp`] serves the protocol over HTTP and stdio to callers that [`auth`]
//! identifies, within the rules of [`access`]. [`tasks`] is the core: rows, the state machine, the loops.
//! [`sessions`] defines the state of clients' sessions. [`store`] stores tasks and sessions, [`notify`] sends
//! notices, [`console`] has the pages for browsers, [`recorder`] draws a task, and [`hooks`] receives
//! deliveries from engines. Engines are reached through the adapters in [`adapters`]. ARCHITECTURE.md has the
//! terms, the invariants and walkthroughs.
//!
//! A program with an additional adapter is a `main` of one line:
//!
//! ```no_run
//! # use taskbridge_sdk::sim::Sim as Mine;
//! fn main() -> std::process::ExitCode {
//!     taskbridge::main_with(taskbridge::adapters::all().with::<Mine>())
//! }
//! ```

pub mod access;
pub mod adapters;
pub mod app;
pub mod audit;
pub mod auth;
pub mod catalog;
mod cli;
pub mod config;
pub mod console;
pub mod current;
pub mod health;
pub mod hooks;
pub mod isolation;
pub mod limits;
pub mod mcp;
pub mod metrics;
pub mod notify;
mod offload;
pub mod recorder;
pub mod scrape;
pub mod seal;
mod shutdown;
mod telemetry;
pub mod trace;

pub use cli::main_with;
pub use taskbridge_core::{clock, sessions, tasks};
pub use taskbridge_store::{self as store, shared_store_suite, store_suite};
