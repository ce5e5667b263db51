//! A simulated engine, `kind = "sim"`. Its jobs do no work: they take time, report, ask and end as their
//! targets specify.
//!
//! Use it for experiments, tests and benchmarks. It is always compiled in. [`SimEngine`] contains the jobs,
//! in this process or, with [`serve`] and [`SimClient`], in another one. [`SimBackend`] is its
//! [`crate::Backend`], and [`Sim`] is the adapter that a config names. It must not read the wall clock,
//! spawn, or keep more than `remember` ended jobs. All times are `tokio::time::Instant`, so that paused time
//! works.

mod adapter;
mod backend;
mod client;
mod engine;
mod fault;
mod helper;
mod hints;
mod hook;
mod job;
mod log;
mod request;
mod state;
mod target;
mod wire;

pub use adapter::{Config, Discover, Mode, Sim};
pub use backend::SimBackend;
pub use client::SimClient;
pub use engine::SimEngine;
pub use fault::{Fault, FaultRates, Operation, Probability};
pub use target::{Ask, Outcome, Target};
pub use wire::{Counts, serve};
