//! Tests for the visibility of tasks where callers have API keys.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::{JobState, Observation};

use super::ASK_TOOLS;
use super::bench::{Client, all_capabilities, configured, id_of, text};
use crate::v2025::bench::Server;

async fn with_keys() -> Server {
    let digest = |key: &str| data_encoding::HEXLOWER.encode(&Sha256::digest(key));
    let keys = format!(
        "[auth]\nmode = \"api_keys\"\nkeys = [{{ principal = \"ana\", sha256 = \"{}\" }}, {{ principal = \"bob\", sha256 = \"{}\" }}]\n",
        digest("key-of-ana"),
        digest("key-of-bob")
    );
    configured(&[], &format!("{keys}{ASK_TOOLS}")).await
}

fn client_of(server: &Server, name: &str) -> Client {
    Client::new(server).with_key(&format!("key-of-{name}"))
}

fn plain_client(server: &Server, name: &str) -> Client {
    Client::with_capabilities(server, all_capabilities()).with_key(&format!("key-of-{name}"))
}

#[tokio::test]
async fn every_request_needs_a_key() {
    let server = with_keys().await;
    for key in [None, Some("key-of-cid"), Some("")] {
        let mut client = Client::new(&server);
        if let Some(key) = key {
            client = client.with_key(key);
        }
        for method in ["server/discover", "tools/list", "tasks/get", "subscriptions/listen"] {
            let request = client.request(method, json!({"taskId": "t", "notifications": {}}));
            let response = client.post(&request).send().await.unwrap();
            assert_eq!(response.status(), 401, "{method}");
            assert!(response.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
        }
    }
    assert!(client_of(&server, "ana").try_get("tools/list", json!({})).await.is_ok());
}

/// Covers tasks, subscriptions, resources and companion tools.
#[tokio::test]
async fn foreign_task_is_not_found() {
    let server = with_keys().await;
    let (ana, bob) = (client_of(&server, "ana"), client_of(&server, "bob"));
    let id = ana.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.add_artifact("secret.txt", b"secret");
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    let unknown = bob.expect_error("tasks/get", json!({"taskId": "never-was"})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = bob.expect_error(method, json!({"taskId": id, "inputResponses": {}})).await;
        assert_eq!(refused, unknown, "{method}");
    }
    let listening = bob.listen(json!({"taskIds": [id]})).await;
    assert_eq!(listening.granted["taskIds"], json!([]));
    for part in ["log", "artifacts/secret.txt"] {
        let uri = format!("taskbridge://tasks/{id}/{part}");
        let refused = bob.expect_error("resources/read", json!({ "uri": uri })).await;
        assert_eq!((refused.code, &refused.data["uri"]), (-32602, &json!(uri)));
        assert!(ana.try_get("resources/read", json!({ "uri": uri })).await.is_ok());
    }
    for tool in ["task_wait", "task_cancel", "task_answer", "task_logs"] {
        let answer = plain_client(&server, "bob").call(tool, json!({"task_id": id})).await;
        assert!(text(&answer).contains("There is no task"), "{answer}");
    }
    let listed = bob.call("task_list", json!({})).await;
    assert!(!listed.to_string().contains(&id), "{listed}");
    assert_eq!(ana.task(&id).await["status"], "working", "nobody cancelled it");
}

/// A request state is valid for its own caller only.
#[tokio::test]
async fn foreign_answer_and_state_are_refused() {
    let server = with_keys().await;
    let (ana, bob) = (client_of(&server, "ana"), client_of(&server, "bob"));
    let id = ana.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let task = ana.wait_for_status(&id, "input_required").await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let consent = json!({"action": "accept", "content": {}});
    let params = json!({"taskId": id, "inputResponses": { key: consent }});
    assert_eq!(bob.expect_error("tasks/update", params.clone()).await.code, -32602);
    assert_eq!(ana.task(&id).await["status"], "input_required");
    assert_eq!(job.answers(), []);

    let state = ana.call("careful", json!({})).await["requestState"].clone();
    let retry = json!({"name": "careful", "requestState": state, "inputResponses": {"confirm": consent}});
    let refused = bob.expect_error("tools/call", retry.clone()).await;
    assert_eq!(refused.code, -32602);
    assert!(refused.message.contains("requestState"), "{refused:?}");
    assert_eq!(server.engine.starts(), 1);
    id_of(&ana.get("tools/call", retry).await);

    // The request state of a call whose job asks belongs to its caller, too.
    let call =
        plain_client(&server, "ana").open("tools/call", json!({"name": "work", "arguments": {"n": 1}})).await;
    let job = server.engine.job(3).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let question = call.end().await.unwrap();
    let retry = json!({"name": "work", "arguments": {"n": 1}, "requestState": question["requestState"]});
    assert_eq!(plain_client(&server, "bob").expect_error("tools/call", retry).await.code, -32602);
}

#[tokio::test]
async fn keys_and_cursors_are_per_owner() {
    let server = with_keys().await;
    let (ana, bob) = (client_of(&server, "ana"), client_of(&server, "bob"));
    let params = json!({"name": "work", "_meta": {"io.taskbridge/idempotency-key": "k"}});
    let (one, two) = (ana.get("tools/call", params.clone()).await, bob.get("tools/call", params).await);
    assert_ne!(id_of(&one), id_of(&two));
    let cursor = ana.get("tools/list", json!({})).await["nextCursor"].clone();
    assert_eq!(bob.expect_error("tools/list", json!({ "cursor": cursor })).await.code, -32602);
    assert!(ana.try_get("tools/list", json!({ "cursor": cursor })).await.is_ok());
}

/// Without identity, no list has the task, and idempotency keys are refused.
#[tokio::test]
async fn anonymous_task_is_reachable_by_id() {
    let server = configured(&[], "").await;
    let (one, two) = (Client::new(&server), Client::new(&server));
    let id = one.start("work", json!({})).await;
    assert_eq!(two.task(&id).await["status"], "working");
    assert_eq!(two.listen(json!({"taskIds": [id]})).await.granted["taskIds"], json!([id]));
    assert_eq!(two.expect_error("tools/call", json!({"name": "task_list"})).await.code, -32602);
    let resources = two.get("resources/list", json!({})).await["resources"].clone();
    assert!(!resources.to_string().contains(&id), "{resources}");
    // Without identity, the owner of the key is unknown.
    let params = json!({"name": "work", "_meta": {"io.taskbridge/idempotency-key": "k"}});
    let answer: Value = two.get("tools/call", params).await;
    assert_eq!(answer["isError"], true, "{answer}");
    // An equal call may come from another caller.
    let (a, b) = (Client::plain(&server), Client::plain(&server));
    let (a, b) = (a.call("work", json!({})).await, b.call("work", json!({})).await);
    assert_ne!(a["structuredContent"]["task_id"], b["structuredContent"]["task_id"]);
}
