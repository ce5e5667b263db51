//! Tests for the findings of `taskbridge doctor` about unfinished tasks that no server with this config
//! continues.

use serde_json::{Value, json};

use super::{Setup, start};
use crate::support::BASICS;

/// Returns the findings about unfinished tasks, each with its subject.
async fn unfinished_findings(setup: &Setup) -> Vec<(String, Value)> {
    let ended = setup.run(&["doctor", "--json"]).await;
    let findings: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let matching = findings.into_iter().filter(|one| one["what"] == "unfinished tasks");
    matching.map(|one| (one["of"].as_str().unwrap().to_owned(), one)).collect()
}

fn assert_warning(finding: &Value, expected: &[&str]) {
    let text = format!("{} {}", finding["says"], finding["fix"]);
    assert_eq!(finding["verdict"], "warning", "{finding}");
    assert!(expected.iter().all(|word| text.contains(word)), "{expected:?} in {finding}");
}

/// One task runs and one waits. The finished one is not counted.
async fn doctor_reports_foreign_tasks(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let done = start(&client, "done", 0).await;
    client.result(&done).await.unwrap();
    let running = client.start("one_at_a_time", json!({"delay_ms": 3_600_000})).await.unwrap();
    setup.wait_for_task(&running, |view| view["job"] == "open").await;
    let waiting = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    assert_eq!(unfinished_findings(&setup).await, [], "beside the server that has the backend");
    assert_eq!(server.stop(), Some(0));
    drop(server);

    // The same backend name, connected to another engine.
    setup.execute_sql("UPDATE tasks SET identity = 'sim elsewhere'").await;
    let findings = unfinished_findings(&setup).await;
    let [(component, finding)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(component, "backend engine");
    assert_warning(
        finding,
        &["2 unfinished tasks", &running, &waiting, "of sim elsewhere", "tasks abandon ID"],
    );

    // A config without the backend.
    let config = std::fs::read_to_string(setup.dir.config()).unwrap();
    let end = config.find("[reconciler]").unwrap();
    std::fs::write(setup.dir.config(), &config[..end]).unwrap();
    let findings = unfinished_findings(&setup).await;
    let [(component, finding)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(component, "store");
    assert_warning(
        finding,
        &["2 unfinished tasks", "`engine` (sim elsewhere)", "not in this config", "[backends.engine]"],
    );
    for task in [&running, &waiting] {
        setup.run_ok(&["tasks", "abandon", task]).await;
    }
    assert_eq!(unfinished_findings(&setup).await, []);
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
    let running = start(&client, "runs", 3_600_000).await;
    setup.wait_for_task(&running, |view| view["job"] == "open").await;
    assert_eq!(server.stop(), Some(0));
    setup.execute_sql("UPDATE tasks SET identity = NULL").await;
    assert_eq!(unfinished_findings(&setup).await, []);
}
