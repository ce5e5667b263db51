//! Test doubles of a driver.

pub(crate) mod fake;
