//! Tools: their list, the handle of a task that takes longer than a call, progress, and results.

pub mod handle;
pub mod list;
pub mod list_cache;
pub mod progress;
pub mod result;
