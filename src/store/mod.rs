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
