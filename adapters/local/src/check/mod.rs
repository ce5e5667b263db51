//! Finds faults before a call does: `target` validates the config offline, and `doctor` looks at this
//! machine. It must not run a target.

pub(crate) mod doctor;
pub(crate) mod target;
