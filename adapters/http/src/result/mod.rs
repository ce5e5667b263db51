//! What a job left: its log and its files. It must not change a job.

mod artifacts;
mod log;
