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

use super::{House, id_behind, says};
use crate::support::{BASICS, Server};

impl House {
    /// Kills the server as `kill -9` does.
    fn kill(&mut self) {
        self.server.kill();
    }

    /// Stops the server gracefully.
    fn stop(&mut self) {
        assert_eq!(self.server.stop(), Some(0));
    }

    /// Starts a server at the previous address.
    fn start_again(&mut self) {
        let address = self.server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let mut command = self.place.command("serve");
        command.args(["--listen", &address]);
        self.server = Server::spawn(command, &self.place.path("server.log"));
        self.server.wait_until_it_listens();
    }
}

/// The client reconnects and continues with the same task.
#[tokio::test]
async fn call_survives_server_kill() {
    let mut house = House::start();
    let (child, mut lines) = house.begin(&["gated", "gate=kill"]);
    let id = id_behind("gated: task ", &says(&mut lines, "gated: task ").await);
    says(&mut lines, "half painted").await;
    house.kill();
    says(&mut lines, "gated: the connection broke (").await;
    house.start_again();
    says(&mut lines, "gated: connected again; the task goes on").await;
    house.open("kill");
    says(&mut lines, "gated succeeded after ").await;
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"through kill\n".as_slice()));
    let listed = house.call(&["task_list"]).await.stdout;
    assert!(listed.lines().count() == 1 && listed.starts_with(&id), "one task, and no other: {listed}");
}

/// The user answers while the server is down. The answer arrives after the restart, without a second
/// question.
#[tokio::test]
async fn answer_during_outage_arrives() {
    let mut house = House::start();
    for stops in [House::kill, House::stop] {
        let mut call = house.at_terminal(&["ask"]);
        call.shows("Signal red): ").await;
        stops(&mut house);
        call.enters("2");
        call.shows("Litres").await;
        call.enters("3");
        call.shows("Sure").await;
        call.enters("y");
        call.shows("Enter to leave it out): ").await;
        call.enters("");
        call.shows("ask: the connection broke (").await;
        house.start_again();
        call.shows("ask: connected again; the task goes on").await;
        let (code, shown) = call.ends().await;
        assert_eq!(code, Some(0), "{shown}");
        assert!(
            shown.contains(r#"{"action":"accept","content":{"colour":"b","litres":3,"sure":true}}"#),
            "{shown}"
        );
        assert_eq!(shown.matches("ask asks:").count(), 1, "it is asked once: {shown}");
    }
}

#[tokio::test]
async fn expired_session_is_renewed() {
    let house = House::with(&BASICS.replace("[server]", "[server]\nsession_lifetime = \"1s\""));
    let (child, mut lines) = house.begin(&["gated", "gate=long", "--json"]);
    says(&mut lines, "half painted").await;
    // Longer than the lifetime of the session.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    house.open("long");
    let output = child.wait_with_output().await.unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["result"]["content"][0]["text"], "through long\n", "{document}");
    assert_eq!(document["task"]["status"], "completed", "looked at in a session that lives: {document}");
}

#[tokio::test]
async fn lost_task_is_reported() {
    let mut house = House::start();
    let (child, mut lines) = house.begin(&["gated", "gate=lost"]);
    says(&mut lines, "half painted").await;
    house.kill();
    fs::remove_dir_all(house.place.path("state")).unwrap();
    house.start_again();
    let told = says(&mut lines, "the server does not know task ").await;
    assert!(told.contains(" any more: "), "{told}");
    assert_eq!(child.wait_with_output().await.unwrap().status.code(), Some(1));
    house.open("lost");
}

/// Forwards a connection to the server, and closes it when the first `tools/call` is answered.
async fn carry(mut client: TcpStream, mut server: TcpStream, broke: Arc<AtomicBool>) {
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_call = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                is_call = asked[..count].windows(12).any(|words| words == b"\"tools/call\"");
                server.write_all(&asked[..count]).await.unwrap();
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if is_call && !broke.swap(true, Ordering::Relaxed) {
                    return;
                }
                client.write_all(&answered[..count]).await.unwrap();
            }
        }
    }
}

/// A call whose answer is lost is sent again, and nothing starts twice.
#[tokio::test]
async fn repeated_call_starts_one_task() {
    let house = House::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = format!("http://{}/mcp", listener.local_addr().unwrap());
    let to = house.server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let broke = Arc::new(AtomicBool::new(false));
    let carrying = async {
        let mut open = JoinSet::new();
        loop {
            let (client, _) = listener.accept().await.unwrap();
            open.spawn(carry(client, TcpStream::connect(&to).await.unwrap(), Arc::clone(&broke)));
        }
    };
    let arguments = ["--url", &way, "greet", "name=ann"];
    let called = tokio::select! {
        called = house.call(&arguments) => called,
        () = carrying => unreachable!("it carries for ever"),
    };
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hello ann 1 false []\n"), "{called:?}");
    assert!(called.stderr.contains("the call is made again: "), "{}", called.stderr);
    let listed = house.call(&["task_list"]).await.stdout;
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
    let house = House::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let answer = post(async move |Json(request): Json<Value>| answer_as_other_server(&request, &counted));
    let serving = axum::serve(listener, Router::new().route("/mcp", answer));
    let arguments = ["--url", &url, "deploy"];
    let called = tokio::select! {
        called = house.call(&arguments) => called,
        served = serving => unreachable!("it serves for ever: {served:?}"),
    };
    assert_eq!((called.code, calls.load(Ordering::Relaxed)), (Some(1), 1), "{called:?}");
    let why = "HTTP status 504; it is not known whether the server accepted the call";
    assert!(called.stderr.contains(why), "{}", called.stderr);
}

/// The task continues, and the message has the command that attaches to it.
#[tokio::test]
async fn signal_without_terminal_detaches() {
    let house = House::start();
    for (signal, code, gate) in [(Signal::INT, 130, "int"), (Signal::TERM, 143, "term")] {
        let (mut child, mut lines) = house.begin(&["gated", &format!("gate={gate}")]);
        says(&mut lines, "half painted").await;
        let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let id =
            id_behind("--task ", &says(&mut lines, "gated goes on in the background; watch it with: ").await);
        assert_eq!(child.wait().await.unwrap().code(), Some(code));
        house.open(gate);
        assert_eq!(house.call(&["--task", &id, "-q"]).await.stdout, format!("through {gate}\n"));
    }
}
