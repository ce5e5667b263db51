//! What the benchmark is made of. It must not use the server's own code: it sees what any client sees, and what the
//! system tells of a process.

pub(crate) mod client;
pub(crate) mod echo;
pub(crate) mod load;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod wire;

/// Anything that stops the benchmark; it has nothing to recover.
pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
