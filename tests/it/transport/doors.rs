//! Tests for access to the endpoint: `Origin`, `Host`, CORS, API keys, methods, `Accept`, `Content-Type`.

use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HOST, ORIGIN};
use serde_json::{Value, json};
use taskbridge::auth::{ApiKeys, Authenticator, Identity, Key};

use super::bench::{Server, Session, initialize, refusal, request};

#[tokio::test]
async fn one_endpoint_serves_all_methods() {
    let server = Server::start().await;
    let session = server.session().await;
    let ping = server.post_message(&session, &request(1, "ping", &json!({}))).send().await.unwrap();
    assert_eq!(ping.status(), 200);
    assert_eq!(server.listen(&session).send().await.unwrap().status(), 200);
    assert_eq!(server.delete(&session).await.status(), 204);
    for method in [Method::PUT, Method::PATCH, Method::HEAD] {
        let response = server.client.request(method.clone(), server.url()).send().await.unwrap();
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.headers()["allow"], "POST, GET, DELETE, OPTIONS");
    }
    let (ping, session) = (request(1, "ping", &json!({})), server.session().await);
    let slash = format!("{}/", server.url());
    let headers = server.post_message(&session, &ping).build().unwrap().headers().clone();
    let posted = server.client.post(&slash).headers(headers).body(ping.to_string()).send().await.unwrap();
    assert_eq!(posted.status(), 200, "a slash at the end changes nothing");
    let foreign = server.client.get(&slash).header(ORIGIN, "https://evil.example").send().await.unwrap();
    assert_eq!(foreign.status(), 403);
    let other_path = server.client.post(format!("http://{}/", server.address)).send().await.unwrap();
    assert_eq!(other_path.status(), 404);
}

#[tokio::test]
async fn foreign_origin_is_refused() {
    let server = Server::start().await;
    let session = server.session().await;
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS, Method::PUT] {
            let response = server
                .client
                .request(method.clone(), server.url())
                .header(ORIGIN, origin)
                .header("Mcp-Session-Id", &session.id)
                .send()
                .await
                .unwrap();
            assert!(!response.headers().contains_key("access-control-allow-origin"));
            let body: Value = {
                assert_eq!(response.status(), 403, "{method} from {origin}");
                response.json().await.unwrap()
            };
            assert!(body.get("id").is_none());
            assert!(body["error"]["message"].as_str().unwrap().contains("allowed_origins"), "{body}");
        }
    }
    assert_eq!(server.delete(&session).await.status(), 204, "the session is untouched");
}

/// Errors are readable as well.
#[tokio::test]
async fn allowed_origin_can_read_answers() {
    let server = Server::start().await;
    for origin in ["https://app.example", "http://localhost:6274", "http://127.0.0.1:1"] {
        let response =
            server.post(initialize("2025-11-25").to_string()).header(ORIGIN, origin).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        assert_eq!(headers["access-control-allow-origin"], origin);
        assert_eq!(headers["vary"], "Origin");
        assert!(headers["access-control-expose-headers"].to_str().unwrap().contains("Mcp-Session-Id"));

        let refused = server.post("{").header(ORIGIN, origin).send().await.unwrap();
        assert_eq!(refused.status(), 400);
        assert_eq!(refused.headers()["access-control-allow-origin"], origin, "errors can be read as well");
    }
}

