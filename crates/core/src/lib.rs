//! The core of taskbridge, free of protocol, transport, database and engine: [`tasks`] are durable tasks over
//! jobs, [`sessions`] is the state of clients' sessions, and [`clock`] has the clocks and the randomness that
//! both receive. It must not depend on any other crate of the server.

pub mod clock;
pub mod sessions;
pub mod tasks;
