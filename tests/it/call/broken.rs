//! Tests for failures while a user waits: the server is killed and restarted, an answer is lost, a session
//! expires. They also test signals without a terminal.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{CallFixture, id_after, wait_for_line};
use crate::support::{BASICS, Server};

impl CallFixture {
    /// Kills the server as `kill -9` does.
    fn kill(&mut self) {
        self.server.kill();
    }

    /// Stops the server gracefully.
    fn stop(&mut self) {
        assert_eq!(self.server.stop(), Some(0));
    }

    /// Starts a server at the previous address.
    fn restart(&mut self) {
        let address = self.server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let mut command = self.dir.command("serve");
        command.args(["--listen", &address]);
        self.server = Server::spawn(command, &self.dir.path("server.log"));
        self.server.wait_until_it_listens();
    }
}

/// The client reconnects and continues with the same task.
#[tokio::test]
async fn call_survives_server_kill() {
    let mut fixture = CallFixture::start();
    let (child, mut lines) = fixture.begin(&["gated", "gate=kill"]);
    let id = id_after("gated: task ", &wait_for_line(&mut lines, "gated: task ").await);
    wait_for_line(&mut lines, "half painted").await;
    fixture.kill();
    wait_for_line(&mut lines, "gated: connection lost (").await;
    fixture.restart();
    wait_for_line(&mut lines, "gated: reconnected; the task continues").await;
    fixture.open("kill");
    wait_for_line(&mut lines, "gated succeeded after ").await;
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"through kill\n".as_slice()));
    let listed = fixture.call(&["task_list"]).await.stdout;
    assert!(listed.lines().count() == 1 && listed.starts_with(&id), "one task, and no other: {listed}");
}

/// The user answers while the server is down. The answer arrives after the restart, without a second
/// question.
#[tokio::test]
async fn answer_during_outage_arrives() {
    let mut fixture = CallFixture::start();
    for stops in [CallFixture::kill, CallFixture::stop] {
        let mut call = fixture.at_terminal(&["ask"]);
        call.wait_for("Signal red): ").await;
        stops(&mut fixture);
        call.enter_line("2");
        call.wait_for("Litres").await;
        call.enter_line("3");
        call.wait_for("Sure").await;
        call.enter_line("y");
        call.wait_for("Enter to skip): ").await;
        call.enter_line("");
        call.wait_for("ask: connection lost (").await;
        fixture.restart();
        call.wait_for("ask: reconnected; the task continues").await;
        let (code, output) = call.wait_for_end().await;
        assert_eq!(code, Some(0), "{output}");
        assert!(
            output.contains(r#"{"action":"accept","content":{"colour":"b","litres":3,"sure":true}}"#),
            "{output}"
        );
        assert_eq!(output.matches("ask asks:").count(), 1, "it is asked once: {output}");
    }
}

#[tokio::test]
async fn expired_session_is_renewed() {
    let fixture = CallFixture::with(&BASICS.replace("[server]", "[server]\nsession_lifetime = \"1s\""));
    let (child, mut lines) = fixture.begin(&["gated", "gate=long", "--json"]);
    wait_for_line(&mut lines, "half painted").await;
    // Longer than the lifetime of the session.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    fixture.open("long");
    let output = child.wait_with_output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["result"]["content"][0]["text"], "through long\n", "{document}");
    assert_eq!(document["task"]["status"], "completed", "looked at in a session that lives: {document}");
}

#[tokio::test]
async fn lost_task_is_reported() {
    let mut fixture = CallFixture::start();
    let (child, mut lines) = fixture.begin(&["gated", "gate=lost"]);
    wait_for_line(&mut lines, "half painted").await;
    fixture.kill();
    fs::remove_dir_all(fixture.dir.path("state")).unwrap();
    fixture.restart();
    let line = wait_for_line(&mut lines, " no longer exists on the server: ").await;
    assert!(line.contains("taskbridge: task "), "{line}");
    assert_eq!(child.wait_with_output().await.unwrap().status.code(), Some(1));
    fixture.open("lost");
}

/// What happens to connections to the server.
#[derive(Clone)]
struct Faults {
    /// A connection is closed when the first `tools/call` is answered.
    was_cut: Arc<AtomicBool>,
    /// How much later the server gets the request for a stream.
    stream_delay: Duration,
}

