//! The traits of [`taskbridge_core::tasks::store`]: rows, and all that belongs to them. It must not decide
//! anything about a task, open a connection, or use `session_store` or `operators`.
//!
//! - `tasks` with `insert`, `update` and `claim`: rows. `row`: converts a row into a task; `task_cache`: a
//!   cache of parsed tasks for polls.
//! - `queue`: rows that wait for slots. `groups`: groups of open jobs and their leases; `holders`: detects
//!   dead lease holders.
//! - `history`: entries. `notices`: pending notices. `tally`: counts for metrics. `notes`: the small traits.

mod claim;
mod groups;
mod history;
pub(super) mod holders;
mod insert;
pub(super) mod notes;
mod notices;
mod queue;
pub(super) mod row;
mod tally;
pub(super) mod task_cache;
mod tasks;
mod update;
