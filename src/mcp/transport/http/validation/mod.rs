//! Checks before a request is handled: head, origin, host, authentication, protocol version, session, rates.

pub(super) mod access_control;
pub(super) mod head;
pub mod origin;
pub(super) mod preconditions;
pub(super) mod rate_policy;
