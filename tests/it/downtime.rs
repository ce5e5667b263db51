//! A server is down for longer than every deadline of its tasks. Results from the downtime are delivered,
//! and a repeated call starts no second job. The test kills the real binary with SIGKILL; the jobs survive
//! it.

use std::time::Duration;

use serde_json::json;

use crate::support::{BASICS, Client, TestDir, text};

/// A command of about one second with a `max_runtime` of two. Its row would expire after four seconds if the
/// expiry were not extended after the downtime.
const CONFIG: &str = r#"
[lifetime]
min_ttl = "1s"
default_ttl = "1s"
keep_result = "2s"

[backends.machine]
kind = "local"
working_dir = "runs"

[tools.short]
backend = "machine"
target.command = ["sh", "-c", "echo ran >>ran; sleep 1; echo the result"]
max_runtime = "2s"
"#;

/// The job ends while the server is down. The server returns after `max_runtime` and after the original
/// expiry.
#[tokio::test(flavor = "multi_thread")]
async fn downtime_past_deadline_keeps_result() {
    let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
    std::fs::create_dir(dir.path("runs")).unwrap();
    let run_log = || std::fs::read_to_string(dir.path("runs/ran")).unwrap_or_default();
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start_once("key", "short", json!({})).await.unwrap();
    while run_log().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.kill();
    // Longer than `max_runtime` and `keep_result` together, counted from the creation of the task.
    tokio::time::sleep(Duration::from_secs(5)).await;

    let server = dir.serve();
    let client = client.at(server.url());
    let repeated = client.start_once("key", "short", json!({})).await.unwrap();
    assert_eq!(repeated, task, "the key still names the first task");
    let result = client.result(&task).await.unwrap();
    assert_eq!(text(&result).trim_end(), "the result");
    assert_eq!(run_log(), "ran\n", "one job for one key");
}
