//! Many connections: what is served all the same, and what is turned away.

use std::net::Ipv4Addr;

use futures_util::future::join_all;
use serde_json::json;

use super::raw::Raw;
use crate::support::{Client, TestApp, raise_file_limit};

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[tokio::test]
async fn one_address_has_so_many_connections_and_shuts_out_nobody_else() {
    let app = TestApp::start("[limits]\nmax_connections_per_address = 3");
    let url = app.server.url();
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut raw = Raw::from(url, ELSEWHERE).await;
        assert_eq!(raw.get("/healthz").await.unwrap().status, 200);
        held.push(raw);
    }
    assert!(Raw::from(url, ELSEWHERE).await.closes_without_a_word().await);
    assert_eq!(Raw::from(url, HERE).await.get("/healthz").await.unwrap().status, 200);
    let log = std::fs::read_to_string(app.place.path("server.log")).unwrap();
    assert!(log.contains("max_connections_per_address"), "{log}");
    assert_eq!(held[0].get("/healthz").await.unwrap().status, 200, "those that are open stay so");
}

#[tokio::test]
async fn beyond_the_limit_connections_wait_and_are_served_in_the_end() {
    let app = TestApp::start("[limits]\nmax_connections = 2");
    let url = app.server.url();
    let (mut first, mut second, mut third) =
        (Raw::open(url).await, Raw::open(url).await, Raw::open(url).await);
    assert_eq!(first.get("/healthz").await.unwrap().status, 200);
    assert_eq!(second.get("/healthz").await.unwrap().status, 200);
    third.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    drop(first);
    assert_eq!(third.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_thousand_connections_that_say_nothing_hold_up_nobody() {
    raise_file_limit();
    let app = TestApp::start(
        "[limits]\nhead_within = \"2s\"\n[backends.sim]\nkind = \"sim\"\n[tools.job]\nbackend = \"sim\"\ntarget = {}",
    );
    let url = app.server.url();
    let crowd = join_all((0..1_000).map(|_| Raw::open(url))).await;
    let client = Client::open(url).await.unwrap();
    let task = client.start("job", json!({})).await.unwrap();
    client.result(&task).await.unwrap();
    // And none of them is kept.
    assert!(
        join_all(crowd.into_iter().map(Raw::closes_without_a_word)).await.into_iter().all(|closed| closed)
    );
}

#[tokio::test]
async fn one_owner_has_so_many_streams_open() {
    let app = TestApp::start("[limits]\nmax_streams_per_owner = 2");
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let post = http.post(app.server.url()).header("accept", "application/json, text/event-stream");
    let begun = post.json(&begin).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"].clone();
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
