//! Tests of takeover after a kill: another server on the same file continues the work at once, without
//! waiting for the leases to expire. Leases last ten minutes here, so that expiry cannot explain the result.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{BASICS, Client, PROGRAM, Place, Server, SimProcess, text};

/// Timeout of any step, far shorter than a lease.
const PATIENCE: Duration = Duration::from_secs(30);

const LEASES: &str = "[reconciler]\nlease = \"10m\"\nquickest_look = \"50ms\"\nslowest_look = \"200ms\"\n";

const COMMAND: &str = r#"
[backends.here]
kind = "local"

[tools.job]
backend = "here"
target.command = ["sh", "-c", "sleep 0.3; echo done"]
"#;

async fn result(client: &Client, task: &str) -> String {
    let result = tokio::time::timeout(PATIENCE, client.result(task)).await;
    text(&result.expect("the task moves on long before the lease is over").unwrap())
}

async fn status(client: &Client, task: &str) -> String {
    client.get(task).await.unwrap()["status"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn restart_after_kill_resumes_at_once() {
    let place = Place::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let mut server = place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.kill();
    let server = place.serve();
    assert_eq!(result(&client.at(server.url()), &task).await, "done\n");
}

#[tokio::test]
async fn neighbour_takes_over_killed_server() {
    let place = Place::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let mut server = place.serve();
    let neighbour = place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.kill();
    assert_eq!(result(&client.at(neighbour.url()), &task).await, "done\n");
}

/// A frozen server still has its file lock, so it may continue at any moment.
#[tokio::test]
async fn frozen_server_keeps_its_leases() {
    let place = Place::new(&format!("{BASICS}{LEASES}{COMMAND}"));
    let server = place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    server.signal(Signal::STOP);
    let neighbour = place.serve();
    let elsewhere = client.at(neighbour.url());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(status(&elsewhere, &task).await, "working");
    server.signal(Signal::CONT);
    assert_eq!(result(&elsewhere, &task).await, "done\n");
}

/// Like two containers that share a volume: neither sees the processes of the other.
#[tokio::test]
async fn killed_container_frees_its_leases() {
    let alone = ["--pid", "--fork", "--kill-child=KILL"];
    let can = Command::new("unshare").args(alone).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        let words = "tried otherwise: two containers: this user cannot make a pid namespace, so two processes stand for them";
        writeln!(std::io::stderr(), "{words}").unwrap();
        return;
    }
    let place = Place::new("");
    let engine = SimProcess::start(&place, "keyed");
    let config = format!(
        "{BASICS}{LEASES}\n[backends.sim]\nkind = \"sim\"\naddress = \"{}\"\n\n[tools.job]\nbackend = \"sim\"\n\
         target = {{}}\nparameters.text.type = \"string\"\nparameters.delay_ms.type = \"integer\"\n",
        engine.address
    );
    std::fs::write(place.config(), config).unwrap();
    let container = |log: &str| {
        let mut command = Command::new("unshare");
        command.args(alone).arg(PROGRAM).args(["serve", "--config"]).arg(place.config());
        place.settle(&mut command);
        let mut server = Server::spawn(command, &place.path(log));
        server.wait_until_it_listens();
        server
    };
    let (mut first, second) = (container("first.log"), container("server.log"));
    let client = Client::open(first.url()).await.unwrap();
    let task = client.start("job", json!({"text": "hello", "delay_ms": 2000})).await.unwrap();
    let elsewhere = client.at(second.url());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(status(&elsewhere, &task).await, "working");
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    assert!(!log.contains("have died"), "both live: {log}");
    first.kill();
    assert_eq!(result(&elsewhere, &task).await, "hello");
    assert_eq!(engine.started().len(), 1);
}
