//! Tests of takeover after a kill: another server on the same file continues the work at once, without
//! waiting for the leases to expire. Leases last ten minutes here, so that expiry cannot explain the result.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{BASICS, Client, PROGRAM, Server, SimProcess, TestDir, text};

/// Timeout of any step, far shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(30);

const LEASES: &str = "[reconciler]\nlease = \"10m\"\nquickest_look = \"50ms\"\nslowest_look = \"200ms\"\n";

const COMMAND: &str = r#"
[backends.here]
kind = "local"

[tools.job]
backend = "here"
target.command = ["sh", "-c", "sleep 0.3; echo done"]
"#;

async fn result(client: &Client, task: &str) -> String {
    let result = tokio::time::timeout(TIMEOUT, client.result(task)).await;
    text(&result.expect("the task moves on long before the lease is over").unwrap())
}

async fn status(client: &Client, task: &str) -> String {
    client.get(task).await.unwrap()["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn restart_after_kill_resumes_at_once() {
    let dir = TestDir::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.kill();
    let server = dir.serve();
    assert_eq!(result(&client.at(server.url()), &task).await, "done\n");
}

#[tokio::test]
async fn neighbour_takes_over_killed_server() {
    let dir = TestDir::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let mut server = dir.serve();
    let neighbour = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.kill();
    assert_eq!(result(&client.at(neighbour.url()), &task).await, "done\n");
}

/// A frozen server still has its file lock, so it may continue at any moment.
#[tokio::test]
async fn frozen_server_keeps_its_leases() {
    let dir = TestDir::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.signal(Signal::STOP);
    let neighbour = dir.serve();
    let other_client = client.at(neighbour.url());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&other_client, &task).await, "working");
    server.signal(Signal::CONT);
    assert_eq!(result(&other_client, &task).await, "done\n");
}

/// Like two containers that share a volume: neither sees the processes of the other.
#[tokio::test]
async fn killed_container_frees_its_leases() {
    let namespace_args = ["--pid", "--fork", "--kill-child=KILL"];
    let probe = Command::new("unshare").args(namespace_args).arg("true").status();
    if !probe.is_ok_and(|status| status.success()) {
        let message = "tried otherwise: two containers: this user cannot make a pid namespace, so two processes stand for them";
        writeln!(std::io::stderr(), "{message}").unwrap();
        return;
    }
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let config = format!(
        "{BASICS}{LEASES}\n[backends.sim]\nkind = \"sim\"\naddress = \"{}\"\n\n[tools.job]\nbackend = \"sim\"\n\
         target = {{}}\nparameters.text.type = \"string\"\nparameters.delay_ms.type = \"integer\"\n",
        engine.address
    );
    std::fs::write(dir.config(), config).unwrap();
    let container = |log: &str| {
        let mut command = Command::new("unshare");
        command.args(namespace_args).arg(PROGRAM).args(["serve", "--config"]).arg(dir.config());
        dir.prepare(&mut command);
        let mut server = Server::spawn(command, &dir.path(log));
        server.wait_until_it_listens();
        server
    };
    let (mut first, second) = (container("first.log"), container("server.log"));
    let client = Client::open(first.url()).await.unwrap();
    let task = client.start("job", json!({"text": "hello", "delay_ms": 2000})).await.unwrap();
    let other_client = client.at(second.url());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(status(&other_client, &task).await, "working");
    let log = || std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(!log().contains("no longer run"), "both live: {}", log());
    first.kill();
    assert_eq!(result(&other_client, &task).await, "hello");
    assert_eq!(engine.started().len(), 1);
    assert!(log().contains("these processes no longer run: their leases end"), "{}", log());
}
