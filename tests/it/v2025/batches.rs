//! Tests for JSON-RPC batches, which only sessions of 2025-03-26 accept.

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::bench::{Client, Server};
use crate::support::{Events, Generation};

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn ping(id: impl Into<Value>) -> Value {
    request(id, "ping", json!({}))
}

async fn client_2025_03_26(server: &Server) -> Client {
    server.client_with("2025-03-26", json!({}), None).await
}

/// Returns the answers to a batch that is answered with a JSON array.
async fn answers(client: &Client, batch: Value) -> Vec<Value> {
    let response = client.send(&batch).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    response.json().await.unwrap()
}

/// Returns the status and the error of a batch that is refused as a whole.
async fn batch_error(client: &Client, batch: Value) -> (u16, i64, String) {
    let response = client.send(&batch).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body.get("id"), None, "{body}");
    let message = body["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {body}"));
    (status, body["error"]["code"].as_i64().unwrap(), message.to_owned())
}

fn codes(answers: &[Value]) -> Vec<(Value, i64)> {
    answers
        .iter()
        .map(|answer| (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap_or(0)))
        .collect()
}

#[tokio::test]
async fn batch_is_answered_in_one_array() {
    let server = Server::start().await;
    let client = client_2025_03_26(&server).await;
    let call = json!({"name": "task_list"});
    let batch = json!([
        ping(1),
        notification("notifications/of_the_future"),
        request("two", "tools/list", json!({})),
        request(3, "no/such", json!({})),
        request(4, "tools/call", call),
    ]);
    let answers = answers(&client, batch).await;
    assert_eq!(codes(&answers), [(json!(1), 0), (json!("two"), 0), (json!(3), -32601), (json!(4), 0)]);
    assert_eq!(answers[0]["result"], json!({}));
    assert!(answers[1]["result"]["tools"].is_array());
    assert_eq!(answers[3]["result"]["isError"], false);
}

#[tokio::test]
async fn batch_without_requests_is_accepted() {
    let server = Server::start().await;
    let client = client_2025_03_26(&server).await;
    let unread = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "I could not read that"}});
    let response = client.send(&json!([notification("notifications/x"), unread])).await;
    assert_eq!(response.status(), 202);
    assert_eq!(response.text().await.unwrap(), "");
    let unknown_response = json!({"jsonrpc": "2.0", "id": 5, "result": {}});
    let (status, code, _) =
        batch_error(&client, json!([notification("notifications/x"), unknown_response])).await;
    assert_eq!((status, code), (400, -32600));
}

/// A bad entry gets its own error, and the others are processed.
#[tokio::test]
async fn bad_entries_fail_alone() {
    let server = Server::start().await;
    let client = client_2025_03_26(&server).await;
    let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let modern = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let batch = json!([
        7,
        [ping(0)],
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        request(2, "initialize", hello),
        request(3, "server/discover", modern),
        ping(4),
    ]);
    let answers = answers(&client, batch).await;
    let expected = [
        (json!(null), -32600),
        (json!(null), -32600),
        (json!(1), -32600),
        (json!(2), -32600),
        (json!(3), -32600),
    ];
    assert_eq!(codes(&answers)[..5], expected);
    assert!(answers[3]["error"]["message"].as_str().unwrap().contains("initialize"), "{}", answers[3]);
    assert_eq!(codes(&answers)[5], (json!(4), 0));
}

/// The batch is answered on a stream, each entry when it is ready.
#[tokio::test]
async fn batch_entry_can_be_cancelled() {
    let server = Server::configured(&[("call_budget = \"2s\"", "call_budget = \"10m\"")], "").await;
    let client = client_2025_03_26(&server).await;
    let call = |id| request(id, "tools/call", json!({"name": "work"}));
    let response = client.send(&json!([call(1), ping(2), call(3)])).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
    let mut events = Events::new(Generation::V2025, response);
    let quick = events.next().await.unwrap().unwrap();
    assert_eq!((&quick["id"], &quick["result"]), (&json!(2), &json!({})), "it waits for no other");
    let cancelled =
        json!([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}]);
    assert_eq!(client.send(&cancelled).await.status(), 202);
    for n in [1, 2] {
        server.engine.job(n).await.succeed("done");
    }
    let slow = events.next().await.unwrap().unwrap();
    assert_eq!((&slow["id"], &slow["result"]["content"][0]["text"]), (&json!(3), &json!("done")));
    assert_eq!(events.next().await.unwrap(), None, "what was cancelled is not answered");
}

#[tokio::test]
async fn other_revisions_refuse_batches() {
    let server = Server::start().await;
    for revision in ["2025-06-18", "2025-11-25"] {
        let client = server.client_with(revision, json!({}), None).await;
        let (status, code, message) = batch_error(&client, json!([ping(1)])).await;
        assert_eq!((status, code), (400, -32600));
        assert!(message.contains("batches are not supported"), "{message}");
    }
}

#[tokio::test]
async fn batch_is_bounded() {
    let server = Server::start().await;
    let client = client_2025_03_26(&server).await;
    let pings = |count: usize| Value::Array((0..count).map(ping).collect());
    assert_eq!(answers(&client, pings(32)).await.len(), 32);
    let (status, code, message) = batch_error(&client, pings(33)).await;
    assert_eq!((status, code), (400, -32600));
    assert!(message.contains("32") && message.contains("limits.batch"), "{message}");
    let (status, code, _) = batch_error(&client, json!([])).await;
    assert_eq!((status, code), (400, -32600));
    let server = Server::with("[limits]\nbatch = 2\n").await;
    let client = client_2025_03_26(&server).await;
    assert_eq!(answers(&client, pings(2)).await.len(), 2);
    assert_eq!(batch_error(&client, pings(3)).await.0, 400);
}

/// A batch counts against the limits like the same number of messages.
#[tokio::test]
async fn each_entry_counts_against_the_limits() {
    let key = data_encoding::HEXLOWER.encode(&Sha256::digest("key-of-ana"));
    let server = Server::with(&format!(
        "[limits]\nmax_argument_bytes = 100\nmax_streams_per_owner = 3\n[limits.owner]\nmax_calls_per_minute = 2\n\
         [auth]\nmode = \"api_keys\"\nkeys = [{{ principal = \"ana\", sha256 = \"{key}\" }}]\n"
    ))
    .await;
    let client = server.client_with("2025-03-26", json!({}), Some("key-of-ana")).await;
    let call = |id: i64| request(id, "tools/call", json!({"name": "nosuch"}));
    let count_refused = |answers: &[Value], expected: &str| {
        let has_message = |answer: &&Value| {
            answer["error"]["message"].as_str().is_some_and(|message| message.contains(expected))
        };
        answers.iter().filter(has_message).count()
    };
    let got = answers(&client, Value::Array((0..5).map(ping).collect())).await;
    assert_eq!(count_refused(&got, "streams and requests of yours are open"), 2, "{got:?}");
    let got = answers(&client, Value::Array((0..3).map(call).collect())).await;
    assert_eq!(count_refused(&got, "calls a minute"), 1, "{got:?}");
    let large = request(9, "tools/call", json!({"name": "nosuch", "arguments": {"a": "x".repeat(200)}}));
    let got = answers(&client, json!([large])).await;
    assert_eq!(codes(&got), [(json!(9), -32602)]);
}
