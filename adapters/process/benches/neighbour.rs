//! What a hostile program costs its neighbour: the time of calls to a healthy program in the same process,
//! alone and beside a program that floods, hangs, writes garbage or dies.
//!
//! `cargo bench -p taskbridge-process --bench neighbour`. Rounds with and without the hostile program take
//! turns, so that other load on the machine affects both. The figure of a round is its median call. Beside
//! nothing shows what other load makes of equal rounds.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a bench is its own app")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use taskbridge_process::{Config, Process};
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, ErrorKind, JobHandle};

const ROUNDS: usize = 12;
const CALLS: usize = 2000;
/// Time for a call of the hostile program: it may never answer.
const SHORT: Duration = Duration::from_millis(500);

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

fn median<T: Copy + Ord>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

async fn connect(folder: &Path, script: &str, mode: &str, limit: Duration) -> Arc<dyn Backend> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(script);
    let config: Config = serde_json::from_value(json!({"command": ["python3", program, mode]})).unwrap();
    let context = ConnectContext {
        name: mode.to_owned(),
        config_dir: folder.to_owned(),
        state_dir: folder.to_owned(),
        program: env!("CARGO_BIN_EXE_taskbridge-process-launcher").into(),
        call_timeout: limit,
    };
    // A machine may be too busy to start a program within a short time.
    loop {
        match Process::connect(config.clone(), &context).await {
            Ok(backend) => return backend,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
}

/// What one round measured.
struct Round {
    /// The median time of a call.
    call: Duration,
    /// The time of the slowest of 100 calls.
    slow: Duration,
    /// CPU time of this process, per call, with what the hostile program costs it.
    cpu: Duration,
}

async fn round(backend: &Arc<dyn Backend>) -> Round {
    let (handle, cpu, mut times) = (JobHandle::new("a-job"), cpu_time(), Vec::with_capacity(CALLS));
    for _ in 0..CALLS {
        let began = Instant::now();
        backend.observe(&handle).await.unwrap();
        times.push(began.elapsed());
    }
    let cpu = (cpu_time() - cpu) / CALLS as u32;
    times.sort_unstable();
    Round { call: times[CALLS / 2], slow: times[CALLS * 99 / 100], cpu }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let healthy = connect(folder.path(), "program.py", "healthy", Duration::from_secs(60)).await;
    round(&healthy).await;
    println!(
        "{:15} {:>25} {:>25} {:>25}",
        "beside", "median call, us", "99 of 100 within, us", "CPU per call, us"
    );
    // How long the program runs before a round: its first burst is over, or not.
    let now = Duration::ZERO;
    let later = Duration::from_secs(4);
    for (mode, before) in
        [("nothing", now), ("flood", now), ("flood", later), ("hang", now), ("garbage", now), ("die", now)]
    {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(round(&healthy).await);
            let hostile = match mode {
                "nothing" => None,
                _ => Some(connect(folder.path(), "hostile.py", mode, SHORT).await),
            };
            // The server keeps polling it.
            let polls = hostile.map(|hostile| {
                let handle = JobHandle::new("another-job");
                tokio::spawn(async move {
                    loop {
                        let _ = hostile.observe(&handle).await;
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                })
            });
            tokio::time::sleep(before).await;
            beside.push(round(&healthy).await);
            if let Some(polls) = polls {
                polls.abort();
                let _ = polls.await;
                // The program ends.
                tokio::time::sleep(SHORT).await;
            }
        }
        let figure = |of: fn(&Round) -> Duration| {
            let [alone, beside] = [&alone, &beside].map(|rounds| median(rounds.iter().map(of).collect()));
            format!("{:.0} / {:.0} = {:.2}", micros(beside), micros(alone), micros(beside) / micros(alone))
        };
        let figures = [figure(|round| round.call), figure(|round| round.slow), figure(|round| round.cpu)];
        let mode = if before.is_zero() { mode.to_owned() } else { format!("{mode}, after {before:?}") };
        println!("{mode:15} {:>25} {:>25} {:>25}", figures[0], figures[1], figures[2]);
    }
}
