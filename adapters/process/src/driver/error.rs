//! [`Failure`]: why a call has no result. It must not decide what that means for a job.

use taskbridge_sdk::Error;

use crate::protocol::ErrorObject;

/// A call without a result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No byte of it was sent.
    NotSent(Error),
    /// It was sent, or may have been sent, and there is no answer, for this reason.
    Lost(String),
    /// The program answered with an error.
    Refused(ErrorObject),
}
