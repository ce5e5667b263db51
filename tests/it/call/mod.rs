//! Tests for `taskbridge call`: the real client with the real server, with and without a terminal.

mod broken;
mod command;
mod results;
mod terminal;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use crate::support::{BASICS, PROGRAM, ProgramOutput, Pty, Server, TestDir};

/// The tools that the tests call. A job that waits does so for a file in the folder `gates` of its
/// [`TestDir`].
const TOOLS: &str = r#"
[reconciler]
lease = "2s"
quickest_look = "20ms"
slowest_look = "200ms"

[backends.here]
kind = "local"
working_dir = "gates"

[tools.greet]
title = "Greet somebody"
description = "Says hello."
backend = "here"
parameters.name = { type = "string", description = "Who." }
parameters.times = { type = "integer", default = 1, minimum = 1, maximum = 5 }
parameters.loud = { type = "boolean", default = false }
parameters.also = { type = "array", items = { type = "string" }, required = false }
target.command = ["printf", "hello %s %s %s %s\\n", "{{ name }}", "{{ times }}", "{{ loud }}", "{{ also | default([]) }}"]

[tools.fail]
backend = "here"
target.command = ["sh", "-c", "echo so far so good; echo out of paint >&2; exit 3"]

[tools.gated]
backend = "here"
parameters.gate = { type = "string" }
[tools.gated.target]
command = ["sh", "-c", '''
echo "progress 1/4 half painted" >>"$TASKBRIDGE_EVENTS"
until [ -e "$0" ]; do sleep 0.05; done
echo "progress 4/4 painted" >>"$TASKBRIDGE_EVENTS"
echo "through $0"''', "{{ gate }}"]

[tools.talk]
backend = "here"
[tools.talk.target]
command = ["sh", "-c", '''
echo "log info opening the tin" >>"$TASKBRIDGE_EVENTS"
echo "log warning running low on red" >>"$TASKBRIDGE_EVENTS"
until [ -e talked ]; do sleep 0.05; done''']

[tools.narrow]
backend = "here"
max_running = 1
when_full = "queue"
parameters.gate = { type = "string" }
target.command = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.05; done', "{{ gate }}"]

[tools.plain]
backend = "here"
task_support = "forbidden"
parameters.gate = { type = "string" }
target.command = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.05; done; echo "plainly through"', "{{ gate }}"]

[tools.careful]
backend = "here"
confirm = "Paint the house?"
target.command = ["echo", "painted"]

[tools.ask]
backend = "here"
[tools.ask.target]
command = ["sh", "-c", '''
cat >"$TASKBRIDGE_QUESTIONS/new" <<'END'
{"message": "Which paint?", "schema": {"type": "object", "required": ["colour", "litres", "sure"], "properties": {
  "colour": {"type": "string", "title": "Colour", "default": "r",
    "oneOf": [{"const": "r", "title": "Signal red"}, {"const": "b", "title": "Sky blue"}]},
  "litres": {"type": "integer", "title": "Litres", "minimum": 1, "maximum": 20},
  "rooms": {"type": "array", "title": "Rooms", "items": {"type": "string", "enum": ["hall", "attic", "bath"]}},
  "sure": {"type": "boolean", "title": "Sure"}}}}
END
mv "$TASKBRIDGE_QUESTIONS/new" "$TASKBRIDGE_QUESTIONS/paint.json"
until [ -e "$TASKBRIDGE_QUESTIONS/paint.answer.json" ]; do sleep 0.05; done
cat "$TASKBRIDGE_QUESTIONS/paint.answer.json"''']

[tools.pay]
backend = "here"
[tools.pay.target]
command = ["sh", "-c", '''
echo '{"message": "Pay the bill.", "url": "https://bank.example/pay?order=7"}' >"$TASKBRIDGE_QUESTIONS/new"
mv "$TASKBRIDGE_QUESTIONS/new" "$TASKBRIDGE_QUESTIONS/bill.json"
until [ -e "$TASKBRIDGE_QUESTIONS/bill.answer.json" ]; do sleep 0.05; done
cat "$TASKBRIDGE_QUESTIONS/bill.answer.json"''']

[tools.show]
backend = "here"
[tools.show.target]
command = ["sh", "-c", '''
printf 'a list\n' >"$TASKBRIDGE_ARTIFACTS/list.txt"
mkdir "$TASKBRIDGE_ARTIFACTS/sub" && printf '\000\377' >"$TASKBRIDGE_ARTIFACTS/sub/raw.bin"
echo '[{"type":"text","text":"look"},{"type":"image","mimeType":"image/gif","data":"R0lGODlh"}]' >"$TASKBRIDGE_CONTENT"
''']

[tools.data]
backend = "here"
target.command = ["sh", "-c", 'echo "{\"litres\": 3}" >"$TASKBRIDGE_OUTPUT"']

[tools.count]
backend = "here"
parameters.text = { type = "file" }
target.command = ["wc", "-c", "{{ text }}"]
"#;

/// A server and its [`TestDir`], in which the client runs.
struct CallFixture {
    server: Server,
    dir: TestDir,
}

impl CallFixture {
    fn start() -> Self {
        Self::with(BASICS)
    }

    /// Starts a server with `basics` instead of [`BASICS`].
    fn with(basics: &str) -> Self {
        let dir = TestDir::new(&format!("{basics}{TOOLS}"));
        fs::create_dir(dir.path("gates")).unwrap();
        Self { server: dir.serve(), dir }
    }

    /// Returns the command `taskbridge call ...`, not started.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        self.dir.prepare(command.arg("call").args(arguments));
        command.env("TASKBRIDGE_URL", self.server.url());
        command
    }

    /// Runs `taskbridge call ...` without a terminal until it ends.
    async fn call(&self, arguments: &[&str]) -> ProgramOutput {
        self.dir.run(self.command(arguments)).await
    }

    /// Runs `taskbridge call ...` at a terminal.
    fn at_terminal(&self, arguments: &[&str]) -> Pty {
        Pty::start(&self.command(arguments))
    }

    /// Starts a call and returns its stderr as lines.
    fn begin(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStderr>>) {
        let mut command = tokio::process::Command::from(self.command(arguments));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        (child, lines)
    }

    /// Opens a gate, so that the jobs that wait for it continue.
    fn open(&self, gate: &str) {
        fs::write(self.dir.path("gates").join(gate), "").unwrap();
    }
}

/// Reads until a line contains `expected`, and returns the line.
async fn wait_for_line(lines: &mut Lines<BufReader<ChildStderr>>, expected: &str) -> String {
    let search = tokio::time::timeout(Duration::from_secs(60), async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(expected) {
                return line;
            }
        }
        panic!("it never says {expected:?}");
    });
    search.await.unwrap()
}

/// Returns the id that follows `prefix` in a text.
fn id_after(prefix: &str, text: &str) -> String {
    let (_, rest) = text.split_once(prefix).unwrap_or_else(|| panic!("no {prefix:?} in: {text}"));
    rest.chars().take_while(char::is_ascii_alphanumeric).collect()
}
