//! Tests for the visibility of tasks.

use serde_json::json;
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::{JobState, Observation};

use super::bench::Server;

async fn with_keys() -> Server {
    let digest = |key: &str| data_encoding::HEXLOWER.encode(&Sha256::digest(key));
    Server::with(&format!(
        "[auth]\nmode = \"api_keys\"\nkeys = [{{ principal = \"ana\", sha256 = \"{}\" }}, {{ principal = \"bob\", sha256 = \"{}\" }}]\n",
        digest("key-of-ana"),
        digest("key-of-bob")
    ))
    .await
}

/// Covers tasks, lists, resources and companion tools.
#[tokio::test]
async fn foreign_task_is_not_found() {
    let server = with_keys().await;
    let (ana, bob) = (server.client_with_key("key-of-ana").await, server.client_with_key("key-of-bob").await);
    let id = ana.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.add_artifact("secret.txt", b"secret");
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    ana.wait_for_message(&id, "it runs").await;
    let unknown = ana.expect_error("tasks/get", json!({"taskId": "never-was"})).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(bob.expect_error(method, json!({ "taskId": id })).await, unknown, "{method}");
    }
    assert_eq!(bob.get("tasks/list", json!({})).await["tasks"], json!([]));
    assert_eq!(bob.get("resources/list", json!({})).await["resources"], json!([]));
    for part in ["log", "artifacts/secret.txt"] {
        let uri = format!("taskbridge://tasks/{id}/{part}");
        assert_eq!(bob.expect_error("resources/read", json!({ "uri": uri })).await.0, -32002);
        assert!(ana.try_get("resources/read", json!({ "uri": uri })).await.is_ok());
    }
    for tool in ["task_wait", "task_cancel", "task_answer", "task_logs"] {
        let answer = bob.get("tools/call", json!({"name": tool, "arguments": {"task_id": id}})).await;
        assert!(answer["content"][0]["text"].as_str().unwrap().contains("There is no task"), "{answer}");
    }
    assert_eq!(ana.task(&id).await["status"], "working");
    assert_eq!(ana.get("tasks/list", json!({})).await["tasks"][0]["taskId"], id);
}

#[tokio::test]
async fn foreign_question_and_cursor_are_refused() {
    let server = with_keys().await;
    let (ana, bob) = (server.client_with_key("key-of-ana").await, server.client_with_key("key-of-bob").await);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(ana.start("work", json!({})).await);
    }
    let cursor = ana.get("tasks/list", json!({})).await["nextCursor"].clone();
    assert_eq!(bob.expect_error("tasks/list", json!({ "cursor": cursor })).await.0, -32602);

    let job = server.engine.job(1).await;
    let mut waiting = ana.open("tasks/result", json!({"taskId": ids[0]})).await;
    job.ask("q", "Really?", json!({"type": "object", "properties": {}}));
    let question = waiting.message().await;
    assert_eq!(bob.reply(&question, json!({"action": "accept", "content": {}})).await, 202);
    assert_eq!(job.answers(), []);
    assert_eq!(ana.reply(&question, json!({"action": "accept", "content": {}})).await, 202);
    job.wait_for_answer().await;
}

#[tokio::test]
async fn idempotency_keys_are_per_owner() {
    let server = with_keys().await;
    let (ana, bob) = (server.client_with_key("key-of-ana").await, server.client_with_key("key-of-bob").await);
    let params = json!({"name": "work", "task": {}, "_meta": {"io.taskbridge/idempotency-key": "k"}});
    let (one, two) = (ana.get("tools/call", params.clone()).await, bob.get("tools/call", params).await);
    assert_ne!(one["task"]["taskId"], two["task"]["taskId"]);
}

/// Without identity, no list has the task, and an idempotency key belongs to its session.
#[tokio::test]
async fn anonymous_task_is_reachable_by_id() {
    let server = Server::with("").await;
    let (one, two) = (server.client().await, server.client().await);
    let id = one.start("work", json!({})).await;
    assert_eq!(two.task(&id).await["status"], "working");
    assert_eq!(two.get("resources/list", json!({})).await["resources"], json!([]));
    let mut cursor = json!(null);
    loop {
        let page = two.get("tools/list", json!({ "cursor": cursor })).await;
        assert!(page["tools"].as_array().unwrap().iter().all(|tool| tool["name"] != "task_list"));
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    let (code, _) = two.expect_error("tools/call", json!({"name": "task_list"})).await;
    assert_eq!(code, -32602, "it is as unknown as any other tool that is not offered");
    // Without identity, an idempotency key belongs to its session.
    let params = json!({"name": "work", "task": {}, "_meta": {"io.taskbridge/idempotency-key": "k"}});
    let mine = one.get("tools/call", params.clone()).await["task"]["taskId"].clone();
    assert_eq!(one.get("tools/call", params.clone()).await["task"]["taskId"], mine);
    assert_ne!(two.get("tools/call", params).await["task"]["taskId"], mine);
}
