//! Tests of the adapter with real programs. `engine.py` is the program and its engine, and a mode makes it
//! hostile.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod behaviour;
mod ending;
mod hostile;
mod remote;
mod service;
mod world;
