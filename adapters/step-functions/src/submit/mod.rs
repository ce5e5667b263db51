//! From a call to an execution: `request` renders its input, and `start` starts it. It must not observe
//! executions.

pub(crate) mod bound;
pub(crate) mod request;
pub(crate) mod start;
