//! What a job left for its client: logs and artifacts. It must not judge how the job ended.

pub(crate) mod artifacts;
pub(crate) mod log;
pub(crate) mod tail;
