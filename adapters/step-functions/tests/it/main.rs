//! Tests of the adapter from outside, against two emulators of AWS. A proxy in front of them loses and
//! refuses requests on demand. README.md has a table of the emulators' faults. It must not use private parts
//! of the crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod asks;
mod attach;
mod behaviour;
mod checks;
mod discovers;
mod ends;
mod express;
mod harness;
mod logged;
mod many;
mod persons;
mod tells;
mod wire;
