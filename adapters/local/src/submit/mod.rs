//! From a call to a job: `request` renders what to run, and `start` hands it to a supervisor. It must not
//! observe jobs.

pub(crate) mod request;
pub(crate) mod start;
