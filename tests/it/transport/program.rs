//! Tests for stdio of the real program: its output, and when it ends.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::bench::{initialize, notification, request};
use crate::support::{BASICS, Generation, TestDir, schema};

const CONFIG: &str = r#"
[log]
filter = "debug"

[backends.here]
kind = "local"

[tools.noisy]
backend = "here"
target.command = ["sh", "-c", "echo to stdout; echo to stderr >&2; echo {}"]
"#;

/// The program and the two ends of its pipes.
struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _dir: TestDir,
}

impl Program {
    fn start() -> Self {
        let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
        let mut command = dir.command("serve");
        command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take().unwrap(), output, child, _dir: dir }
    }

    async fn send_line(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Returns the answer to the request of this id. Everything before it must be messages, too.
    async fn answer(&mut self, id: i64) -> Value {
        loop {
            let line = self.output.next_line().await.unwrap().expect("the answer comes before the end");
            let message: Value = serde_json::from_str(&line).expect("only messages go to stdout");
            schema::check(Generation::V2025, &message);
            if message["id"] == id {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn nothing_but_messages_goes_to_stdout() {
    let mut program = Program::start();
    program.send_line(&initialize("2025-11-25").to_string()).await;
    program.answer(0).await;
    program.send_line(&notification("notifications/initialized", &json!({})).to_string()).await;
    program.send_line("this is no message").await;
    let call = json!({ "name": "noisy", "arguments": {}, "task": {} });
    program.send_line(&request(1, "tools/call", &call).to_string()).await;
    let task = program.answer(1).await["result"]["task"]["taskId"].clone();
    program.send_line(&request(2, "tasks/result", &json!({ "taskId": task })).to_string()).await;
    let result = program.answer(2).await;
    assert!(result["result"]["content"].to_string().contains("to stdout"), "{result}");

    drop(program.input);
    while let Some(line) = program.output.next_line().await.unwrap() {
        // The task's last status may come after its result.
        assert!(
            line.contains("\"notifications/tasks/status\""),
            "nothing else after the end of the input: {line}"
        );
    }
    let mut log = String::new();
    program.child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
    assert!(!log.is_empty(), "the log went to stderr");
    assert!(program.child.wait().await.unwrap().success());
}

/// The input is still open.
#[tokio::test]
async fn sigterm_ends_program() {
    let mut program = Program::start();
    program.send_line(&initialize("2025-11-25").to_string()).await;
    program.answer(0).await;
    kill_process(Pid::from_raw(program.child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert!(program.child.wait().await.unwrap().success(), "though its input is still open");
}
