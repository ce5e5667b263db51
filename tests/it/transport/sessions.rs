//! Tests for sessions and the version header.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use taskbridge::auth::{ApiKeys, Authenticator, Identity, Key};

use super::bench::{Server, Session, initialize, refusal, request};

/// Returns the response of each HTTP method to a client with this session id.
async fn statuses(server: &Server, id: Option<&str>) -> Vec<(Method, u16, i64, String)> {
    let mut results = Vec::new();
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let mut builder = server
            .client
            .request(method.clone(), server.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(request(1, "ping", &json!({})).to_string());
        if let Some(id) = id {
            builder = builder.header("Mcp-Session-Id", id);
        }
        let (status, code, message) = refusal(builder.send().await.unwrap()).await;
        results.push((method, status, code, message));
    }
    results
}

/// Only `initialize` returns the id.
#[tokio::test]
async fn session_id_is_unique_visible_ascii() {
    let server = Server::start().await;
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let Session { id } = server.session().await;
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        assert!(ids.insert(id));
    }
    let session = server.session().await;
    let ping = server.post_message(&session, &request(1, "ping", &json!({}))).send().await.unwrap();
    assert!(!ping.headers().contains_key("mcp-session-id"));
}

/// Without a session, only `initialize` is accepted.
#[tokio::test]
async fn requests_need_session() {
    let server = Server::start().await;
    for (method, status, code, message) in statuses(&server, None).await {
        assert_eq!((status, code), (400, -32600), "{method}");
        assert!(message.contains("Mcp-Session-Id") && message.contains("initialize"), "{message}");
    }
    let body: Value =
        server.post(request("x", "ping", &json!({})).to_string()).send().await.unwrap().json().await.unwrap();
    assert_eq!(body["id"], "x", "the request could be read, so it is named");
}

/// Covers forged, malformed and expired ids.
#[tokio::test]
async fn unknown_session_is_not_found() {
    let server = Server::start().await;
    let Session { id } = server.session().await;
    let mut forged = id.clone();
    forged.replace_range(40..41, if &id[40..41] == "A" { "B" } else { "A" });
    for id in [forged.as_str(), "nonsense", &id[..id.len() - 1]] {
        for (method, status, code, message) in statuses(&server, Some(id)).await {
            assert_eq!((status, code), (404, -32001), "{method} with {id}");
            assert!(message.contains("initialize") && !message.contains(id), "{message}");
        }
    }
    server.clock.set_ahead(Duration::from_secs(3601));
    for (method, status, _, _) in statuses(&server, Some(&id)).await {
        assert_eq!(status, 404, "{method} after it expired");
    }
}

#[tokio::test]
async fn session_belongs_to_its_creator() {
    let digests = [
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", // of "a"
        "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d", // of "b"
    ];
    let keys = ApiKeys::new(
        ["ann", "bob"].iter().zip(digests).map(|(name, digest)| Key::new(digest, Identity::named(name))),
    )
    .unwrap();
    let server = Server::with(Authenticator::ApiKeys(keys)).await;
    let response = server.post(initialize("2025-11-25").to_string()).bearer_auth("a").send().await.unwrap();
    let session = Session { id: response.headers()["mcp-session-id"].to_str().unwrap().to_owned() };
    for (key, status) in [("a", 200), ("b", 404)] {
        let ping = server
            .post_message(&session, &request(1, "ping", &json!({})))
            .bearer_auth(key)
            .send()
            .await
            .unwrap();
        assert_eq!(ping.status(), status, "with key {key}");
    }
    let foreign_delete =
        server.client.delete(server.url()).bearer_auth("b").header("Mcp-Session-Id", &session.id);
    assert_eq!(foreign_delete.send().await.unwrap().status(), 404);
    let ping =
        server.post_message(&session, &request(1, "ping", &json!({}))).bearer_auth("a").send().await.unwrap();
    assert_eq!(ping.status(), 200, "a stranger cannot end it");
}

#[tokio::test]
async fn ended_session_is_not_found() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let (session, other) = (server.session().await, server.session().await);
    let ping = request(1, "ping", &json!({}));
    assert_eq!(
        twin.post_message(&session, &ping).send().await.unwrap().status(),
        200,
        "any server opens any session"
    );
    assert_eq!(twin.delete(&session).await.status(), 204);
    for server in [&server, &twin] {
        for (method, status, _, message) in statuses(server, Some(&session.id)).await {
            assert_eq!(status, 404, "{method}");
            assert!(message.contains("initialize"), "{message}");
        }
        assert_eq!(server.post_message(&other, &ping).send().await.unwrap().status(), 200);
    }
    let new_session = server.session().await;
    assert_eq!(
        server.post_message(&new_session, &ping).send().await.unwrap().status(),
        200,
        "a new one can begin"
    );
}

#[tokio::test]
async fn initialize_ignores_session_header() {
    let server = Server::start().await;
    let session = server.session().await;
    server.delete(&session).await;
    for id in [session.id.as_str(), "nonsense"] {
        let initialize_request =
            server.post(initialize("2025-11-25").to_string()).header("Mcp-Session-Id", id);
        let response = initialize_request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_ne!(response.headers()["mcp-session-id"], id);
    }
}

/// The header may be absent.
#[tokio::test]
async fn version_header_must_be_supported() {
    let server = Server::start().await;
    for (version, status) in [
        (None, 200),
        (Some("2025-11-25"), 200),
        (Some("2025-06-18"), 200),
        (Some("2025-03-26"), 200),
        (Some("2026-07-28"), 400),
        (Some("2024-11-05"), 400),
        (Some("latest"), 400),
        (Some(""), 400),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let session = server.session().await;
            let mut builder = server
                .client
                .request(method.clone(), server.url())
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json, text/event-stream")
                .header("Mcp-Session-Id", &session.id)
                .body(request(1, "ping", &json!({})).to_string());
            if let Some(version) = version {
                builder = builder.header("MCP-Protocol-Version", version);
            }
            let response = builder.send().await.unwrap();
            let expected = if status == 200 && method == Method::DELETE { 204 } else { status };
            assert_eq!(response.status(), expected, "{method} with {version:?}");
            if status == 400 {
                let (_, code, message) = refusal(response).await;
                assert_eq!(code, -32600);
                assert!(message.contains("2025-11-25, 2025-06-18, 2025-03-26"), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn initialize_negotiates_supported_version() {
    let server = Server::start().await;
    for (requested, negotiated) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2026-07-28", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let response = server.post(initialize(requested).to_string()).send().await.unwrap();
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["result"]["protocolVersion"], negotiated, "{requested}");
    }
}
