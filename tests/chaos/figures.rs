//! The printed figures of a run: how calls ended, what clients saw, and the latency of calls to healthy
//! engines. It must not judge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::callers::FinishedCall;
use super::load::Phase;
use super::plan::Ending;
use super::world::World;

/// Prints the number of calls per ending, the number of jobs, and what clients saw.
pub(super) fn print<'a>(
    world: &World,
    finished: &'a [FinishedCall],
    tasks: usize,
    jobs_of: impl Fn(&'a FinishedCall) -> &'a [Option<Ending>],
) {
    let mut figures = BTreeMap::new();
    let mut add = |label: String, number: usize| *figures.entry(label).or_insert(0) += number;
    for call in finished {
        let engine = call.plan.engine.as_str();
        add(format!("{engine}: calls accepted"), 1);
        add(format!("{engine}: jobs started"), jobs_of(call).len());
        add(format!("{engine}: calls with more than one job"), usize::from(jobs_of(call).len() > 1));
        let outcome = match &call.ending {
            Ending::Succeeded(_) => "succeeded",
            Ending::Failed(_) => "failed",
            Ending::Cancelled if jobs_of(call).is_empty() => "cancelled before the job was started",
            Ending::Cancelled => "cancelled",
            Ending::Uncertain if jobs_of(call).is_empty() => "uncertain, and there was no job",
            Ending::Uncertain => "uncertain, and there was a job",
            Ending::GivenUp => "given up after repeated panics of the adapter",
            Ending::Other(_) => "ended otherwise",
        };
        add(format!("{engine}: {outcome}"), 1);
    }
    println!("chaos: {:6} tasks in the database", tasks);
    for (label, number) in figures {
        println!("chaos: {number:6} {label}");
    }
    for (label, number) in world.event_counts() {
        println!("chaos: {number:6} {label}");
    }
    print_overheads(finished);
}

/// Prints for each phase the duration of calls to healthy engines beyond their jobs'.
fn print_overheads(finished: &[FinishedCall]) {
    let mut phases: BTreeMap<Phase, Vec<Duration>> = BTreeMap::new();
    for call in finished {
        let has_result = matches!(call.ending, Ending::Succeeded(_) | Ending::Failed(_));
        if let Some(phase) = call.phase.filter(|_| call.plan.is_measured() && has_result) {
            phases.entry(phase).or_default().push(call.overhead);
        }
    }
    println!("chaos: from a call to its end, less the length of its job, healthy engines:");
    for (phase, mut overheads) in phases {
        overheads.sort_unstable();
        let [p50, p99, longest] = [50, 99, 100].map(|percent| percentile(&overheads, percent).as_secs_f64());
        let label = match phase {
            Phase::Quiet => "nothing breaks",
            Phase::EngineFaults => "beside an engine that hangs and an adapter that panics",
            Phase::AllFaults => "beside everything",
        };
        let calls = overheads.len();
        println!(
            "chaos: {calls:6} calls, p50 {p50:6.3} s, p99 {p99:6.3} s, longest {longest:6.3} s: {label}"
        );
    }
}

/// Returns a percentile of sorted times, of which there must be at least one.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}
