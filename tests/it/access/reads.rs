//! Tests for the cost of a lookup: an id of another owner needs as many store reads as a made-up id, and one
//! of them is by the id. The reads are counted, so that the duration of a request cannot reveal whether a
//! task exists. Times vary too much on a busy machine to be compared.

use serde_json::{Value, json};

use super::keys;
use super::raw::{Protocol, RawClient};
use crate::support::{BASICS, MetricsScrape, TestDir};

/// Store operations that requests cause. The server causes the others by itself. Without history, it writes no
/// reading of a result behind the answer.
const REQUEST_OPERATIONS: [&str; 10] =
    ["get", "output", "list", "entries", "ahead", "update", "insert", "typical", "settings", "has_ended"];

const METHODS: [(Protocol, &str); 8] = [
    (Protocol::Stateful, "tasks/get"),
    (Protocol::Stateful, "tasks/cancel"),
    (Protocol::Stateful, "tasks/result"),
    (Protocol::Stateful, "resources/read"),
    (Protocol::Stateless, "tasks/get"),
    (Protocol::Stateless, "tasks/cancel"),
    (Protocol::Stateless, "tasks/update"),
    (Protocol::Stateless, "resources/read"),
];

/// Returns how often each operation was called.
async fn operation_counts(page: &str) -> Vec<f64> {
    let numbers = MetricsScrape::read(page).await;
    let count = |operation: &&str| {
        numbers.sum("taskbridge_store_operation_duration_seconds_count", &[("operation", operation)])
    };
    REQUEST_OPERATIONS.iter().map(count).collect()
}

fn params_for(method: &str, id: &str) -> Value {
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
    let tools = "history = \"0s\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n[backends.sim]\nkind = \"sim\"\n\
                 [tools.job]\nbackend = \"sim\"\ntarget = { delay_ms = 1 }\ninput_schema = { type = \"object\" }\n";
    let dir = TestDir::new(&format!("{basics}\n{tools}"));
    let mut server = dir.serve();
    let page = server.metrics_url();
    let (ann, bob) = (RawClient::open(server.url(), "ann").await, RawClient::open(server.url(), "bob").await);
    let foreign = ann.start(Protocol::Stateful, "job", json!({})).await;
    // After the task has ended, only requests read it.
    ann.expect_result(Protocol::Stateful, "tasks/result", json!({ "taskId": foreign })).await;
    let made_up: String = foreign.chars().rev().collect();
    for (protocol, method) in METHODS {
        let mut costs = Vec::new();
        for id in [&foreign, &made_up] {
            let before = operation_counts(&page).await;
            bob.send(protocol, method, params_for(method, id)).await;
            let after = operation_counts(&page).await;
            costs.push(after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>());
        }
        assert_eq!(costs[0], costs[1], "{protocol:?} {method}: {REQUEST_OPERATIONS:?}");
        assert_eq!(costs[0][0], 1.0, "{protocol:?} {method}: one read by the id");
    }
}
