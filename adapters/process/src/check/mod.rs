//! What can be wrong before a call, and what a program says about itself. It must not start a job.

pub(crate) mod describe;
mod doctor;
pub(crate) mod target;
