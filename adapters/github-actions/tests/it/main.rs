//! Tests of the adapter from outside, against the test GitHub (`tests/github`). It really runs workflows, and
//! Prism validates every exchange against GitHub's own description. It must not use private parts of the
//! crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod behaviour;
mod doctor;
mod ends;
mod github;
mod many;
mod parts;
mod persons;
mod renames;
mod reruns;
mod reviews;
mod starts;
mod wire;
mod world;
