//! What a call over standard input and output costs the server: CPU time of this process, without the
//! program's.
//!
//! `cargo bench -p taskbridge-process`. It fails if a call costs more than [`MAX_CALL`].

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that prints its figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use taskbridge_process::{Config, Process};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, JobHandle, Subject};

/// Maximum CPU time of one call.
const MAX_CALL: Duration = Duration::from_micros(150);
const CALLS: u32 = 20_000;
const JOBS: usize = 1000;
const POLLS: u32 = 200;

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

/// Prints what one of `count` repetitions cost, and returns its CPU time.
async fn measure(what: &str, count: u32, work: impl Future<Output = ()>) -> Duration {
    let (cpu, began) = (cpu_time(), Instant::now());
    work.await;
    let (cpu, wall) = ((cpu_time() - cpu) / count, began.elapsed() / count);
    println!("{what:42} {:8.1} us of CPU {:8.1} us", cpu.as_secs_f64() * 1e6, wall.as_secs_f64() * 1e6);
    cpu
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/program.py");
    let config: Config = serde_json::from_value(json!({"command": ["python3", program]})).unwrap();
    let context = ConnectContext {
        name: "bench".to_owned(),
        config_dir: folder.path().to_owned(),
        state_dir: folder.path().to_owned(),
        program: env!("CARGO_BIN_EXE_taskbridge-process-launcher").into(),
        call_timeout: Duration::from_secs(60),
    };
    let backend: Arc<dyn Backend> = Process::connect(config, &context).await.unwrap();
    let handle = JobHandle::new("a-job");

    let one = measure("a poll, one at a time", CALLS, async {
        for _ in 0..CALLS {
            backend.observe(&handle).await.unwrap();
        }
    });
    let one = one.await;
    let many = measure("a poll, 16 at a time", CALLS, async {
        let polls = (0..16).map(|_| {
            let (backend, handle) = (Arc::clone(&backend), handle.clone());
            async move {
                for _ in 0..CALLS / 16 {
                    backend.observe(&handle).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(polls).await;
    });
    let many = many.await;
    let start = measure("a start with 1 KiB of arguments", CALLS, async {
        for _ in 0..CALLS {
            backend.start(&job(json!({"function": "f"}), json!({"text": "x".repeat(1024)}))).await.unwrap();
        }
    });
    let start = start.await;
    let handles: Vec<JobHandle> = (0..JOBS).map(|n| JobHandle::new(format!("job-{n:020}"))).collect();
    let (group, subjects) = (backend.group(&handle), Subject::watched(&handles));
    let all = measure("a poll of 1,000 jobs in one message", POLLS, async {
        for _ in 0..POLLS {
            let seen = backend.observe_all(&group, &subjects).await;
            assert!(seen.len() == JOBS && seen.iter().all(Result::is_ok));
        }
    });
    let all = all.await;
    println!("{:42} {:8.2} us of CPU", "of it, for each job", all.as_secs_f64() * 1e6 / JOBS as f64);
    for cost in [one, many, start] {
        assert!(cost <= MAX_CALL, "a call costs {cost:?}, and at most {MAX_CALL:?} is allowed");
    }
}
