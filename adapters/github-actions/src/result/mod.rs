//! What a run left for its client: logs and artifacts. It must not judge how the run ended.

pub(crate) mod archive;
pub(crate) mod artifacts;
pub(crate) mod log;
pub(crate) mod partial_read;
