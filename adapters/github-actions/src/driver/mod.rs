//! Everything that is sent to GitHub, and the shapes of what it answers. It must not decide what an answer
//! means for a task.

pub(crate) mod api;
pub(crate) mod callers;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod response_cache;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod wire;
pub(crate) mod workflow;
