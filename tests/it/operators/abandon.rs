//! Tests for `taskbridge tasks abandon`: next to a running server, and for a backend that is no longer in the
//! config.

use serde_json::json;

use super::{Setup, start};
use crate::support::{BASICS, text};

const HOUR: u64 = 3_600_000;

/// An abandoned task ends as broken, and its slot goes to the next task.
async fn abandon_releases_slot(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let running_task = client.start("one_at_a_time", json!({"delay_ms": HOUR})).await.unwrap();
    let queued = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    let handle = setup.wait_for_task(&running_task, |view| view["job"] == "open").await["handle"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = setup.run_refused(&["tasks", "abandon", &running_task[..3]]).await;
    assert!(refused.contains("too short"), "{refused}");

    let abandoned = setup.run_ok(&["tasks", "abandon", &running_task[..8]]).await;
    assert_eq!(
        abandoned,
        format!(
            "{running_task}: broken; abandoned: the job {handle} may still run, and no server polls it again\n"
        )
    );
    let task = client.get(&running_task).await.unwrap();
    assert_eq!(task["status"], "failed", "{task}");
    assert!(task["statusMessage"].as_str().unwrap().contains("an operator abandoned the task"), "{task}");
    setup.wait_for_task(&queued, |view| view["state"] == "succeeded").await;
    let view = setup.wait_for_task(&running_task, |view| view["job"] == "closed").await;
    assert_eq!((&view["state"], &view["handle"]), (&json!("broken"), &json!(handle)));

    let output = setup.run_ok(&["tasks", "show", &running_task]).await;
    assert!(output.contains("operator@") && output.contains("abandoned by an operator"), "{output}");
    for finished in [&running_task, &queued] {
        let refused = setup.run_refused(&["tasks", "abandon", finished]).await;
        assert!(refused.contains("has ended already") && refused.contains("nothing left"), "{refused}");
    }
    assert_eq!(server.stop(), Some(0));
    assert!(setup.run_ok(&["store", "check"]).await.ends_with(": 2 tasks, nothing wrong\n"));
}

#[tokio::test]
async fn abandon_releases_slot_on_sqlite() {
    abandon_releases_slot(Setup::sqlite()).await;
}

#[tokio::test]
async fn abandon_releases_slot_on_postgres() {
    abandon_releases_slot(Setup::postgres()).await;
}

/// No server can end these tasks: one waits for a slot, one runs, and one was cancelled while its job still
/// runs.
#[tokio::test]
async fn abandon_ends_tasks_without_backend() {
    let setup = Setup::sqlite();
    let (mut server, client) = setup.serve().await;
    let done = start(&client, "kept", 0).await;
    client.result(&done).await.unwrap();
    let running = client.start("one_at_a_time", json!({"delay_ms": HOUR})).await.unwrap();
    let queued = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    setup.wait_for_task(&running, |view| view["job"] == "open").await;
    assert_eq!(server.stop(), Some(0));
    drop(server);
    std::fs::write(setup.dir.config(), BASICS).unwrap();
    let output = setup.run_ok(&["tasks", "abandon", &queued]).await;
    assert!(output.ends_with(": broken; abandoned: its job was not started\n"), "{output}");
    setup.run_ok(&["tasks", "cancel", &running]).await;
    let output = setup.run_ok(&["tasks", "abandon", &running]).await;
    assert!(output.starts_with(&format!("{running}: cancelled; abandoned: the job ")), "{output}");
    let refused = setup.run_refused(&["tasks", "abandon", &done]).await;
    assert!(refused.contains("has ended already: succeeded"), "{refused}");
    assert!(setup.list_tasks(&[]).await.iter().all(|view| view["job"] == "closed"));

    let (mut server, client) = setup.serve().await;
    assert_eq!(text(&client.result(&done).await.unwrap()), "kept");
    assert_eq!(client.get(&queued).await.unwrap()["status"], "failed");
    assert_eq!(server.stop(), Some(0));
}
