//! The core on a fake clock: real machine, real loops, real SQLite, the simulated engine with faults; one process and
//! two over one file, killed and frozen at every point where a process can be. Everything follows from a seed: a
//! failing one is printed and replays with `TASKBRIDGE_SIM_SEED=N cargo test --test it simulation`.
//!
//! After each step, and at the end, `checks` holds what is seen against what was promised. The planted bugs in
//! `sabotage` show that it would notice.

mod checks;
mod node;
mod orphans;
mod points;
mod rng;
mod sabotage;
mod store;
mod world;

use taskbridge_sdk::sim::Mode;

use sabotage::Bug;
use world::{Plan, World};

/// How many seeds `tests/run` tries of each kind; `tests/full` sets its own number.
const SEEDS: u64 = 30;

fn seeds() -> std::ops::Range<u64> {
    match knob("TASKBRIDGE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..knob("TASKBRIDGE_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

#[allow(clippy::disallowed_methods, reason = "a test's own knobs come from its environment")]
fn knob(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs a world of this seed to its end and returns what it came to; `Err` tells the first breach.
fn run(seed: u64, plan: Plan) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    // Within the runtime, whose clock stands still: a moment taken outside would be the machine's.
    runtime.block_on(async { World::new(seed, plan).run().await })
}

fn hold_all(name: &str, plan: impl Fn(u64) -> Plan) {
    for seed in seeds() {
        if let Err(breach) = run(seed, plan(seed)) {
            panic!("{name}, seed {seed}: {breach}\nreplay: TASKBRIDGE_SIM_SEED={seed}");
        }
    }
}

/// Without this, no seed would be worth printing.
#[test]
fn a_seed_replays() {
    let plan = Plan { nodes: 2, mode: Mode::Unkeyed, bug: None };
    for seed in 0..3 {
        let (once, again) = (run(seed, plan), run(seed, plan));
        assert!(once == again, "seed {seed} came to two different ends:\n{once:?}\n{again:?}");
    }
}

#[test]
fn one_process_keyed() {
    hold_all("one process, keyed engine", |_| Plan { nodes: 1, mode: Mode::Keyed, bug: None });
}

#[test]
fn one_process_unkeyed() {
    hold_all("one process, unkeyed engine", |_| Plan { nodes: 1, mode: Mode::Unkeyed, bug: None });
}

#[test]
fn two_processes_keyed() {
    hold_all("two processes, keyed engine", |_| Plan { nodes: 2, mode: Mode::Keyed, bug: None });
}

#[test]
fn two_processes_unkeyed() {
    hold_all("two processes, unkeyed engine", |_| Plan { nodes: 2, mode: Mode::Unkeyed, bug: None });
}

/// Every planted bug is caught. The seed that `docs/simulation.md` names for it is tried first; where the core has moved
/// since, the first 250 are, and the row to put into that table is printed.
#[test]
#[allow(clippy::print_stdout, reason = "the rows are for the docs")]
fn planted_bugs_are_caught() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let plan = Plan { nodes: 2, mode: bug.mode(), bug: Some(bug) };
        let seeds = std::iter::once(bug.caught_by()).chain(0..250);
        match seeds.into_iter().find_map(|seed| run(seed, plan).err().map(|breach| (seed, breach))) {
            Some((seed, breach)) => println!("| `{bug:?}` | {seed} | {breach:.120} |"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
