//! Tests of the adapter over HTTP, against an engine that misbehaves on request. Unit tests are next to the
//! code.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod airflow;
mod behaviour;
mod configs;
mod lifecycle;
mod nasty;
mod security;
mod wes;
mod world;
