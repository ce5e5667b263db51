//! What a handle names, and which GitHub this backend is connected to. It must not call GitHub.

pub(crate) mod engine;
pub(crate) mod handle;
