//! Tests of the adapter with real programs. `engine.py` is the program and its engine, and a mode makes it
//! hostile.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail it")]

mod behaviour;
mod ending;
mod hostile;
mod lies;
mod remote;
mod service;
mod world;

/// Each row of the tables is a hostile behaviour of its own.
#[test]
#[allow(clippy::print_stdout, reason = "the figures are for the docs")]
fn more_than_hundred_hostile_behaviours() {
    let tables = [hostile::names(), lies::names(), service::names()];
    let counts = tables.each_ref().map(Vec::len);
    let names: std::collections::BTreeSet<String> = tables.into_iter().flatten().collect();
    println!("{} behaviours: programs, lies and services {counts:?}", names.len());
    assert_eq!(names.len(), counts.iter().sum::<usize>(), "a name occurs twice");
    assert!(names.len() >= 100, "{}", names.len());
}