/// Forwards a connection to the server.
async fn forward(mut client: TcpStream, mut server: TcpStream, faults: Faults) {
    let (mut request, mut response) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_call = false;
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                is_call = request[..count].windows(12).any(|words| words == b"\"tools/call\"");
                if request.starts_with(b"GET ") {
                    tokio::time::sleep(faults.stream_delay).await;
                }
                server.write_all(&request[..count]).await.unwrap();
            }
            read = server.read(&mut response) => {
                let Ok(count @ 1..) = read else { return };
                if is_call && !faults.was_cut.swap(true, Ordering::Relaxed) {
                    return;
                }
                client.write_all(&response[..count]).await.unwrap();
            }
        }
    }
}

/// Forwards connections to the fixture's server until the returned set is dropped. Returns their URL.
async fn forward_to(fixture: &CallFixture, faults: Faults) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let address = fixture.server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let mut forwarding = JoinSet::new();
    forwarding.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&address).await.unwrap();
            connections.spawn(forward(client, server, faults.clone()));
        }
    });
    (url, forwarding)
}

/// The stream is open before the job starts, so that the job's first messages are shown. A call waits for it,
/// up to a limit.
#[tokio::test]
async fn slow_stream_misses_no_message() {
    let fixture = CallFixture::start();
    let faults = Faults { was_cut: Arc::new(AtomicBool::new(true)), stream_delay: Duration::from_secs(1) };
    let (url, _forwarding) = forward_to(&fixture, faults).await;
    let (child, mut lines) = fixture.begin(&["--url", &url, "talk"]);
    wait_for_line(&mut lines, "talk: opening the tin").await;
    fixture.open("talked");
    assert_eq!(child.wait_with_output().await.unwrap().status.code(), Some(0));
}

/// A call whose answer is lost is sent again, and nothing starts twice.
#[tokio::test]
async fn repeated_call_starts_one_task() {
    let fixture = CallFixture::start();
    let faults = Faults { was_cut: Arc::new(AtomicBool::new(false)), stream_delay: Duration::ZERO };
    let (url, _forwarding) = forward_to(&fixture, faults).await;
    let called = fixture.call(&["--url", &url, "greet", "name=ann"]).await;
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hello ann 1 false []\n"), "{called:?}");
    assert!(called.stderr.contains("retrying the call: "), "{}", called.stderr);
    let listed = fixture.call(&["task_list"]).await.stdout;
    assert_eq!(listed.lines().count(), 1, "one task, and no other: {listed}");
}

/// Answers as an MCP server that is not taskbridge, behind a proxy that times out during each `tools/call`.
fn answer_as_other_server(request: &Value, calls: &AtomicUsize) -> Response {
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "other", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "deploy", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            calls.fetch_add(1, Ordering::Relaxed);
            return StatusCode::GATEWAY_TIMEOUT.into_response();
        }
        _ if request["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "unknown method"});
            return Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

/// Only taskbridge servers have idempotency keys, so a call that another server may have accepted is not
/// repeated.
#[tokio::test]
async fn other_server_gets_call_once() {
    let fixture = CallFixture::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let answer = post(async move |Json(request): Json<Value>| answer_as_other_server(&request, &counted));
    let serving = axum::serve(listener, Router::new().route("/mcp", answer));
    let arguments = ["--url", &url, "deploy"];
    let called = tokio::select! {
        called = fixture.call(&arguments) => called,
        served = serving => unreachable!("it serves for ever: {served:?}"),
    };
    assert_eq!((called.code, calls.load(Ordering::Relaxed)), (Some(1), 1), "{called:?}");
    let message = "HTTP status 504; it is not known whether the server accepted the call";
    assert!(called.stderr.contains(message), "{}", called.stderr);
}

/// The task continues, and the message has the command that attaches to it.
#[tokio::test]
async fn signal_without_terminal_detaches() {
    let fixture = CallFixture::start();
    for (signal, code, gate) in [(Signal::INT, 130, "int"), (Signal::TERM, 143, "term")] {
        let (mut child, mut lines) = fixture.begin(&["gated", &format!("gate={gate}")]);
        wait_for_line(&mut lines, "half painted").await;
        let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let id = id_after(
            "--task ",
            &wait_for_line(&mut lines, "gated continues in the background; watch it with: ").await,
        );
        assert_eq!(child.wait().await.unwrap().code(), Some(code));
        fixture.open(gate);
        assert_eq!(fixture.call(&["--task", &id, "-q"]).await.stdout, format!("through {gate}\n"));
    }
}
