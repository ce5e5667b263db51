//! What a job left for its client: logs, artifacts and the result file. It must not judge how the job ended.

pub(crate) mod artifacts;
pub(crate) mod log;
pub(crate) mod outputs;
