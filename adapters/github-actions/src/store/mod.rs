//! What this process remembers about runs. All of it may be lost. It must not call GitHub.

pub(crate) mod list_cache;
pub(crate) mod pending_ends;
pub(crate) mod progress;
