//! Tests for stdio, over two pipes within the test process.

use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge::clock::System;
use taskbridge::mcp::Bridge;
use taskbridge::mcp::transport::stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::bench::{MAX_BODY, bridge, initialize, notification, request};
use crate::support::{Generation, schema};

/// A client with its server.
struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    server_task: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
    _bridge: Arc<Bridge>,
    _dir: TempDir,
}

impl Client {
    #[allow(clippy::disallowed_methods, reason = "a test serves beside its own requests")]
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let bridge = Arc::new(bridge(dir.path(), System::clock()));
        let ((input, read), (output, write)) = (duplex(1024), duplex(1024));
        let shutdown = CancellationToken::new();
        let server_task = {
            let (bridge, shutdown) = (Arc::clone(&bridge), shutdown.clone());
            tokio::spawn(async move { stdio::serve(BufReader::new(read), write, &bridge, shutdown).await })
        };
        let output = BufReader::new(output).lines();
        Self { input, output, server_task, shutdown, _bridge: bridge, _dir: dir }
    }

    async fn start_initialized() -> Self {
        let mut client = Self::start();
        client.send(&initialize("2025-11-25")).await;
        assert_eq!(client.receive().await["result"]["protocolVersion"], "2025-11-25");
        client.send(&notification("notifications/initialized", &json!({}))).await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.write(message.to_string().as_bytes()).await;
    }

    async fn write(&mut self, line: &[u8]) {
        self.input.write_all(line).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = self.output.next_line().await.unwrap().expect("the server writes a line");
        read(&line)
    }

    /// Returns the next message with this member, and skips the others.
    async fn receive_matching(&mut self, member: &str, value: &str) -> Value {
        loop {
            let message = self.receive().await;
            if message[member] == value {
                return message;
            }
        }
    }

    async fn receive_error(&mut self) -> (Value, i64, String) {
        let mut message = self.receive().await;
        let code = message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {message}"));
        (message["id"].take(), code, message["error"]["message"].as_str().unwrap().to_owned())
    }

    /// Closes the input, waits until the server has ended, and returns the remaining messages.
    async fn end(mut self) -> Vec<Value> {
        self.input.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(read(&line));
        }
        self.server_task.await.unwrap().unwrap();
        rest
    }
}

fn read(line: &str) -> Value {
    let message = serde_json::from_str(line).expect("a line is one message");
    schema::check(Generation::V2025, &message);
    message
}

