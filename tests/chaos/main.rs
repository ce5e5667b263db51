//! Chaos test: three replicas on one database, under load, with all kinds of faults. Replicas are killed
//! (-9), frozen past their leases and resumed, and their configs change one after another. The database is
//! restarted, cut off and runs out of disk. Connections are reset, and clocks are set, including the
//! database's. One engine hangs, and the adapter of another panics. All processes are real. The jobs run in
//! engines that are separate processes, record every start before they reply to it, and lose some requests
//! and replies themselves.
//!
//! At the end (`verdict.rs`), every call has one task and one outcome, which is that of its job. A keyed
//! engine has exactly one job per call. An engine without keys never has more than one, and uncertain calls
//! are counted. `docs/chaos.md` documents the sizes, the replay of a run, and figures.

#![allow(clippy::print_stdout, reason = "the figures are part of the test's output")]
#![allow(clippy::unwrap_used, reason = "a test that finds nothing to unwrap has failed")]

mod callers;
mod clock;
mod config;
mod disk;
mod faults;
mod figures;
mod load;
mod plan;
mod roll;
#[path = "../it/support/mod.rs"]
mod support;
mod verdict;
mod world;

use std::sync::Arc;
use std::time::Instant;

use crate::support::{Random, knob};

use faults::Sizes;
use world::World;

/// This is true whatever fails meanwhile: replicas, database, network, disk, clocks or engines.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_has_one_outcome() {
    let sizes = Sizes {
        calls: knob("TASKBRIDGE_CHAOS_CALLS", 240),
        callers: knob("TASKBRIDGE_CHAOS_CALLERS", 24),
        quiet: knob("TASKBRIDGE_CHAOS_QUIET", 24),
        kills: knob("TASKBRIDGE_CHAOS_KILLS", 3),
        freezes: knob("TASKBRIDGE_CHAOS_FREEZES", 2),
        restarts: knob("TASKBRIDGE_CHAOS_RESTARTS", 1),
        cuts: knob("TASKBRIDGE_CHAOS_CUTS", 1),
        resets: knob("TASKBRIDGE_CHAOS_RESETS", 3),
        fills: knob("TASKBRIDGE_CHAOS_FILLS", 1),
        jumps: knob("TASKBRIDGE_CHAOS_JUMPS", 1),
        hangs: knob("TASKBRIDGE_CHAOS_HANGS", 1),
        panics: knob("TASKBRIDGE_CHAOS_PANICS", 1),
        steps: knob("TASKBRIDGE_CHAOS_STEPS", 1),
        rolls: knob("TASKBRIDGE_CHAOS_ROLLS", 1),
    };
    let seed: u64 = knob("TASKBRIDGE_CHAOS_SEED", 1);
    println!("chaos: {sizes:?}, replay with TASKBRIDGE_CHAOS_SEED={seed}");
    let started_at = Instant::now();
    let mut random = Random::new(seed);
    let world = Arc::new(World::begin(&mut random, sizes.rolls == 0).await);
    let load = load::Load::new(&sizes, seed);
    let injection = faults::inject_all(Arc::clone(&world), &load, sizes, random.clone());
    let (finished, ()) = tokio::join!(callers::call_all(&world, &load), injection);
    println!("chaos: the last answer came after {:.1} s", started_at.elapsed().as_secs_f64());
    let world = Arc::into_inner(world).expect("nobody strikes or calls any more");
    verdict::check_all(world, sizes, &load, finished).await;
    println!("chaos: over after {:.1} s", started_at.elapsed().as_secs_f64());
}
