//! What a handle names, which account and region this backend is connected to, and the sessions of people. It
//! must not call AWS.

pub(crate) mod arn;
pub(crate) mod engine;
pub(crate) mod session;
