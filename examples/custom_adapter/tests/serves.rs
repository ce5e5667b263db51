//! Tests the example as a user runs it: a server over stdio whose tool waits for a file.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// The server process. It is killed when this value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tool_waits_for_a_file() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_custom_adapter"));
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("file_watch.toml");
    server.arg("--stdio").arg("--config").arg(config).env("XDG_STATE_HOME", state.path());
    let mut server = Server(server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut input = server.0.stdin.take().unwrap();
    let mut output = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut request = |id: u64, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{message}").unwrap();
        loop {
            let response: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
            if response["id"] == id {
                return response["result"].clone();
            }
        }
    };

    let client = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    request(1, "initialize", client);
    let file = state.path().join("report.csv");
    let call = json!({"name": "wait_for_file", "arguments": {"path": file}, "task": {}});
    let task = request(2, "tools/call", call)["task"]["taskId"].clone();
    assert_eq!(request(3, "tasks/get", json!({"taskId": task}))["status"], "working");
    std::fs::write(&file, "").unwrap();
    let result = request(4, "tasks/result", json!({"taskId": task}));
    assert_eq!(result["content"][0]["text"], format!("{} exists", file.display()), "{result}");
}
