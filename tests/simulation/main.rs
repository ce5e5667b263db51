//! Simulation of the core on a fake clock: the real state machine, real loops and real SQLite, and simulated
//! engines with faults. A world has one process, two processes over one file, or three replicas whose clocks
//! differ and whose connection to the store may be cut. Processes are killed and frozen at every point where
//! they touch the store or an engine. Everything follows from a seed, including the kind of world. A failing
//! seed is printed and replays with `TASKBRIDGE_SIM_SEED=N cargo test --package taskbridge-simulation`.
//!
//! `checks` and `ends` compare the world with the promises, after each step and at the end. The planted bugs
//! in `bugs` show that the checks find breaches.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]
#![allow(
    clippy::explicit_write,
    reason = "what a test could not try is printed past the capture of its output"
)]

mod backlog;
mod batches;
mod blocking;
mod bugs;
mod calls;
mod checks;
mod clients;
mod clocks;
mod connection;
mod cut_off;
mod deliveries;
mod ends;
mod engine_replies;
mod engines;
mod fixture;
mod hints;
mod inspection;
mod late_polls;
mod late_token;
mod leaps;
mod leases;
mod node;
mod orphans;
mod plan;
mod planted;
mod plugins;
mod points;
mod postgres;
mod record;
mod repeated_question;
mod rng;
mod steps;
mod store;
mod store_faults;
mod store_outage;
mod support;
mod suspended;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use bugs::Bug;
use plan::Plan;
use world::World;

/// Number of seeds in `tests/run`; `tests/full` sets its own number.
const SEEDS: u64 = 1000;
/// Seeds beyond those of `tests/run` that once broke a promise: see `docs/simulation.md`.
const REGRESSION_SEEDS: [u64; 15] = [
    1039, 2266, 6118, 6215, 11_943, 100_868, 101_391, 103_870, 105_790, 402_070, 506_717, 508_477, 520_069,
    582_245, 585_124,
];
/// Number of seeds for each world with plugins.
const PLUGIN_SHARE: usize = 25;
/// A long run counts how many of this number of seeds catch a planted bug.
const COUNTED_SEEDS: u64 = 250;

/// Returns the seeds: `TASKBRIDGE_SIM_SEED` is the first, `TASKBRIDGE_SIM_SEEDS` the count, which is one if
/// only the first is set.
fn seeds() -> Vec<u64> {
    let (first, count) = (knob("TASKBRIDGE_SIM_SEED"), knob("TASKBRIDGE_SIM_SEEDS"));
    let count = count.unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(0);
    (first..first + count).collect()
}

#[allow(clippy::disallowed_methods, reason = "a test's own knobs come from its environment")]
fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs the world of this seed to its end and returns the final state. `Err` contains the first breach.
fn run(seed: u64, plan: Plan) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can be created");
    // Inside the runtime, whose clock is paused: an instant taken outside would be the machine's.
    runtime.block_on(async { World::new(seed, plan).run().await })
}

/// Processes these items on as many threads as there are processors.
fn for_each<T: Send>(work: impl IntoIterator<Item = T, IntoIter: Send>, act: impl Fn(T) + Sync) {
    let work = Mutex::new(work.into_iter());
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(next) = work.lock().next() else { return };
                    act(next);
                }
            });
        }
    });
}

#[test]
fn no_seed_breaks_a_promise() {
    check_seeds(seeds(), Plan::of);
}

#[test]
fn seeds_that_broke_hold() {
    check_seeds(REGRESSION_SEEDS, Plan::of);
}

/// In these worlds, each process reaches its engines through the host of plugins. A world takes twice as long,
/// so there are fewer.
#[test]
fn no_plugin_breaks_a_promise() {
    let seeds = seeds();
    let count = seeds.len().div_ceil(PLUGIN_SHARE);
    check_seeds(seeds.into_iter().take(count).collect::<Vec<_>>(), Plan::with_plugins);
}

/// Runs all seeds, even after a breach, and prints every breach.
#[allow(clippy::print_stdout, reason = "long runs print their figures")]
fn check_seeds(
    seeds: impl IntoIterator<Item = u64, IntoIter: ExactSizeIterator + Send>,
    plan: impl Fn(u64) -> Plan + Sync,
) {
    let started_at = Instant::now();
    let breaches = Mutex::new(Vec::new());
    let seeds = seeds.into_iter();
    let count = seeds.len();
    for_each(seeds, |seed| {
        if let Err(breach) = run(seed, plan(seed)) {
            println!("seed {seed}: {breach}\nreplay: TASKBRIDGE_SIM_SEED={seed}");
            breaches.lock().push(seed);
        }
    });
    let (elapsed_secs, breaches) = (started_at.elapsed().as_secs(), breaches.into_inner());
    println!("{count} worlds, {} breaches, {elapsed_secs} s", breaches.len());
    assert!(breaches.is_empty(), "breaches under the seeds {breaches:?}, printed above");
}

/// Without this property, a printed seed would be useless.
#[test]
fn a_seed_replays() {
    for seed in 0..6 {
        let (first, second) = (run(seed, Plan::of(seed)), run(seed, Plan::of(seed)));
        assert!(first == second, "seed {seed} came to two different ends:\n{first:?}\n{second:?}");
        let [first, second] = [(); 2].map(|()| run(seed, Plan::with_plugins(seed)));
        assert!(first == second, "seed {seed} with plugins:\n{first:?}\n{second:?}");
    }
}

/// Every planted bug is caught by a seed of `tests/run`, and `docs/simulation.md` names one per bug. If a
/// change of the core makes that seed miss the bug, the test tries the others and prints the row for the
/// docs. A long run counts how many of the first [`COUNTED_SEEDS`] seeds catch it.
#[test]
#[allow(clippy::print_stdout, reason = "the rows are for the docs")]
fn planted_bugs_are_caught() {
    let counts = knob("TASKBRIDGE_SIM_SEEDS").is_some();
    let missed = Mutex::new(Vec::new());
    for_each(Bug::ALL, |(bug, known_seed)| {
        let catch = |seed| {
            let plan = if bug.is_of_plugins() { Plan::with_plugins(seed) } else { Plan::of(seed) };
            run(seed, Plan { bug: Some(bug), ..plan }).err().map(|breach| (seed, breach))
        };
        let Some((seed, breach)) = std::iter::once(known_seed).chain(0..SEEDS).find_map(catch) else {
            missed.lock().push(bug);
            return;
        };
        let caught_count = AtomicU64::new(0);
        if counts {
            caught_count.store((0..COUNTED_SEEDS).filter_map(catch).count() as u64, Ordering::Relaxed);
        }
        let first = breach.lines().next().unwrap_or_default();
        println!("| `{bug:?}` | {seed} | {} | {first:.120} |", caught_count.into_inner());
    });
    let missed = missed.into_inner();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
