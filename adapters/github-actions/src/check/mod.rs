//! Finds faults before a call does: `target` validates the config offline, and `doctor` asks GitHub. It must
//! not change anything.

pub(crate) mod doctor;
pub(crate) mod target;
