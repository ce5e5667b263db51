//! Load test: many live tasks and many blocked `tasks/result` calls in one server. It expects no errors and
//! bounded memory. A finished task wakes only its own waiters, and waiting callers use no CPU.
//!
//! `$TASKBRIDGE_CROWD_TASKS` and `$TASKBRIDGE_CROWD_BLOCKED` set the counts.
//! `$TASKBRIDGE_CROWD_IDLE_PERCENT` is the limit of one core for an idle server. It is measured over
//! `$TASKBRIDGE_CROWD_IDLE_SECONDS`, after a settling time of the same length.

#![allow(clippy::print_stdout, reason = "the figures are part of the test's output")]

mod listeners;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{BASICS, Client, Fault, TestApp, TestDir, knob, raise_file_limit, text};

/// Number of concurrent requests while tasks are created and cancelled.
const CONCURRENCY: usize = 32;

/// Number of tasks that are ended one by one to measure the cost of an end.
const ENDED_TASKS: usize = 200;

/// Memory limit of the server, in MiB.
const MAX_MIB: u64 = 150;

/// Polls have the interval of jobs older than five minutes from the start, so the test need not wait for the
/// steady state. Ends are still seen at once, because the engine sends hints.
const CONFIG: &str = r#"
[reconciler]
quickest_look = "30s"

[backends.engine]
kind = "sim"

[tools.job]
backend = "engine"
target = {}
parameters.delay_ms.type = "integer"
parameters.text.type = "string"
"#;

/// Duration of a job that the test never waits for.
const ENDLESS_MS: u64 = 3_600_000;

/// Creates tasks, several concurrently.
async fn start(client: &Client, numbers: std::ops::Range<usize>, delay_ms: u64) -> Vec<(usize, String)> {
    let (mut running, mut tasks, mut numbers) = (JoinSet::new(), Vec::new(), numbers);
    loop {
        while running.len() < CONCURRENCY
            && let Some(number) = numbers.next()
        {
            let client = client.clone();
            let arguments = json!({"delay_ms": delay_ms, "text": number.to_string()});
            running.spawn(async move { (number, client.start("job", arguments).await.unwrap()) });
        }
        match running.join_next().await {
            Some(task) => tasks.push(task.unwrap()),
            None => return tasks,
        }
    }
}

/// Measures the server's CPU time per task end, with tasks ended one after another.
async fn measure_end_cost(app: &TestApp, client: &Client, numbers: std::ops::Range<usize>) -> Duration {
    let tasks = start(client, numbers, ENDLESS_MS).await;
    let before = app.server.cpu();
    for (_, task) in &tasks {
        client.cancel(task).await.unwrap();
    }
    (app.server.cpu() - before) / u32::try_from(tasks.len()).unwrap()
}

/// Thousands of running tasks and hundreds of waiting calls cost little while nothing changes.
#[tokio::test(flavor = "multi_thread")]
async fn load_keeps_cpu_and_memory_bounded() {
    let task_count: usize = knob("TASKBRIDGE_CROWD_TASKS", 2_000);
    let blocked_count: usize = knob("TASKBRIDGE_CROWD_BLOCKED", 200);
    let idle_percent: f64 = knob("TASKBRIDGE_CROWD_IDLE_PERCENT", 5.0);
    let idle_seconds: u64 = knob("TASKBRIDGE_CROWD_IDLE_SECONDS", 3);
    raise_file_limit();
    let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
    // A user session usually has a soft file limit that is too low for this load. The server raises it.
    let app = TestApp { server: dir.serve_with_limits("ulimit -S -n 100"), dir };
    let client = app.client().await;

    let started_at = Instant::now();
    start(&client, 0..task_count - blocked_count, ENDLESS_MS).await;
    let unloaded_cost = measure_end_cost(&app, &client, 0..ENDED_TASKS).await;
    println!("crowd: {task_count} tasks made within {:.1} s", started_at.elapsed().as_secs_f64());

    // These jobs end while callers wait for them, all at once.
    let job_ms = u64::try_from(blocked_count).unwrap() * 10 + (idle_seconds * 2 + 45) * 1_000;
    let tasks = start(&client, 0..blocked_count, job_ms).await;
    let created_at = Instant::now();
    let mut waiting: JoinSet<(usize, Result<Value, Fault>)> = JoinSet::new();
    for (number, task) in tasks {
        let client = client.clone();
        waiting.spawn(async move { (number, client.result(&task).await) });
    }
    let loaded_cost = measure_end_cost(&app, &client, 0..ENDED_TASKS).await;
    println!(
        "crowd: the end of a task costs {unloaded_cost:?} alone, {loaded_cost:?} while {blocked_count} others are waited for"
    );
    assert!(
        loaded_cost < unloaded_cost * 3 + Duration::from_millis(1),
        "an end wakes more than those who wait for it"
    );

    // The first poll of a job writes its observation. Later polls find no change.
    tokio::time::sleep(Duration::from_secs(idle_seconds)).await;
    let (before, since) = (app.server.cpu(), Instant::now());
    tokio::time::sleep(Duration::from_secs(idle_seconds)).await;
    let idle = (app.server.cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0;
    println!("crowd: {idle:.2} % of a core while nothing happens");
    assert!(idle < idle_percent, "a server that has nothing to do uses {idle:.2} % of a core");
    assert!(
        created_at.elapsed() < Duration::from_millis(job_ms),
        "the machine is too slow for this measurement"
    );
    assert!(waiting.try_join_next().is_none(), "a result came before its job had ended");

    let mib = app.server.memory_kib() / 1024;
    println!("crowd: {mib} MiB with {task_count} live tasks and {blocked_count} blocked calls");
    assert!(mib < MAX_MIB, "the server holds {mib} MiB");

    while let Some(answer) = waiting.join_next().await {
        let (number, result) = answer.unwrap();
        assert_eq!(text(&result.unwrap()), number.to_string(), "everybody gets the result that is theirs");
    }
    println!("crowd: all results came {:.1} s after the tasks were made", created_at.elapsed().as_secs_f64());
}
