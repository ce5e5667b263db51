//! Finds faults before a call does: `target` validates the config offline, `doctor` asks AWS, and `offline`
//! writes the IAM policy. It must not change anything.

pub(crate) mod doctor;
pub(crate) mod needs;
pub(crate) mod offline;
pub(crate) mod permissions;
pub(crate) mod policy;
pub(crate) mod target;
pub(crate) mod trust;