#[tokio::test]
async fn a_browser_may_ask_first() {
    let keys =
        Authenticator::ApiKeys(ApiKeys::new([Key::new(&"0".repeat(64), Identity::named("ann"))]).unwrap());
    let server = Server::with(keys).await;
    let response = server
        .client
        .request(Method::OPTIONS, server.url())
        .header(ORIGIN, "https://app.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "content-type, Mcp-Param-Region, x-else")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 204, "a preflight carries no key and needs none");
    let headers = response.headers();
    assert_eq!(headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(headers["access-control-allow-methods"], "POST, GET, DELETE, OPTIONS");
    let allowed = headers["access-control-allow-headers"].to_str().unwrap().to_ascii_lowercase();
    for name in
        ["content-type", "accept", "authorization", "mcp-session-id", "mcp-protocol-version", "last-event-id"]
            .into_iter()
            .chain(["mcp-method", "mcp-name", "mcp-param-region"])
    {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name} in {allowed}");
    }
    assert!(!allowed.contains("x-else"), "{allowed}");
    let plain = server.client.request(Method::OPTIONS, server.url()).send().await.unwrap();
    assert_eq!(
        (plain.status().as_u16(), plain.headers().contains_key("access-control-allow-origin")),
        (204, false)
    );
}

/// A loopback server accepts loopback names and the allowed hosts.
#[tokio::test]
async fn unknown_host_is_refused() {
    let server = Server::start().await;
    for (host, status) in [
        ("localhost:1234", 200),
        ("127.0.0.1", 200),
        ("[::1]:8808", 200),
        ("tasks.internal", 200),
        ("evil.example", 403),
        ("evil.example:8808", 403),
    ] {
        let response =
            server.post(initialize("2025-11-25").to_string()).header(HOST, host).send().await.unwrap();
        assert_eq!(response.status(), status, "{host}");
        if status == 403 {
            let (_, _, message) = refusal(response).await;
            assert!(message.contains("allowed_hosts") && message.contains(host), "{message}");
        }
    }
}

#[tokio::test]
async fn every_method_requires_api_key() {
    let digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"; // of "secret"
    let server = Server::with(Authenticator::ApiKeys(
        ApiKeys::new([Key::new(digest, Identity::named("ann"))]).unwrap(),
    ))
    .await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        for (header, challenge) in [
            (None, "Bearer"),
            (Some("Basic abc"), "Bearer error=\"invalid_request\""),
            (Some("Bearer wrong"), "Bearer error=\"invalid_token\""),
        ] {
            let mut request = server.client.request(method.clone(), server.url());
            if let Some(header) = header {
                request = request.header("Authorization", header);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.headers()["www-authenticate"], challenge);
            let (status, _, message) = refusal(response).await;
            assert_eq!(status, 401);
            assert!(!message.contains("wrong"), "{message}");
        }
    }
    let initialize_request = server.post(initialize("2025-11-25").to_string()).bearer_auth("secret");
    assert_eq!(initialize_request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn accept_header_must_list_types() {
    let server = Server::start().await;
    let session = server.session().await;
    let ping = request(1, "ping", &json!({})).to_string();
    for (accept, status, missing) in [
        ("application/json, text/event-stream", 200, ""),
        ("text/event-stream;q=0.5 , APPLICATION/JSON", 200, ""),
        ("*/*", 200, ""),
        ("application/*, text/*", 200, ""),
        ("application/json", 406, "text/event-stream"),
        ("text/event-stream", 406, "application/json"),
        ("text/html", 406, "application/json and text/event-stream"),
        ("", 406, "application/json and text/event-stream"),
    ] {
        let response = server
            .client
            .post(server.url())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, accept)
            .header("Mcp-Session-Id", &session.id)
            .body(ping.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), status, "POST with {accept:?}");
        if status == 406 {
            let (_, _, message) = refusal(response).await;
            assert_eq!(message, format!("the Accept header must list {missing}"));
        }
    }
    for (accept, status) in [("text/event-stream", 200), ("*/*", 200), ("application/json", 406)] {
        let request = server.client.get(server.url()).header(ACCEPT, accept);
        let response = request.header("Mcp-Session-Id", &session.id).send().await.unwrap();
        assert_eq!(response.status(), status, "GET with {accept:?}");
    }
}

#[tokio::test]
async fn a_message_is_json() {
    let server = Server::start().await;
    let Session { id } = server.session().await;
    for (kind, status) in [
        (Some("application/json"), 200),
        (Some("Application/JSON; charset=utf-8"), 200),
        (Some("text/plain"), 415),
        (Some("application/jsonx"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (None, 415),
    ] {
        let mut post = server.client.post(server.url()).header("Mcp-Session-Id", &id);
        if let Some(kind) = kind {
            post = post.header(CONTENT_TYPE, kind);
        }
        let response = post.body(request(1, "ping", &json!({})).to_string()).send().await.unwrap();
        assert_eq!(response.status(), status, "{kind:?}");
        if status == 415 {
            assert!(refusal(response).await.2.contains("Content-Type: application/json"));
        }
    }
}
