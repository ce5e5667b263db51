//! The adapter from outside: real supervisors, real commands, real signals. It must not look into the crate, and into
//! a job's folder only where README.md describes it.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod behaviour;
mod hostile;
mod leave;
mod readme;
mod run;
mod start;
mod stop;
mod tell;
mod world;