#[tokio::test]
async fn before_initialize_there_is_only_ping() {
    let mut client = Client::start();
    client.send(&request("a", "ping", &json!({}))).await;
    assert_eq!(client.receive().await, json!({ "jsonrpc": "2.0", "id": "a", "result": {} }));
    client.send(&request(7, "tools/list", &json!({}))).await;
    assert_eq!(client.receive_error().await, (json!(7), -32600, "begin with initialize".to_owned()));
    client.send(&notification("notifications/initialized", &json!({}))).await;
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
    client.send(&initialize("2025-06-18")).await;
    assert_eq!(client.receive().await["result"]["protocolVersion"], "2025-06-18");
    client.send(&initialize("2025-06-18")).await;
    let (id, code, message) = client.receive_error().await;
    assert_eq!((id, code), (json!(0), -32600));
    assert!(message.contains("begun already"), "{message}");
    assert_eq!(client.end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn batch_is_answered_on_one_line() {
    let mut client = Client::start();
    client.send(&initialize("2025-03-26")).await;
    assert_eq!(client.receive().await["result"]["protocolVersion"], "2025-03-26");
    let ready = notification("notifications/initialized", &json!({}));
    let ping = |id: i64| request(id, "ping", &json!({}));
    client.send(&json!([ready, ping(1), 7, initialize("2025-03-26"), ping(2)])).await;
    let line = client.output.next_line().await.unwrap().expect("the server writes a line");
    let answers: Vec<Value> = serde_json::from_str(&line).expect("an array");
    assert_eq!(answers.len(), 4, "{line}");
    for id in [1, 2] {
        assert!(answers.contains(&json!({"jsonrpc": "2.0", "id": id, "result": {}})), "{line}");
    }
    for (id, expected) in [(json!(null), "a message is a JSON object"), (json!(0), "must not be in a batch")]
    {
        let refused = answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert!(refused["error"]["message"].as_str().unwrap().contains(expected), "{line}");
    }
    // A notification gets no answer.
    client.send(&json!([notification("notifications/x", &json!({}))])).await;
    client.send(&Value::Array((0..33).map(ping).collect())).await;
    let (id, code, message) = client.receive_error().await;
    assert_eq!((id, code), (json!(null), -32600));
    assert!(message.contains("32 messages at most"), "{message}");
    assert_eq!(client.end().await, Vec::<Value>::new());
}

#[tokio::test]
async fn bad_line_gets_error_and_continues() {
    let mut client = Client::start_initialized().await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#, "[".repeat(20_000));
    let long = request(1, "ping", &json!({ "pad": "x".repeat(MAX_BODY) })).to_string();
    for (line, code, expected) in [
        (&b"{"[..], -32700, "not JSON"),
        (b"\xff\xfe", -32700, "not UTF-8"),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "batches"),
        (b"{\"id\":1}", -32600, "jsonrpc"),
        (deep.as_bytes(), -32600, "nested deeper"),
        (long.as_bytes(), -32600, "larger than the 65536 bytes"),
    ] {
        client.write(line).await;
        let (_, got, message) = client.receive_error().await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    client.write(b"\r").await;
    client.write(b"").await;
    client.write(b" {\"jsonrpc\":\"2.0\",\"id\":\"line\\nbreak\",\"method\":\"ping\"}\r").await;
    assert_eq!(client.receive().await["id"], "line\nbreak");
    assert_eq!(client.end().await, Vec::<Value>::new());
}

/// The last line needs no newline.
#[tokio::test]
async fn end_of_input_answers_then_ends() {
    let mut client = Client::start_initialized().await;
    // More than the buffer of the pipe: the answers are written while the requests are read.
    for id in 0..100 {
        client.send(&request(id, "ping", &json!({}))).await;
    }
    client.input.write_all(request("last", "ping", &json!({})).to_string().as_bytes()).await.unwrap();
    let mut ids: Vec<Value> = client.end().await.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids.pop(), Some(json!("last")), "the last line needs no newline");
    assert_eq!(ids, (0..100).map(Value::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn waiting_request_blocks_no_other() {
    let mut client = Client::start();
    let mut initialize_request = initialize("2025-11-25");
    initialize_request["params"]["capabilities"]["elicitation"] = json!({});
    client.send(&initialize_request).await;
    client.receive().await;
    client.send(&notification("notifications/initialized", &json!({}))).await;
    let task = async |client: &mut Client, tool: &str| {
        client.send(&request("c", "tools/call", &json!({ "name": tool, "arguments": {}, "task": {} }))).await;
        client.receive_matching("id", "c").await["result"]["task"]["taskId"].as_str().unwrap().to_owned()
    };
    let (runs, asks) = (task(&mut client, "run").await, task(&mut client, "ask").await);

    client.send(&request("waits", "tasks/result", &json!({ "taskId": runs }))).await;
    client.send(&request("asks", "tasks/result", &json!({ "taskId": asks }))).await;
    let question = client.receive_matching("method", "elicitation/create").await;
    client.send(&request("p", "ping", &json!({}))).await;
    assert_eq!(client.receive_matching("id", "p").await["result"], json!({}), "while two requests wait");

    client.send(&notification("notifications/cancelled", &json!({ "requestId": "waits" }))).await;
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } })).await;
    assert_eq!(client.receive_matching("id", "asks").await["result"]["isError"], true);
    client.send(&request("get", "tasks/get", &json!({ "taskId": runs }))).await;
    let rest = client.end().await;
    let answers: Vec<_> = rest.iter().filter(|message| message.get("id").is_some()).collect();
    assert_eq!(answers.len(), 1, "the cancelled request is not answered: {rest:?}");
    assert_eq!((&answers[0]["id"], &answers[0]["result"]["status"]), (&json!("get"), &json!("working")));
}

#[tokio::test]
async fn shutdown_or_broken_pipe_ends_server() {
    let client = Client::start_initialized().await;
    client.shutdown.cancel();
    client.server_task.await.unwrap().unwrap();

    let mut client = Client::start_initialized().await;
    drop(client.output);
    client.input.write_all(request(1, "ping", &json!({})).to_string().as_bytes()).await.unwrap();
    client.input.write_all(b"\n").await.unwrap();
    let error = client.server_task.await.unwrap().expect_err("the answer cannot be written");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
