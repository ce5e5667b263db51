//! Resources: the config's own, and logs and artifacts of tasks. [`read()`] reads one, [`list`] lists them.

pub mod list;
pub mod read;
pub mod read_limit;
pub mod serve;
pub mod subscriptions;

pub use self::read::*;
