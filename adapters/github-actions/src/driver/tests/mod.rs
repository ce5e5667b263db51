//! Test doubles of GitHub.

pub(crate) mod standin;
