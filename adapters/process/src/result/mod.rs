//! What a job left: logs and artifacts, bounded whatever the program sends.

mod artifacts;
mod log;
