//! Tests for `initialize`, and for the effects of the negotiation.

use serde_json::json;

use super::bench::Server;

/// A supported revision is used. Any other is answered with the newest one.
#[tokio::test]
async fn unknown_revision_gets_newest() {
    let server = Server::start().await;
    for (requested, negotiated) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let client = server.client_with(requested, json!({}), None).await;
        assert_eq!(client.initialize_result["protocolVersion"], negotiated, "asked for {requested}");
        let has_tasks = client.initialize_result["capabilities"].get("tasks").is_some();
        assert_eq!(has_tasks, negotiated == "2025-11-25");
    }
}

#[tokio::test]
async fn initialize_declares_capabilities_and_instructions() {
    let server = Server::start().await;
    let client = server.client().await;
    let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(
        client.initialize_result["capabilities"],
        json!({
            "logging": {},
            "tools": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "prompts": {"listChanged": true},
            "completions": {},
            "tasks": tasks,
        })
    );
    assert_eq!(client.initialize_result["serverInfo"]["name"], "taskbridge");
    assert!(client.initialize_result["instructions"].as_str().unwrap().contains("task_wait"));
    client.notify("notifications/initialized", json!({})).await;
    assert_eq!(client.get("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn task_list_requires_identity() {
    let server = Server::with("").await;
    let client = server.client().await;
    let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(client.initialize_result["capabilities"]["tasks"], tasks);
    assert_eq!(client.expect_error("tasks/list", json!({})).await.0, -32601);
}

#[tokio::test]
async fn older_revisions_have_no_tasks() {
    let server = Server::start().await;
    for revision in ["2025-06-18", "2025-03-26"] {
        let client = server.client_with(revision, json!({}), None).await;
        for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
            let (code, message) = client.expect_error(method, json!({"taskId": "x"})).await;
            assert_eq!(code, -32601);
            assert!(message.contains(method), "{message}");
        }
        let answer = client.get(
            "tools/call",
            json!({
                "name": "work", "arguments": {"end": {"succeeded": {}}, "message": "done"}, "task": "ignored"
            }),
        );
        assert_eq!(answer.await["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn unknown_methods_are_named() {
    let server = Server::start().await;
    let client = server.client().await;
    for method in ["tasks/delete", "logging/getLevel", "resources/follow", ""] {
        let (code, message) = client.expect_error(method, json!({})).await;
        assert_eq!(code, -32601);
        assert!(message.contains(&format!("{method:?}")), "{message}");
    }
}
