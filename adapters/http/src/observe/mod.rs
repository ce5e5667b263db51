//! From the engine's states to the task. The words are those of the config (`observe.states`):
//!
//! | state in the config | task |
//! |---|---|
//! | `queued` | `Queued` |
//! | `running` | `Running` |
//! | `asks` | `Running`, with its questions |
//! | `succeeded` | `Succeeded` |
//! | `failed` | `Failed`; `Cancelled` if `observe.cancelled` is true |
//! | `cancelled` | `Cancelled` |
//! | `gone`, or a reply that `observe.gone` is true of | `Gone` |
//! | a word that `observe.states` does not have | `observe.unknown`, and a warning in the log |
//!
//! It must not change a job.

pub(crate) mod conclude;
pub(crate) mod poll;
mod poll_many;
pub(crate) mod snapshot;
