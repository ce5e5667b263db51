//! A simulated engine, `kind = "sim"`: jobs that do nothing but take time, fail, ask or vanish as they are told.
//!
//! It is for trying taskbridge out, for tests and for benchmarks, and it is always compiled in. [`SimEngine`] holds
//! the jobs, in this process or, with [`serve`] and [`SimClient`], in one of its own; [`SimBackend`] is the
//! [`crate::Backend`] in front of it; [`Sim`] is the adapter that a config names. It must not read the wall clock (all
//! time is `tokio::time::Instant`, so paused time works), spawn, or keep more than its `remember` ended jobs.

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
