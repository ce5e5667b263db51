//! Tests for many connections: those that are served, and those that are refused.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::raw::{LIST, RawConnection, post};
use crate::support::{BASICS, Client, TestApp, TestDir, raise_file_limit};

const LOCAL_IP: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER_IP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Other addresses are still served.
#[tokio::test]
async fn connections_are_limited_per_address() {
    let app = TestApp::start("[limits]\nmax_connections_per_address = 3");
    let url = app.server.url();
    let mut connections = Vec::new();
    for _ in 0..3 {
        let mut raw = RawConnection::open_from(url, OTHER_IP).await;
        assert_eq!(raw.get("/healthz").await.unwrap().status, 200);
        connections.push(raw);
    }
    assert!(RawConnection::open_from(url, OTHER_IP).await.closes_silently().await);
    assert_eq!(RawConnection::open_from(url, LOCAL_IP).await.get("/healthz").await.unwrap().status, 200);
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(log.contains("max_connections_per_address"), "{log}");
    assert_eq!(connections[0].get("/healthz").await.unwrap().status, 200, "those that are open stay so");
}

#[tokio::test]
async fn excess_connections_wait() {
    let app = TestApp::start("[limits]\nmax_connections = 2");
    let url = app.server.url();
    let (mut first, mut second, mut third) =
        (RawConnection::open(url).await, RawConnection::open(url).await, RawConnection::open(url).await);
    assert_eq!(first.get("/healthz").await.unwrap().status, 200);
    assert_eq!(second.get("/healthz").await.unwrap().status, 200);
    third.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    drop(first);
    assert_eq!(third.read_response().await.unwrap().status, 200);
}

/// With 1,000 silent connections, a client is served, and the server closes them all.
#[tokio::test]
async fn silent_connections_delay_no_client() {
    raise_file_limit();
    let app = TestApp::start(
        "[limits]\nhead_within = \"2s\"\n[backends.sim]\nkind = \"sim\"\n[tools.job]\nbackend = \"sim\"\ntarget = {}",
    );
    let url = app.server.url();
    let connections = join_all((0..1_000).map(|_| RawConnection::open(url))).await;
    let client = Client::open(url).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    client.result(&task).await.unwrap();
    // The server closes all of them.
    assert!(
        join_all(connections.into_iter().map(RawConnection::closes_silently))
            .await
            .into_iter()
            .all(|closed| closed)
    );
}

/// With more idle connections than file descriptors, the oldest are closed, and the store keeps the
/// descriptors that it needs.
#[tokio::test]
async fn idle_connections_fit_the_descriptor_limit() {
    let dir = TestDir::new(&format!(
        "{BASICS}[limits]\nhead_within = \"10m\"\nidle_for = \"10m\"\n[backends.sim]\nkind = \"sim\"\n[tools.job]\n\
         backend = \"sim\"\ntarget = {{}}\n"
    ));
    let app = TestApp { server: dir.serve_with_limits("ulimit -n 64"), dir };
    let url = app.server.url();
    let connections = join_all((0..150).map(|_| RawConnection::open(url))).await;
    assert_eq!(RawConnection::open(url).await.post(LIST).await.status, 200);
    let client = Client::open(url).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    client.result(&task).await.unwrap();
    drop(connections);
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(log.contains("max_connections in [limits]") && log.contains("RLIMIT_NOFILE"), "{log}");
}

/// A stream does not count as idle.
#[tokio::test]
async fn oldest_idle_connection_makes_room() {
    let app = TestApp::start("[limits]\nmax_connections = 2");
    let url = app.server.url();
    let mut listening = RawConnection::open(url).await;
    let listen = LIST.replace("tools/list", "subscriptions/listen");
    let listen = listen.replace("\"params\":{", "\"params\":{\"notifications\":{\"toolsListChanged\":true},");
    listening.send(post(&listen)).await;
    assert!(listening.read_head().await.starts_with("HTTP/1.1 200 "));
    let mut idle = RawConnection::open(url).await;
    assert_eq!(idle.get("/healthz").await.unwrap().status, 200);
    assert_eq!(RawConnection::open(url).await.get("/healthz").await.unwrap().status, 200);
    assert!(idle.closes_silently().await);
    let mut buffer = [0];
    let read = tokio::time::timeout(Duration::from_secs(1), listening.stream.read(&mut buffer)).await;
    assert!(!matches!(read, Ok(Ok(0) | Err(_))), "the stream goes on: {read:?}");
}

/// Large heads share a budget, and a connection that sent one is not kept open.
#[tokio::test]
async fn large_heads_give_memory_back() {
    raise_file_limit();
    let app = TestApp::start("");
    let before = app.server.memory_kib();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: {}\r\n\r\n", "a".repeat(60_000));
    let (url, head) = (app.server.url(), &head);
    let connections = join_all((0..2_000).map(|_| async move {
        let mut raw = RawConnection::open(url).await;
        raw.send(head).await;
        assert_eq!(raw.read_response().await.unwrap().status, 200);
        raw
    }));
    let connections = connections.await;
    let retained_kib = app.server.memory_kib().saturating_sub(before);
    assert!(retained_kib < 96 * 1024, "{retained_kib} KiB are kept");
    assert!(
        join_all(connections.into_iter().map(RawConnection::closes_silently))
            .await
            .into_iter()
            .all(|closed| closed)
    );
}

/// A stream over the limit gets 429.
#[tokio::test]
async fn streams_are_limited_per_owner() {
    let app = TestApp::start("[limits]\nmax_streams_per_owner = 2");
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let post = http.post(app.server.url()).header("accept", "application/json, text/event-stream");
    let response = post.json(&initialize).send().await.unwrap();
    let session = response.headers()["mcp-session-id"].clone();
    let listen = || {
        let get = http.get(app.server.url()).header("accept", "text/event-stream");
        get.header("mcp-session-id", &session).send()
    };
    let (first, second) = (listen().await.unwrap(), listen().await.unwrap());
    assert_eq!((first.status(), second.status()), (200.try_into().unwrap(), 200.try_into().unwrap()));
    let third = listen().await.unwrap();
    assert_eq!(third.status(), 429);
    assert_eq!(third.headers()["retry-after"], "1");
    let body: serde_json::Value = third.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("2 streams"), "{body}");
}
