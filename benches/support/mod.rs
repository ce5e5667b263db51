//! The parts of the benchmarks. They must not use the server's own code: they see what any client sees, and
//! what the system and the database report about a process. (`postgres` is the test server.)

pub(crate) mod client;
#[allow(dead_code, reason = "one of the benchmarks is not hostile")]
pub(crate) mod crowd;
pub(crate) mod database;
pub(crate) mod echo;
pub(crate) mod engine;
pub(crate) mod growth;
pub(crate) mod held;
pub(crate) mod load;
pub(crate) mod place;
#[path = "../../tests/it/support/port.rs"]
#[allow(clippy::unwrap_used, reason = "without it there is nothing to measure")]
mod port;
#[path = "../../tests/it/support/postgres.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests use more of it, and without it there is nothing to measure"
)]
mod postgres;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod stage;
pub(crate) mod wire;

/// Any error, which stops the benchmark without recovery.
pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
