//! What can be wrong before a call. `config`, `target` and `recorded` work offline.

pub(crate) mod config;
mod doctor;
pub(crate) mod recorded;
pub(crate) mod target;
