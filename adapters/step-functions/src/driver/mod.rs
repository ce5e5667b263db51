//! Everything that is sent to AWS, and the shapes of what it answers. It must not decide what an answer means
//! for a task.

pub(crate) mod api;
pub(crate) mod budget;
pub(crate) mod callers;
pub(crate) mod client;
pub(crate) mod clock_skew;
pub(crate) mod credentials;
pub(crate) mod definition;
pub(crate) mod error;
pub(crate) mod execution;
pub(crate) mod log_group;
pub(crate) mod machines;
pub(crate) mod queue;
