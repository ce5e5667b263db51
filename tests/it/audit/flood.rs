//! Tests for callers who guess ids or keys, and for callers who try to forge lines of the log.

use std::fs;

use serde_json::json;

use super::{KEYS, dir_with_audit_file, filter_by_event, read_log, stop_and_verify, wait_for_line};
use crate::support::{Client, ModernClient};

/// A caller who guesses ids raises one alert, and writes a limited number of lines.
#[tokio::test]
async fn guessed_ids_raise_one_alert() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let bob = Client::open_with_key(server.url(), KEYS[1].1).await.unwrap();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    for n in 0..150 {
        bob.get(&format!("guess-{n}")).await.unwrap_err();
    }
    ann.get("mistyped").await.unwrap_err();
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    let failed = filter_by_event(&lines, "lookup.failed");
    assert_eq!(failed.iter().filter(|line| line["who"]["name"] == "bob").count(), 100);
    assert_eq!(failed.iter().filter(|line| line["who"]["name"] == "ann").count(), 1);
    let suspicions = filter_by_event(&lines, "suspicion");
    assert_eq!(suspicions.len(), 1, "{suspicions:?}");
    assert_eq!(
        suspicions[0]["detail"],
        json!({"pattern": "many failed lookups", "subject": "owner bob", "count": 20, "seconds": 60})
    );
    let log = fs::read_to_string(dir.path("server.log")).unwrap();
    assert_eq!(log.matches("many failed lookups").count(), 1, "{log}");
}

/// Reads of one result by one caller write ten lines at most, and raise one alert.
#[tokio::test]
async fn repeated_reads_write_limited_lines() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let tasks = [ann.start("job", json!({})).await.unwrap(), ann.start("job", json!({})).await.unwrap()];
    for task in &tasks {
        for _ in 0..40 {
            ann.result(task).await.unwrap();
        }
    }
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(filter_by_event(&lines, "result.read").len(), 2 * 10, "ten of each");
    assert_eq!(filter_by_event(&lines, "suspicion").len(), 2);
}

/// Repeated cancellations and answers without an effect write no further lines.
#[tokio::test]
async fn repeated_noop_requests_log_once() {
    let deaf = "[tools.deaf]\nbackend = \"engine\"\ntarget = { delay_ms = 3600000, ignore_cancel = true }\n";
    let dir = dir_with_audit_file(&format!("on_failure = \"refuse\"\n\n{deaf}"));
    let server = dir.serve();
    let ann = ModernClient::with_tasks(server.url()).with_key(KEYS[0].1);
    let deaf = ann.call("deaf", &json!({}), json!({})).await.unwrap()["taskId"].as_str().unwrap().to_owned();
    wait_for_line(&dir, "task.started", &deaf).await;
    let asks = ann.call("asks", &json!({}), json!({})).await.unwrap()["taskId"].as_str().unwrap().to_owned();
    let key = loop {
        let task = ann.request("tasks/get", json!({"taskId": asks})).await.unwrap();
        if let Some(key) =
            task["inputRequests"].as_object().and_then(|requests| requests.keys().next().cloned())
        {
            break key;
        }
    };
    let answer = json!({"action": "accept", "content": {"colour": "red"}});
    let update = json!({"taskId": asks, "inputResponses": {key: answer}});
    for _ in 0..30 {
        ann.request("tasks/cancel", json!({"taskId": deaf})).await.unwrap();
        ann.request("tasks/update", update.clone()).await.unwrap();
    }
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(filter_by_event(&lines, "task.cancelled").len(), 1);
    assert_eq!(filter_by_event(&lines, "question.answered").len(), 1);
    let received_calls = filter_by_event(&lines, "call.received");
    let count_of = |verb: &str| received_calls.iter().filter(|line| line["detail"]["verb"] == verb).count();
    assert_eq!((count_of("cancel"), count_of("answer")), (1, 1));
}

/// The alert names the address. The log does not contain the keys.
#[tokio::test]
async fn guessed_keys_raise_one_alert() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    for n in 0..25 {
        assert!(Client::open_with_key(server.url(), &format!("key-{n}")).await.is_err());
    }
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(filter_by_event(&lines, "auth.failed").len(), 25);
    let suspicions = filter_by_event(&lines, "suspicion");
    assert_eq!(suspicions.len(), 1, "{suspicions:?}");
    assert_eq!(suspicions[0]["detail"]["subject"], "address 127.0.0.1");
    let text = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    assert!(!text.contains("key-"), "what was tried is not repeated: {text}");
}

/// Text of callers adds no lines, no long lines and no control characters to the log.
#[tokio::test]
async fn caller_text_cannot_forge_lines() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let bob = Client::open_with_key(server.url(), KEYS[1].1).await.unwrap();
    let forged = "x\n{\"version\":1,\"event\":\"task.created\",\"who\":{\"name\":\"ann\"}}\n";
    let long = "y".repeat(100_000);
    for text in [forged, "\u{1b}[2J\u{202e}\u{0}", &*long] {
        bob.get(text).await.unwrap_err();
        let uri = format!("taskbridge://tasks/{text}/log");
        bob.request("resources/read", json!({"uri": uri})).await.unwrap_err();
        bob.call(text, json!({})).await.unwrap_err();
        let modern = ModernClient::with_capabilities(server.url(), json!({})).with_key(KEYS[1].1);
        let meta = json!({"traceparent": text});
        // It does not matter here whether such a trace is accepted or refused.
        let _ = modern.call("job", &json!({}), json!({"_meta": meta})).await;
    }
    stop_and_verify(&dir, server).await;
    let text = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    let lines = read_log(&dir);
    assert!(filter_by_event(&lines, "task.created").iter().all(|line| line["who"]["name"] == "bob"));
    assert!(text.lines().all(|line| line.len() < 2_000), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']));
}
