//! Polls of jobs.

pub(crate) mod events;
pub(crate) mod orphans;
pub(crate) mod poll;
