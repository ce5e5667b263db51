//! What is known of executions: their histories, read from AWS, and what this process remembers. All of it
//! may be lost. It must not decide what becomes of a task.

pub(crate) mod delivered_answers;
pub(crate) mod discovery_cache;
pub(crate) mod history;
pub(crate) mod list_cache;
pub(crate) mod progress;
pub(crate) mod tokens;
