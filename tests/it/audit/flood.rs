//! Tests for callers who guess ids or keys, and for callers who try to forge lines of the log.

use std::fs;

use serde_json::json;

use super::{KEYS, log, of_event, stopped, to_file, until};
use crate::support::{Client, Modern};

/// A caller who guesses ids raises one alert, and writes a limited number of lines.
#[tokio::test]
async fn guessed_ids_raise_one_alert() {
    let place = to_file("");
    let server = place.serve();
    let bob = Client::open_with(server.url(), KEYS[1].1).await.unwrap();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    for n in 0..150 {
        bob.get(&format!("guess-{n}")).await.unwrap_err();
    }
    ann.get("mistyped").await.unwrap_err();
    stopped(&place, server).await;
    let lines = log(&place);
    let failed = of_event(&lines, "lookup.failed");
    assert_eq!(failed.iter().filter(|line| line["who"]["name"] == "bob").count(), 100);
    assert_eq!(failed.iter().filter(|line| line["who"]["name"] == "ann").count(), 1);
    let suspicions = of_event(&lines, "suspicion");
    assert_eq!(suspicions.len(), 1, "{suspicions:?}");
    assert_eq!(
        suspicions[0]["detail"],
        json!({"pattern": "many failed lookups", "subject": "owner bob", "count": 20, "seconds": 60})
    );
    let log = fs::read_to_string(place.path("server.log")).unwrap();
    assert_eq!(log.matches("many failed lookups").count(), 1, "{log}");
}

/// Reads of one result by one caller write ten lines at most, and raise one alert.
#[tokio::test]
async fn repeated_reads_write_limited_lines() {
    let place = to_file("");
    let server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let tasks = [ann.start("job", json!({})).await.unwrap(), ann.start("job", json!({})).await.unwrap()];
    for task in &tasks {
        for _ in 0..40 {
            ann.result(task).await.unwrap();
        }
    }
    stopped(&place, server).await;
    let lines = log(&place);
    assert_eq!(of_event(&lines, "result.read").len(), 2 * 10, "ten of each");
    assert_eq!(of_event(&lines, "suspicion").len(), 2);
}

/// Repeated cancellations and answers without an effect write no further lines.
#[tokio::test]
async fn repeated_noop_requests_log_once() {
    let deaf = "[tools.deaf]\nbackend = \"engine\"\ntarget = { delay_ms = 3600000, ignore_cancel = true }\n";
    let place = to_file(&format!("on_failure = \"refuse\"\n\n{deaf}"));
    let server = place.serve();
    let ann = Modern::with_tasks(server.url()).with_key(KEYS[0].1);
    let deaf = ann.call("deaf", &json!({}), json!({})).await.unwrap()["taskId"].as_str().unwrap().to_owned();
    until(&place, "task.started", &deaf).await;
    let asks = ann.call("asks", &json!({}), json!({})).await.unwrap()["taskId"].as_str().unwrap().to_owned();
    let key = loop {
        let task = ann.request("tasks/get", json!({"taskId": asks})).await.unwrap();
        if let Some(key) = task["inputRequests"].as_object().and_then(|asked| asked.keys().next().cloned()) {
            break key;
        }
    };
    let answer = json!({"action": "accept", "content": {"colour": "red"}});
    let update = json!({"taskId": asks, "inputResponses": {key: answer}});
    for _ in 0..30 {
        ann.request("tasks/cancel", json!({"taskId": deaf})).await.unwrap();
        ann.request("tasks/update", update.clone()).await.unwrap();
    }
    stopped(&place, server).await;
    let lines = log(&place);
    assert_eq!(of_event(&lines, "task.cancelled").len(), 1);
    assert_eq!(of_event(&lines, "question.answered").len(), 1);
    let wished = of_event(&lines, "call.received");
    let of = |verb: &str| wished.iter().filter(|line| line["detail"]["verb"] == verb).count();
    assert_eq!((of("cancel"), of("answer")), (1, 1));
}

/// The alert names the address. The log does not contain the keys.
#[tokio::test]
async fn guessed_keys_raise_one_alert() {
    let place = to_file("");
    let server = place.serve();
    for n in 0..25 {
        assert!(Client::open_with(server.url(), &format!("key-{n}")).await.is_err());
    }
    stopped(&place, server).await;
    let lines = log(&place);
    assert_eq!(of_event(&lines, "auth.failed").len(), 25);
    let suspicions = of_event(&lines, "suspicion");
    assert_eq!(suspicions.len(), 1, "{suspicions:?}");
    assert_eq!(suspicions[0]["detail"]["subject"], "address 127.0.0.1");
    let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
    assert!(!text.contains("key-"), "what was tried is not repeated: {text}");
}

/// Text of callers adds no lines, no long lines and no control characters to the log.
#[tokio::test]
async fn caller_text_cannot_forge_lines() {
    let place = to_file("");
    let server = place.serve();
    let bob = Client::open_with(server.url(), KEYS[1].1).await.unwrap();
    let forged = "x\n{\"version\":1,\"event\":\"task.created\",\"who\":{\"name\":\"ann\"}}\n";
    let long = "y".repeat(100_000);
    for text in [forged, "\u{1b}[2J\u{202e}\u{0}", &*long] {
        bob.get(text).await.unwrap_err();
        let uri = format!("taskbridge://tasks/{text}/log");
        bob.request("resources/read", json!({"uri": uri})).await.unwrap_err();
        bob.call(text, json!({})).await.unwrap_err();
        let modern = Modern::able(server.url(), json!({})).with_key(KEYS[1].1);
        let meta = json!({"traceparent": text});
        // It does not matter here whether such a trace is accepted or refused.
        let _ = modern.call("job", &json!({}), json!({"_meta": meta})).await;
    }
    stopped(&place, server).await;
    let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
    let lines = log(&place);
    assert!(of_event(&lines, "task.created").iter().all(|line| line["who"]["name"] == "bob"));
    assert!(text.lines().all(|line| line.len() < 2_000), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\r']));
}
