//! All that is sent to a program, and what comes back. It keeps the program running. It must not know what a
//! method means.

pub(crate) mod attempts;
mod bucket;
mod calls;
pub(crate) mod error;
mod exchange;
mod line;
pub(crate) mod link;
mod log;
pub(crate) mod redact;
mod restart;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod transport;
mod wire;
