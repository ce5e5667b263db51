//! Tests for `taskbridge tasks abandon`: next to a running server, and for a backend that is no longer in the
//! config.

use serde_json::json;

use super::{Setup, start};
use crate::support::{BASICS, text};

const HOUR: u64 = 3_600_000;

/// An abandoned task ends as broken, and its slot goes to the next task.
async fn abandon_releases_slot(setup: Setup) {
    let (mut server, client) = setup.serve().await;
    let holds = client.start("one_at_a_time", json!({"delay_ms": HOUR})).await.unwrap();
    let queued = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    let handle =
        setup.until(&holds, |view| view["job"] == "open").await["handle"].as_str().unwrap().to_owned();
    let refused = setup.refuses(&["tasks", "abandon", &holds[..3]]).await;
    assert!(refused.contains("too short"), "{refused}");

    let says = setup.says(&["tasks", "abandon", &holds[..8]]).await;
    assert_eq!(
        says,
        format!(
            "{holds}: broken; abandoned: the job {handle} may still run, and no server looks at it again\n"
        )
    );
    let seen = client.get(&holds).await.unwrap();
    assert_eq!(seen["status"], "failed", "{seen}");
    assert!(seen["statusMessage"].as_str().unwrap().contains("an operator abandoned the task"), "{seen}");
    setup.until(&queued, |view| view["state"] == "succeeded").await;
    let view = setup.until(&holds, |view| view["job"] == "closed").await;
    assert_eq!((&view["state"], &view["handle"]), (&json!("broken"), &json!(handle)));

    let shown = setup.says(&["tasks", "show", &holds]).await;
    assert!(shown.contains("operator@") && shown.contains("abandoned by an operator"), "{shown}");
    for finished in [&holds, &queued] {
        let refused = setup.refuses(&["tasks", "abandon", finished]).await;
        assert!(refused.contains("has ended already") && refused.contains("nothing left"), "{refused}");
    }
    assert_eq!(server.stop(), Some(0));
    assert!(setup.says(&["store", "check"]).await.ends_with(": 2 tasks, nothing wrong\n"));
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
    let runs = client.start("one_at_a_time", json!({"delay_ms": HOUR})).await.unwrap();
    let queued = client.start("one_at_a_time", json!({"delay_ms": 0})).await.unwrap();
    setup.until(&runs, |view| view["job"] == "open").await;
    assert_eq!(server.stop(), Some(0));
    drop(server);
    std::fs::write(setup.place.config(), BASICS).unwrap();
    let says = setup.says(&["tasks", "abandon", &queued]).await;
    assert!(says.ends_with(": broken; abandoned: its job was not started\n"), "{says}");
    setup.says(&["tasks", "cancel", &runs]).await;
    let says = setup.says(&["tasks", "abandon", &runs]).await;
    assert!(says.starts_with(&format!("{runs}: cancelled; abandoned: the job ")), "{says}");
    let refused = setup.refuses(&["tasks", "abandon", &done]).await;
    assert!(refused.contains("has ended already: succeeded"), "{refused}");
    assert!(setup.listed(&[]).await.iter().all(|view| view["job"] == "closed"));

    let (mut server, client) = setup.serve().await;
    assert_eq!(text(&client.result(&done).await.unwrap()), "kept");
    assert_eq!(client.get(&queued).await.unwrap()["status"], "failed");
    assert_eq!(server.stop(), Some(0));
}
