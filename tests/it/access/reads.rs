//! Tests for the cost of a lookup: an id of another owner needs as many store reads as a made-up id, and one
//! of them is by the id. The reads are counted, so that the duration of a request cannot reveal whether a
//! task exists. Times vary too much on a busy machine to be compared.

use serde_json::{Value, json};

use super::keys;
use super::raw::{Of, Raw};
use crate::support::{BASICS, Numbers, Place};

/// Store operations that requests cause. The server causes the others by itself.
const ASKED: [&str; 10] =
    ["get", "output", "list", "entries", "ahead", "update", "insert", "typical", "settings", "has_ended"];

const METHODS: [(Of, &str); 8] = [
    (Of::Sessions, "tasks/get"),
    (Of::Sessions, "tasks/cancel"),
    (Of::Sessions, "tasks/result"),
    (Of::Sessions, "resources/read"),
    (Of::Alone, "tasks/get"),
    (Of::Alone, "tasks/cancel"),
    (Of::Alone, "tasks/update"),
    (Of::Alone, "resources/read"),
];

/// Returns how often each operation was called.
async fn asked(page: &str) -> Vec<f64> {
    let numbers = Numbers::read(page).await;
    let count = |operation: &&str| {
        numbers.sum("taskbridge_store_operation_duration_seconds_count", &[("operation", operation)])
    };
    ASKED.iter().map(count).collect()
}

fn about(method: &str, id: &str) -> Value {
    match method {
        "resources/read" => json!({"uri": format!("taskbridge://tasks/{id}/log")}),
        "tasks/update" => json!({"taskId": id, "inputResponses": {"q1": {"action": "decline"}}}),
        _ => json!({ "taskId": id }),
    }
}

/// A lookup of another owner's id needs as many store reads as a made-up id, and one of them is by the id.
#[tokio::test]
async fn foreign_id_costs_same_reads() {
    let basics = BASICS.replace("[auth]\nsingle_user = true\n", &keys(&[("ann", ""), ("bob", "")]));
    let tools = "[metrics]\nlisten = \"127.0.0.1:0\"\n[backends.sim]\nkind = \"sim\"\n\
                 [tools.job]\nbackend = \"sim\"\ntarget = { delay_ms = 1 }\ninput_schema = { type = \"object\" }\n";
    let place = Place::new(&format!("{basics}\n{tools}"));
    let mut server = place.serve();
    let page = server.metrics_url();
    let (ann, bob) = (Raw::of(server.url(), "ann").await, Raw::of(server.url(), "bob").await);
    let theirs = ann.start(Of::Sessions, "job", json!({})).await;
    // After the task has ended, only requests read it.
    ann.get(Of::Sessions, "tasks/result", json!({ "taskId": theirs })).await;
    let made_up: String = theirs.chars().rev().collect();
    for (of, method) in METHODS {
        let mut costs = Vec::new();
        for id in [&theirs, &made_up] {
            let before = asked(&page).await;
            bob.ask(of, method, about(method, id)).await;
            let after = asked(&page).await;
            costs.push(after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>());
        }
        assert_eq!(costs[0], costs[1], "{of:?} {method}: {ASKED:?}");
        assert_eq!(costs[0][0], 1.0, "{of:?} {method}: one read by the id");
    }
}
