//! Polls of jobs.

pub(crate) mod active_job;
pub(crate) mod bounded_scan;
pub(crate) mod conclude;
pub(crate) mod folder_reader;
pub(crate) mod outcome;
pub(crate) mod poll;
pub(crate) mod reason;
pub(crate) mod release;
pub(crate) mod snapshot;
pub(crate) mod task_table;
pub(crate) mod terminal_state;
pub(crate) mod usage;
