//! The stores: where the rows of [`crate::tasks::store`] are kept. A store keeps and compares; it must not decide
//! anything about a task, and nothing in here knows a protocol or an engine.
//!
//! [`suite`] has the contract as tests that every store runs.

mod change;
pub mod check;
pub mod copy;
mod durations;
mod entry;
pub mod postgres;
mod row;
pub mod sqlite;
pub mod suite;
pub mod survey;

/// Among so many of the rows that are due longest a claim goes from owner to owner: enough that nobody waits behind what
/// another one has piled up, and few enough to be put in order in a few milliseconds.
const FAIR_AMONG: i64 = 4096;
