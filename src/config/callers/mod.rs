//! Who may call, and what callers may do: `[auth]` with its keys, certificates and token issuers, and the
//! access rules of `[access]`, tools and backends. This module must not decide about a caller. Of its sibling
//! folders it uses only `reading`.

pub(super) mod access;
pub(super) mod auth;
pub(super) mod certificates;
pub(super) mod issuers;
mod sign_in;
