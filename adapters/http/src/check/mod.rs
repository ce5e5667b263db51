//! What can be wrong before a call. All but `doctor` works offline.

pub(crate) mod config;
mod doctor;
pub(crate) mod names;
pub(crate) mod recorded;
pub(crate) mod target;
