//! Tests for an audit log that cannot be written.

use std::fs;

use futures_util::FutureExt as _;
use serde_json::json;

use super::{KEYS, log, of_event, place, stopped, to_file};
use crate::support::{Client, Fault, Modern, Numbers, Place};

const FULL: &str = "to = [\"file\"]\npath = \"/dev/full\"\n";

/// With `on_failure = "refuse"`, nothing starts while the audit log cannot be written.
#[tokio::test]
async fn refuse_mode_blocks_unaudited_actions() {
    let place = place(&format!("{FULL}on_failure = \"refuse\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n"));
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let Fault::Refused { code, .. } = ann.start("job", json!({})).await.unwrap_err() else {
        panic!("it is no answer")
    };
    assert_eq!(code, -32603);
    assert_eq!(ann.list().await.unwrap().len(), 0, "nothing was started");
    let numbers = Numbers::read(&server.metrics_url()).await;
    assert!(numbers.sum("taskbridge_audit_failures_total", &[]) >= 1.0);
    let told = |event| numbers.sum("taskbridge_audit_events_total", &[("event", event)]);
    assert_eq!((told("call.received"), told("task.created")), (1.0, 0.0));
    server.stop();
    let log = fs::read_to_string(place.path("server.log")).unwrap();
    assert!(log.contains("nothing may be done untold"), "{log}");
    assert_eq!(log.matches("cannot be written to the file; trying again").count(), 1, "{log}");
}

/// Without `on_failure = "refuse"`, calls continue, and the server log reports the lines that were lost.
#[tokio::test]
async fn default_mode_continues_without_audit() {
    let place = place(FULL);
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let task = ann.start("job", json!({})).await.unwrap();
    ann.result(&task).await.unwrap();
    assert_eq!(server.stop(), Some(0));
    let log = fs::read_to_string(place.path("server.log")).unwrap();
    assert!(log.contains("lines of the audit log could not be written"), "{log}");
}

/// A log that is writable again has all lines, in order, including the request that was refused meanwhile.
#[tokio::test]
async fn recovered_log_is_complete() {
    let place = to_file("on_failure = \"refuse\"\n");
    let server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let first = ann.start("job", json!({})).await.unwrap();
    ann.result(&first).await.unwrap();
    breaks(&place);
    ann.start("job", json!({})).await.unwrap_err();
    ann.cancel(&first).await.unwrap_err();
    assert_eq!(ann.list().await.unwrap().len(), 1, "nothing was started");
    works_again(&place);
    let second = ann.start("job", json!({})).await.unwrap();
    ann.result(&second).await.unwrap();
    stopped(&place, server).await;
    let lines = log(&place);
    assert_eq!(of_event(&lines, "task.created").len(), 2);
    let wished: Vec<_> =
        of_event(&lines, "call.received").iter().map(|line| line["detail"].clone()).collect();
    assert_eq!(wished, vec![json!({"verb": "call"}); 3], "one of them came to nothing");
    let at = |event: &str| lines.iter().position(|line| line["event"] == event).unwrap();
    assert!(at("call.received") < at("task.created"));
}

/// Makes the log unwritable: a directory replaces the file.
fn breaks(place: &Place) {
    fs::rename(place.path("audit.jsonl"), place.path("kept")).unwrap();
    fs::create_dir(place.path("audit.jsonl")).unwrap();
}

fn works_again(place: &Place) {
    fs::remove_dir(place.path("audit.jsonl")).unwrap();
    fs::rename(place.path("kept"), place.path("audit.jsonl")).unwrap();
}

/// With `on_failure = "refuse"`, neither an answer nor a stream delivers a result that cannot be audited.
#[tokio::test]
async fn refuse_mode_blocks_unaudited_reads() {
    let place = to_file("on_failure = \"refuse\"\n");
    let server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let modern = Modern::with_tasks(server.url()).with_key(KEYS[0].1);
    let task = ann.start("job", json!({})).await.unwrap();
    ann.result(&task).await.unwrap();
    breaks(&place);
    ann.result(&task).await.unwrap_err();
    modern.request("tasks/get", json!({"taskId": task})).await.unwrap_err();
    for part in ["log", "artifacts/a.txt"] {
        let uri = format!("taskbridge://tasks/{task}/{part}");
        ann.request("resources/read", json!({ "uri": uri })).await.unwrap_err();
    }
    let mut events = modern.follow(std::slice::from_ref(&task)).await.unwrap();
    while !fs::read_to_string(place.path("server.log")).unwrap().contains("a subscription cannot read") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(events.next().now_or_never().is_none(), "the result would have come by now");
    works_again(&place);
    let told = events.next().await.unwrap().expect("the stream goes on");
    assert_eq!(told["params"]["status"], "completed", "{told}");
    stopped(&place, server).await;
    let reads = log(&place);
    let reads = of_event(&reads, "result.read");
    assert!(
        reads.len() >= 3,
        "the first, what was asked for in vain, and what the stream handed out: {reads:?}"
    );
}
