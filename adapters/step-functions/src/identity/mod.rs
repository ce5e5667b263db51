//! What a handle names, and which account and region this backend is connected to. It must not call AWS.

pub(crate) mod arn;
pub(crate) mod engine;
pub(crate) mod handle;
