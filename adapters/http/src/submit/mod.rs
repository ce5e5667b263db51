//! From a call to a job, and its cancellation. It must not poll jobs that run.

pub(crate) mod find;
pub(crate) mod scope;
pub(crate) mod start;
mod stop;
