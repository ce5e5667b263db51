//! All that is sent to the engine, and the shape of its replies. It must not know jobs.

pub(crate) mod auth;
pub(crate) mod error;
pub(crate) mod net;
pub(crate) mod render;
pub(crate) mod reply;
