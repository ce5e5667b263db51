//! From a call to an execution: `input` renders its input, and `start` starts it. It must not observe
//! executions.

pub(crate) mod bound;
pub(crate) mod input;
pub(crate) mod start;
