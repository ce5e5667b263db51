//! From a call to a run: `request` renders the dispatch, `start` sends it, and `existing` follows or reruns a
//! run. It must not observe runs.

pub(crate) mod existing;
pub(crate) mod inputs;
pub(crate) mod request;
pub(crate) mod start;
