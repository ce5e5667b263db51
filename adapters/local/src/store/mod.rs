//! The folders of jobs. It must not know commands or backends.

pub(crate) mod job_dir;
pub(crate) mod sweep;
