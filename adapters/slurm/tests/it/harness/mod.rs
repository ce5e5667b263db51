//! What the tests share: a cluster with the adapter connected to it, a proxy in front of slurmrestd, and free ports. It must
//! have no tests.

#[path = "../../../../../tests/it/support/port.rs"]
pub(crate) mod port;
pub(crate) mod proxy;
pub(crate) mod world;
