//! Tests for an audit log that cannot be written.

use std::fs;

use futures_util::FutureExt as _;
use serde_json::json;

use super::{KEYS, dir_with_audit, dir_with_audit_file, filter_by_event, read_log, stop_and_verify};
use crate::support::{Client, Fault, MetricsScrape, ModernClient, TestDir};

const FULL: &str = "to = [\"file\"]\npath = \"/dev/full\"\n";

/// With `on_failure = "refuse"`, nothing starts while the audit log cannot be written.
#[tokio::test]
async fn refuse_mode_blocks_unaudited_actions() {
    let dir =
        dir_with_audit(&format!("{FULL}on_failure = \"refuse\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n"));
    let mut server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let Fault::Refused { code, .. } = ann.start("job", json!({})).await.unwrap_err() else {
        panic!("it is no answer")
    };
    assert_eq!(code, -32603);
    assert_eq!(ann.list().await.unwrap().len(), 0, "nothing was started");
    let numbers = MetricsScrape::read(&server.metrics_url()).await;
    assert!(numbers.sum("taskbridge_audit_failures_total", &[]) >= 1.0);
    let event_count = |event| numbers.sum("taskbridge_audit_events_total", &[("event", event)]);
    assert_eq!((event_count("call.received"), event_count("task.created")), (1.0, 0.0));
    server.stop();
    let log = fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("the audit log is unavailable, so the request is refused"), "{log}");
    assert_eq!(log.matches("cannot be written to the file; retrying").count(), 1, "{log}");
}

/// Without `on_failure = "refuse"`, calls continue, and the server log reports the lines that were lost.
#[tokio::test]
async fn default_mode_continues_without_audit() {
    let dir = dir_with_audit(FULL);
    let mut server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let task = ann.start("job", json!({})).await.unwrap();
    ann.result(&task).await.unwrap();
    assert_eq!(server.stop(), Some(0));
    let log = fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("cannot be written to the file lines="), "{log}");
}

/// A log that is writable again has all lines, in order, including the request that was refused meanwhile.
#[tokio::test]
async fn recovered_log_is_complete() {
    let dir = dir_with_audit_file("on_failure = \"refuse\"\n");
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let first = ann.start("job", json!({})).await.unwrap();
    ann.result(&first).await.unwrap();
    break_log(&dir);
    ann.start("job", json!({})).await.unwrap_err();
    ann.cancel(&first).await.unwrap_err();
    assert_eq!(ann.list().await.unwrap().len(), 1, "nothing was started");
    restore_log(&dir);
    let second = ann.start("job", json!({})).await.unwrap();
    ann.result(&second).await.unwrap();
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(filter_by_event(&lines, "task.created").len(), 2);
    let call_details: Vec<_> =
        filter_by_event(&lines, "call.received").iter().map(|line| line["detail"].clone()).collect();
    assert_eq!(call_details, vec![json!({"verb": "call"}); 3], "one of them came to nothing");
    let index_of = |event: &str| lines.iter().position(|line| line["event"] == event).unwrap();
    assert!(index_of("call.received") < index_of("task.created"));
}

/// Makes the log unwritable: a directory replaces the file.
fn break_log(dir: &TestDir) {
    fs::rename(dir.path("audit.jsonl"), dir.path("kept")).unwrap();
    fs::create_dir(dir.path("audit.jsonl")).unwrap();
}

fn restore_log(dir: &TestDir) {
    fs::remove_dir(dir.path("audit.jsonl")).unwrap();
    fs::rename(dir.path("kept"), dir.path("audit.jsonl")).unwrap();
}

/// With `on_failure = "refuse"`, neither an answer nor a stream delivers a result that cannot be audited.
#[tokio::test]
async fn refuse_mode_blocks_unaudited_reads() {
    let dir = dir_with_audit_file("on_failure = \"refuse\"\n");
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let modern = ModernClient::with_tasks(server.url()).with_key(KEYS[0].1);
    let task = ann.start("job", json!({})).await.unwrap();
    ann.result(&task).await.unwrap();
    break_log(&dir);
    ann.result(&task).await.unwrap_err();
    modern.request("tasks/get", json!({"taskId": task})).await.unwrap_err();
    for part in ["log", "artifacts/a.txt"] {
        let uri = format!("taskbridge://tasks/{task}/{part}");
        ann.request("resources/read", json!({ "uri": uri })).await.unwrap_err();
    }
    let mut events = modern.subscribe_to_tasks(std::slice::from_ref(&task)).await.unwrap();
    while !fs::read_to_string(dir.path("server.log")).unwrap().contains("a subscription cannot read") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(events.next().now_or_never().is_none(), "the result would have come by now");
    restore_log(&dir);
    let notification = events.next().await.unwrap().expect("the stream goes on");
    assert_eq!(notification["params"]["status"], "completed", "{notification}");
    stop_and_verify(&dir, server).await;
    let reads = read_log(&dir);
    let reads = filter_by_event(&reads, "result.read");
    assert!(
        reads.len() >= 3,
        "the first, what was asked for in vain, and what the stream handed out: {reads:?}"
    );
}
