//! Integration tests of the adapter on a real Slurm cluster (`tests/slurm`), whose commands can be made to
//! fail or to lose responses. They must not use internals of the crate.

#![allow(clippy::unwrap_used, reason = "a helper may fail its test")]

mod arrays;
mod behaviour;
mod callers;
#[path = "../../../../tests/slurm/cluster.rs"]
mod cluster;
mod ends;
mod existing;
mod faults;
mod harness;
mod offers;
mod order;
mod queue;
mod rest;
mod ssh;
mod stops;
mod wrapper;
