//! The stores: where the rows of [`crate::tasks::store`] are kept. A store keeps and compares; it must not decide
//! anything about a task, and nothing in here knows a protocol or an engine.
//!
//! [`suite`] has the contract as tests that every store runs.

mod change;
pub mod check;
pub mod copy;
mod durations;
mod entry;
mod fair;
pub mod postgres;
mod row;
pub mod sqlite;
pub mod suite;
pub mod survey;
mod write_state;

/// After this time a due row that cannot be understood is claimed again, in milliseconds: a newer program may understand it.
const UNREADABLE_AGAIN: i64 = 10 * 60 * 1000;

/// Logs that a claim found a due row that cannot be understood.
fn log_unreadable(why: &str) {
    tracing::error!(
        why,
        "a task cannot be read, so nothing is done for it: `taskbridge store check` says what to do"
    );
}
