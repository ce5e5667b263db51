//! From a call to a job: `request` renders it, `start` submits it, and `stop` cancels it. It must not observe
//! jobs.

pub(crate) mod dependency;
pub(crate) mod existing;
pub(crate) mod feasibility;
pub(crate) mod request;
pub(crate) mod root;
pub(crate) mod settings;
pub(crate) mod staging;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod wrapper;
