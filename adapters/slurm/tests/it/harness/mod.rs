//! What the tests share: a cluster with the adapter connected to it, and a proxy in front of slurmrestd. It must
//! have no tests.

pub(crate) mod proxy;
pub(crate) mod world;
