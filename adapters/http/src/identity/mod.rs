//! What a job and a backend are called. It must not call the engine.

pub(crate) mod engine;
pub(crate) mod handle;
