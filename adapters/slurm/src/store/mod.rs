//! What the adapter keeps of jobs: their folders on the shared file system, which count, and caches in
//! memory, which may be lost. It must not decide what becomes of a task.

pub(crate) mod array_counts;
pub(crate) mod disk;
pub(crate) mod end_marker;
pub(crate) mod feasibility_cache;
pub(crate) mod folder;
pub(crate) mod job_cache;
pub(crate) mod jobs_folder;
pub(crate) mod plan;
pub(crate) mod queue_cache;
pub(crate) mod runs;
pub(crate) mod sweep;
