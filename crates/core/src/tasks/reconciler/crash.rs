//! [`Crash`]: how the core recognizes an error that represents a panic in an adapter. It catches no
//! panic itself.

use taskbridge_sdk::{Error, find_cause};

/// The source of an [`Error`] that represents a panic in an adapter.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the adapter crashed")]
pub struct Crash;

impl Crash {
    /// Returns true if this error represents a panic in an adapter.
    pub fn caused(error: &Error) -> bool {
        find_cause::<Crash>(error).is_some()
    }
}
