//! Tests that a server releases all leases when it stops, so that another one continues at once and not when
//! a lease expires. The leases here are longer than any timeout of the tests.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{Client, Server, SimProcess, TestDir, text};

/// Timeout for something that must happen: shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(60);

fn config(schema: &str, engine: &str, stop_within: &str) -> String {
    let url = shared().url();
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000
stop_within = "{stop_within}"

[auth]
single_user = true

[store]
kind = "postgres"
url = "{url}"
schema = "{schema}"
backends_dir = "state"

[reconciler]
lease = "10m"
quickest_look = "20ms"

[backends.engine]
kind = "sim"
address = "{engine}"

[tools.job]
backend = "engine"
target = {{}}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#
    )
}

/// Counts rows of a table; `source` is the table and an optional condition.
async fn count(schema: &str, source: &str) -> i64 {
    let row = shared().client(schema).await.query_one(&format!("SELECT count(*) FROM {source}"), &[]).await;
    row.unwrap().get(0)
}

async fn wait_until(label: &str, condition: impl AsyncFn() -> bool) {
    let polls = tokio::time::timeout(TIMEOUT, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    polls.await.unwrap_or_else(|_| panic!("it never happens: {label}"));
}

#[tokio::test]
async fn groups_are_taken_over_at_once() {
    let dir = TestDir::new("");
    let (engine, schema) = (SimProcess::start(&dir, "keyed"), schema());
    std::fs::write(dir.config(), config(&schema, &engine.address, "10s")).unwrap();
    let mut first = dir.serve();
    let client = Client::open(first.url()).await.unwrap();
    let task = client.start("job", json!({"text": "done", "delay_ms": 3_000})).await.unwrap();
    wait_until("the first watches", async || count(&schema, "groups").await == 1).await;
    let mut second = dir.serve();
    assert_eq!(first.stop(), Some(0));
    let result = tokio::time::timeout(TIMEOUT, client.at(second.url()).result(&task)).await;
    assert_eq!(text(&result.expect("the second watches").unwrap()), "done");
    assert_eq!(engine.started().len(), 1);
    assert_eq!(second.stop(), Some(0));
}

/// Starts a server whose start request hangs, because its engine is frozen.
async fn start_hanging_server(dir: &TestDir, schema: &str, stop_within: &str) -> (SimProcess, Server) {
    let engine = SimProcess::start(dir, "keyed");
    std::fs::write(dir.config(), config(schema, &engine.address, stop_within)).unwrap();
    let server = dir.serve();
    engine.signal(Signal::STOP);
    let client = Client::open(server.url()).await.unwrap();
    client.start("job", json!({"text": "late", "delay_ms": 0})).await.unwrap();
    assert_eq!(count(schema, "tasks WHERE lease_holder IS NOT NULL").await, 1);
    (engine, server)
}

/// The next server starts the job whose start did not end in time.
#[tokio::test]
async fn shutdown_timeout_releases_leases() {
    let (dir, schema) = (TestDir::new(""), schema());
    let (engine, mut server) = start_hanging_server(&dir, &schema, "1s").await;
    assert_eq!(server.stop(), Some(0));
    assert_eq!(count(&schema, "tasks WHERE lease_holder IS NOT NULL").await, 0);
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("shutdown timed out"), "{log}");
    // The next server starts the job.
    engine.signal(Signal::CONT);
    let mut next = dir.serve();
    wait_until("the job is started", async || engine.started().len() == 1).await;
    assert_eq!(next.stop(), Some(0));
}

#[tokio::test]
async fn a_second_signal_waits_for_nothing() {
    let (dir, schema) = (TestDir::new(""), schema());
    let (_engine, mut server) = start_hanging_server(&dir, &schema, "1h").await;
    server.signal(Signal::TERM);
    let log = || std::fs::read_to_string(dir.path("server.log")).unwrap();
    wait_until("it stops", async || log().contains("stopping; a second signal")).await;
    assert_eq!(server.stop(), Some(0));
    assert_eq!(count(&schema, "tasks WHERE lease_holder IS NOT NULL").await, 1, "it left as it was");
}
