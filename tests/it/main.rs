//! The integration tests, as one binary.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]

mod access;
mod audit;
mod auth;
mod aws;
mod bad_input;
mod both;
mod call;
mod cli;
mod configs;
mod crowd;
mod defaults;
mod doctor;
mod examples;
mod fuzz;
mod github_actions;
mod health;
mod hidden;
mod hooks;
mod hostile;
mod kill;
mod metrics;
mod notify;
mod operators;
mod outbound;
mod persons;
mod postgres;
mod readme;
mod references;
mod reload;
mod replicas;
mod schemas;
mod simulation;
mod stage;
mod step_functions;
mod step_functions_bad_input;
mod support;
mod tidy;
mod traces;
mod transport;
mod untrusted;
mod v2025;
mod v2026;
