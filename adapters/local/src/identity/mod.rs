//! What a handle names, and which folder this backend is connected to. It must not access jobs.

pub(crate) mod engine;
pub(crate) mod handle;
