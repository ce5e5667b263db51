//! Tests for time limits of stateless requests: subscriptions without events, and request states that expire.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bench::{Events, Server};
use crate::support::{Generation, schema};

const VERSION: &str = "2026-07-28";

fn request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn post(server: &Server, request: &Value) -> RequestBuilder {
    let post = server.post(request.to_string()).header("MCP-Protocol-Version", VERSION);
    let post = post.header("Mcp-Method", request["method"].as_str().unwrap());
    match request["params"]["name"].as_str() {
        Some(name) => post.header("Mcp-Name", name),
        None => post,
    }
}

async fn answer(server: &Server, request: &Value) -> Value {
    let answer: Value = post(server, request).send().await.unwrap().json().await.unwrap();
    schema::check_answer(Generation::V2026, request, &answer);
    answer
}

#[tokio::test]
async fn a_quiet_subscription_is_kept_open() {
    let server = Server::start().await;
    let listen = request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut events = Events::of(post(&server, &listen).send().await.unwrap());
    while events.next().await.unwrap().data.is_none() {}
    let started = Instant::now();
    // The paused clock advances by itself while nothing else happens, so that no test waits.
    tokio::time::pause();
    for round in 1..=3 {
        let event = events.next().await.unwrap();
        assert!(event.comment && event.id.is_none(), "{event:?}");
        assert!(started.elapsed() >= Duration::from_secs(14) * round, "comments are not sent in haste");
    }
}

#[tokio::test]
async fn request_state_expires() {
    let server = Server::start().await;
    let question = answer(&server, &request("tools/call", json!({"name": "ask"}))).await;
    let retry = |action: &str| {
        request(
            "tools/call",
            json!({
                "name": "ask", "requestState": question["result"]["requestState"],
                "inputResponses": {"confirm": {"action": action}}
            }),
        )
    };
    server.clock.set_ahead(Duration::from_secs(3500));
    let declined = answer(&server, &retry("decline")).await;
    assert_eq!(declined["result"]["isError"], true, "it is good still: {declined}");
    server.clock.set_ahead(Duration::from_secs(3700));
    for action in ["accept", "decline"] {
        let refused = answer(&server, &retry(action)).await;
        assert_eq!(refused["error"]["code"], -32602);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("`requestState` has expired"), "{message}");
    }
}
