//! Tests for the findings of `taskbridge doctor` about unfinished tasks that no server with this config
//! continues.

use serde_json::{Value, json};

use super::{Setup, start};
use crate::support::BASICS;

/// Returns the findings about unfinished tasks, each with its subject.
async fn unfinished(setup: &Setup) -> Vec<(String, Value)> {
    let ended = setup.run(&["doctor", "--json"]).await;
    let found: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let about = found.into_iter().filter(|one| one["what"] == "unfinished tasks");
    about.map(|one| (one["of"].as_str().unwrap().to_owned(), one)).collect()
}

fn says(finding: &Value, words: &[&str]) {
    let text = format!("{} {}", finding["says"], finding["fix"]);
    assert_eq!(finding["verdict"], "warning", "{finding}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {finding}");
}

/// One task runs and one waits. The finished one is not counted.
async fn doctor_reports_foreign_tasks(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let done = start(&client, "done", 0).await;
    client.result(&done).await.unwrap();
    let runs = client.start("one_at_a_time", json!({"delay_ms": 3_600_000})).await.unwrap();
    setup.until(&runs, |view| view["job"] == "open").await;
    let waits = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    assert_eq!(unfinished(&setup).await, [], "beside the server that has the backend");
    assert_eq!(server.stop(), Some(0));
    drop(server);

    // The same backend name, connected to another engine.
    setup.plant("UPDATE tasks SET identity = 'sim elsewhere'").await;
    let found = unfinished(&setup).await;
    let [(of, finding)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(of, "backend engine");
    says(finding, &["2 unfinished tasks", &runs, &waits, "of sim elsewhere", "tasks abandon ID"]);

    // A config without the backend.
    let config = std::fs::read_to_string(setup.place.config()).unwrap();
    let end = config.find("[reconciler]").unwrap();
    std::fs::write(setup.place.config(), &config[..end]).unwrap();
    let found = unfinished(&setup).await;
    let [(of, finding)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(of, "store");
    says(
        finding,
        &["2 unfinished tasks", "`engine` (sim elsewhere)", "not in this config", "[backends.engine]"],
    );
    for task in [&runs, &waits] {
        setup.says(&["tasks", "abandon", task]).await;
    }
    assert_eq!(unfinished(&setup).await, []);
}

#[tokio::test]
async fn doctor_reports_foreign_tasks_on_sqlite() {
    doctor_reports_foreign_tasks(Setup::sqlite()).await;
}

#[tokio::test]
async fn doctor_reports_foreign_tasks_on_postgres() {
    doctor_reports_foreign_tasks(Setup::postgres()).await;
}

/// Rows of earlier versions have no identity until a server adopts them.
#[tokio::test]
async fn unknown_identity_is_not_reported() {
    let setup = Setup::with(BASICS, "", None);
    let (mut server, client) = setup.serve().await;
    let runs = start(&client, "runs", 3_600_000).await;
    setup.until(&runs, |view| view["job"] == "open").await;
    assert_eq!(server.stop(), Some(0));
    setup.plant("UPDATE tasks SET identity = NULL").await;
    assert_eq!(unfinished(&setup).await, []);
}
