//! The traits of [`taskbridge_core::sessions`]: ends and settings of sessions, and the newest message about
//! each question. It must not read the body of a task, or use `task_store` or `operators`.

mod deliveries;
mod sessions;
