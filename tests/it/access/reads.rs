//! What a look-up costs: as many reads for another's id as for one that was made up, and one of them by the id. So how long it takes
//! says nothing, and that is shown by counting, since times on a busy machine say little.

use serde_json::{Value, json};

use super::keys;
use super::raw::{Of, Raw};
use crate::support::{BASICS, Numbers, Place};

/// What the store is asked for requests. The rest is what the server does by itself.
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

/// How often the store was asked for each.
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

#[tokio::test]
async fn anothers_id_costs_the_reads_of_a_made_up_one_and_one_by_the_id() {
    let basics = BASICS.replace("[auth]\nsingle_user = true\n", &keys(&[("ann", ""), ("bob", "")]));
    let tools = "[metrics]\nlisten = \"127.0.0.1:0\"\n[backends.sim]\nkind = \"sim\"\n\
                 [tools.job]\nbackend = \"sim\"\ntarget = { delay_ms = 1 }\ninput_schema = { type = \"object\" }\n";
    let place = Place::new(&format!("{basics}\n{tools}"));
    let mut server = place.serve();
    let page = server.metrics_url();
    let (ann, bob) = (Raw::of(server.url(), "ann").await, Raw::of(server.url(), "bob").await);
    let theirs = ann.start(Of::Sessions, "job", json!({})).await;
    // Once it has ended nothing but requests asks for it.
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
