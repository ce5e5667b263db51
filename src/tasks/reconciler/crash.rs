//! [`Crash`]: how the core recognizes an error that stands for a panic in an adapter. It catches no panic itself.

use taskbridge_sdk::{Error, find_cause};

/// The source of an [`Error`] that stands for a panic in an adapter.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the adapter crashed")]
pub struct Crash;

impl Crash {
    /// True if this error stands for a panic in an adapter.
    pub fn caused(error: &Error) -> bool {
        find_cause::<Crash>(error).is_some()
    }
}
