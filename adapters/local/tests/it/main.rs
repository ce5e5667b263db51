//! Tests of the adapter from outside, with real supervisors, commands and signals. They must not access the
//! crate's internals, and may access a job's folder only as described in README.md.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod behaviour;
mod hostile;
mod interaction;
mod outputs;
mod readme;
mod run;
mod start;
mod stop;
mod world;
