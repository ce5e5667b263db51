//! What the simulation shares with the server's tests. It must not hold anything of its own.

#[path = "../it/support/port.rs"]
mod port;
#[allow(dead_code, reason = "the server's tests use more of it")]
#[path = "../it/support/postgres.rs"]
pub(crate) mod postgres;
