//! Tests that replace the config while the real program serves: by its files, and by SIGHUP. They check what
//! clients receive, what happens to earlier calls and tasks, and which changes are refused.

mod applied;
mod backends;
mod discovered;
mod links;
mod lists;
mod refused;
mod rules;
mod signals;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{BASICS, Client, Events, TestApp, TestDir};

/// Timeout for anything in these tests.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A backend, and a tool that prints a line.
const ONE: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
description = "Says hello."
backend = "here"
target.command = ["echo", "hello"]
"#;

/// Returns a tool whose job creates a file `begun` next to the config, waits for a file `go`, and then prints
/// `over`.
fn waiting_tool(name: &str, backend: &str) -> String {
    let script = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo over";
    format!(
        "[tools.{name}]\nbackend = \"{backend}\"\n\
         target = {{ command = [\"sh\", \"-c\", \"{script}\"], working_dir = \".\" }}\n"
    )
}

/// Replaces the served config atomically, as editors do: writes a new file, then renames it.
fn replace_config(dir: &TestDir, config: &str) {
    std::fs::write(dir.path("taskbridge.new"), format!("{BASICS}{config}")).unwrap();
    std::fs::rename(dir.path("taskbridge.new"), dir.config()).unwrap();
}

/// Waits until a job of [`waiting_tool`] runs.
async fn wait_for_job_start(dir: &TestDir) {
    let started = tokio::time::timeout(TIMEOUT, async {
        while !dir.path("begun").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    started.await.expect("no job begins");
}

/// Lets the jobs of [`waiting_tool`] end.
fn release_jobs(dir: &TestDir) {
    std::fs::write(dir.path("go"), "").unwrap();
}

/// Waits until the server's log contains `expected`, and returns the line.
async fn wait_for_log(dir: &TestDir, expected: &str) -> String {
    wait_for_nth_log(dir, expected, 1).await
}

/// Waits until `expected` is logged this many times, and returns the last line.
async fn wait_for_nth_log(dir: &TestDir, expected: &str, times: usize) -> String {
    let log = || std::fs::read_to_string(dir.path("server.log")).unwrap();
    let found = tokio::time::timeout(TIMEOUT, async {
        loop {
            if let Some(line) = log().lines().filter(|line| line.contains(expected)).nth(times - 1) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{expected:?} is not logged {times} times:\n{}", log()))
}

/// Returns the names of the listed tools, without the server's own.
async fn tools(client: &Client) -> Vec<String> {
    let listed = client.request("tools/list", json!({})).await.unwrap();
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.filter(|name| !name.starts_with("task_")).map(str::to_owned).collect()
}

/// Returns the next message of a stream.
async fn next_message(events: &mut Events) -> Value {
    let next = tokio::time::timeout(TIMEOUT, events.next()).await;
    next.expect("nothing is heard").unwrap().expect("the stream ended")
}

/// Waits until a stream ends.
async fn wait_for_end(events: &mut Events) {
    let ended = tokio::time::timeout(TIMEOUT, async { while let Ok(Some(_)) = events.next().await {} });
    ended.await.expect("the stream goes on");
}

/// Starts a server with [`ONE`] and `more`.
fn start(more: &str) -> TestApp {
    TestApp::start(&format!("{ONE}{more}"))
}
