//! Two implementations of the traits of [`taskbridge_core::tasks::store`] and of
//! [`taskbridge_core::sessions`]: [`sqlite`] and [`postgres`]. A store stores and compares; it must not
//! decide anything about a task, and must not know a protocol or an engine.
//!
//! PostgreSQL and what copies into it need the feature `postgres`.
//!
//! For operators there are [`survey`] (what is in a store), [`check`] (what is wrong there) and [`copy`]
//! (from SQLite to PostgreSQL).
//!
//! [`suite`] contains the contract as tests that every store runs.

mod change;
pub mod check;
#[cfg(feature = "postgres")]
pub mod copy;
mod durations;
mod entry;
mod fair;
#[cfg(feature = "postgres")]
pub mod postgres;
mod row;
pub mod sqlite;
pub mod suite;
pub mod survey;
mod write_state;

/// Retry delay for an unreadable due row, in milliseconds: a newer program may be able to read it.
const UNREADABLE_RETRY_MS: i64 = 10 * 60 * 1000;

/// Logs that a claim found an unreadable due row. Its due time is then postponed by [`UNREADABLE_RETRY_MS`].
fn log_unreadable(why: &str) {
    tracing::error!(
        why,
        "a task cannot be read, so nothing is done for it: `taskbridge store check` says what to do"
    );
}
