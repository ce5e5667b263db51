//! Tests of the presets against real engines, each a process that all tests of it share.
//! `tests/http/install` installs them, and `cargo test --test real -- temporal` runs those of one. A proxy in
//! front of them loses and refuses requests on demand. It must not use private parts of the crate.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod airflow;
mod buildbot;
mod dagster;
mod dagu;
mod google_workflows;
mod harness;
mod prefect;
mod prefect_questions;
mod pygeoapi;
mod ray_jobs;
mod restate;
mod temporal;
mod toil;
