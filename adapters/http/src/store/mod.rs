//! Caches, all of which may be lost. They must not call the engine.

pub(crate) mod answers;
pub(crate) mod detail_limit;
pub(crate) mod list_cache;
