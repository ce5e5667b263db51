//! What can be wrong before a call. It must not start a program.

mod doctor;
pub(crate) mod target;
