//! Compares the output of `call`, `check`, `doctor` and `tasks` on a terminal of 80 columns with
//! `recordings.txt`, which people review. `TASKBRIDGE_REVIEW=1` rewrites that file. Values that differ from
//! run to run (ids, times, paths, ports) are replaced by examples before the screen is drawn.

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use crate::support::{BASICS, CTRL_C, PROGRAM, Pty, Server, TestDir, knob};

const COLUMNS: u16 = 80;
/// Rows of the screen: more than any recording has, so that nothing scrolls away.
const ROWS: NonZero<u16> = NonZero::new(300).unwrap();

const TOOLS: &str = r#"
[reconciler]
quickest_look = "20ms"
slowest_look = "200ms"

[backends.here]
kind = "local"
working_dir = "gates"

[tools.greet]
title = "Greet a person"
description = "Prints a greeting, once or several times."
backend = "here"
parameters.name = { type = "string", description = "Whom to greet." }
parameters.times = { type = "integer", default = 1, minimum = 1, maximum = 5 }
parameters.loud = { type = "boolean", default = false }
target.command = ["printf", "hello %s\n", "{{ name }}"]

[tools.fail]
description = "Prints a line, then fails."
backend = "here"
target.command = ["sh", "-c", "echo so far so good; echo out of paint >&2; exit 3"]

[tools.paint]
description = "Paints until the gate opens."
backend = "here"
parameters.gate = { type = "string" }
[tools.paint.target]
command = ["sh", "-c", '''
echo "progress 1/4 half painted" >>"$TASKBRIDGE_EVENTS"
until [ -e "$0" ]; do sleep 0.05; done
echo "painted"''', "{{ gate }}"]

[tools.wait]
description = "Waits for the gate."
backend = "here"
parameters.gate = { type = "string" }
target.command = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.05; done', "{{ gate }}"]

[tools.careful]
description = "Asks for consent first."
backend = "here"
confirm = "Paint the house?"
target.command = ["echo", "painted"]

[tools.ask]
description = "Asks which paint to use."
backend = "here"
[tools.ask.target]
command = ["sh", "-c", '''
cat >"$TASKBRIDGE_QUESTIONS/new" <<'END'
{"message": "Which paint?", "schema": {"type": "object", "required": ["colour", "litres"], "properties": {
  "colour": {"type": "string", "title": "Colour", "default": "r",
    "oneOf": [{"const": "r", "title": "Signal red"}, {"const": "b", "title": "Sky blue"}]},
  "litres": {"type": "integer", "title": "Litres", "minimum": 1, "maximum": 20}}}}
END
mv "$TASKBRIDGE_QUESTIONS/new" "$TASKBRIDGE_QUESTIONS/paint.json"
until [ -e "$TASKBRIDGE_QUESTIONS/paint.answer.json" ]; do sleep 0.05; done
cat "$TASKBRIDGE_QUESTIONS/paint.answer.json"''']

[tools.pay]
description = "Asks for a payment on a page."
backend = "here"
[tools.pay.target]
command = ["sh", "-c", '''
echo '{"message": "Pay the bill.", "url": "https://bank.example/pay?order=7"}' >"$TASKBRIDGE_QUESTIONS/new"
mv "$TASKBRIDGE_QUESTIONS/new" "$TASKBRIDGE_QUESTIONS/bill.json"
until [ -e "$TASKBRIDGE_QUESTIONS/bill.answer.json" ]; do sleep 0.05; done
cat "$TASKBRIDGE_QUESTIONS/bill.answer.json"''']

[tools.show]
description = "Leaves a picture and two files."
backend = "here"
[tools.show.target]
command = ["sh", "-c", '''
printf 'a list\n' >"$TASKBRIDGE_ARTIFACTS/list.txt"
mkdir "$TASKBRIDGE_ARTIFACTS/sub" && printf '\000\377' >"$TASKBRIDGE_ARTIFACTS/sub/raw.bin"
echo '[{"type":"text","text":"look"},{"type":"image","mimeType":"image/gif","data":"R0lGODlh"}]' >"$TASKBRIDGE_CONTENT"
''']

[tools.count]
description = "Counts the words of a text."
backend = "here"
parameters.text = { type = "file" }
target.command = ["wc", "-w", "{{ text }}"]
"#;

/// A config with one mistake of each common kind.
const CONFIG_WITH_MISTAKES: &str = r#"
[server]
listen = "127.0.0.1"
[auth]
single_user = "yes"
[backends.here]
kind = "locl"
[tools.greet]
backend = "there"
parameters.times = { type = "integer", minimum = 5, maximum = 1 }
target.command = ["echo"]
"#;

/// A config whose tools and receiver cannot work.
const UNHEALTHY_CONFIG: &str = r#"
[backends.here]
kind = "local"
[tools.lost]
backend = "here"
target.command = ["no-such-program"]
[tools.elsewhere]
description = "Runs in a folder that does not exist."
backend = "here"
target = { command = ["true"], working_dir = "nowhere" }
[[notify]]
url = "http://127.0.0.1:9/hook"
secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
"#;

/// The output of one command line.
struct Recording {
    title: &'static str,
    line: String,
    output: Vec<u8>,
}

/// A server and the recordings made with it.
struct TerminalRecorder {
    server: Server,
    dir: TestDir,
    recordings: Vec<Recording>,
}

impl TerminalRecorder {
    fn start() -> Self {
        let dir = TestDir::new(&format!("{BASICS}{TOOLS}"));
        fs::create_dir(dir.path("gates")).unwrap();
        fs::write(dir.path("wrong.toml"), CONFIG_WITH_MISTAKES).unwrap();
        fs::write(dir.path("unwell.toml"), format!("{BASICS}{UNHEALTHY_CONFIG}")).unwrap();
        Self { server: dir.serve(), dir, recordings: Vec::new() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        self.dir.prepare(command.args(line.split(' ')));
        command.env("TASKBRIDGE_URL", self.server.url()).env("TASKBRIDGE_CONFIG", self.dir.config());
        command
    }

    /// Records a command line to its end. When a text of `inputs` appears, the keys next to it are typed.
    async fn record(&mut self, title: &'static str, line: &str, inputs: &[(&str, &str)]) {
        let mut pty = Pty::start_at(&self.command(line), COLUMNS);
        for (prompt, keys) in inputs {
            pty.wait_for(prompt).await;
            pty.type_keys(keys);
        }
        let output = pty.recording().await;
        self.recordings.push(Recording { title, line: line.to_owned(), output });
    }

    /// Records each of these command lines to its end, without input.
    async fn record_all(&mut self, lines: &[(&'static str, &str)]) {
        for (title, line) in lines {
            self.record(title, line, &[]).await;
        }
    }

    /// Records the progress bar while a job runs, and the screen after the job has ended.
    async fn record_bar(&mut self) {
        let line = "call paint gate=bar";
        let mut pty = Pty::start_at(&self.command(line), COLUMNS);
        pty.wait_for("[=====>").await;
        let marker = "half painted";
        pty.wait_for(marker).await;
        // The next redraw may have begun.
        let output = String::from_utf8_lossy(pty.written());
        let end = output.rfind(marker).map(|start| start + marker.len());
        let output = output[..end.expect("it was shown")].as_bytes().to_vec();
        self.recordings.push(Recording { title: "A job runs", line: line.to_owned(), output });
        fs::write(self.dir.path("gates/bar"), "").unwrap();
        let output = pty.recording().await;
        self.recordings.push(Recording { title: "The same job has ended", line: line.to_owned(), output });
    }

    /// Starts a job that waits, and returns the id of its task.
    async fn start_detached(&self, gate: &str) -> String {
        let ended = self.dir.run(self.command(&format!("call wait gate={gate} --detach -q"))).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout.trim_end().to_owned()
    }

    /// Returns the ids of all tasks, oldest first.
    async fn ids(&self) -> Vec<String> {
        let ended = self.dir.run(self.command("tasks list --json")).await;
        let listed: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
        listed.iter().rev().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Renders the recordings as a page. Examples replace all values that differ from run to run.
    async fn page(self) -> String {
        let examples = Examples::new(&self, &self.ids().await);
        let mut page = String::new();
        for Recording { title, line, output } in &self.recordings {
            let screen = screen(&examples.apply(&String::from_utf8_lossy(output)));
            let line = examples.apply(line);
            page.push_str(&format!("\n## {title}\n$ taskbridge {line}\n{screen}\n"));
        }
        page
    }
}

/// Replacements for values that differ from run to run.
struct Examples {
    literals: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Examples {
    fn new(recorder: &TerminalRecorder, ids: &[String]) -> Self {
        let folder = recorder.dir.config().parent().unwrap().display().to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, url) = (host.trim_end(), recorder.server.url());
        let mut literals = vec![
            (PROGRAM.to_owned(), "/usr/bin/taskbridge".to_owned()),
            (folder, "/srv/bridge".to_owned()),
            (url.to_owned(), "http://127.0.0.1:8808/mcp".to_owned()),
        ];
        for (id, letter) in ids.iter().zip('a'..='z') {
            // The whole id, and the prefixes that are shown instead of it.
            for length in [32, 12, 8] {
                literals.push((id[..length].to_owned(), letter.to_string().repeat(length)));
            }
        }
        let host = regex::escape(host);
        let patterns = [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "2026-01-02T03:04:05"),
            (r"(:05)\.\d+Z", "$1.678Z"),
            (r" \d:\d\d\b", " 0:00"),
            (r"\b36\d{5}\b", "3600000"),
            (r"everyone  \d+m?s +", "everyone  50ms  "),
            (r"AGE +DUE", "AGE   DUE"),
            (r"\b\d+(ms|s|m)( ago\))", "1s$2"),
            (r"\b\d+ ms\]", "1 ms]"),
            (r"\btb-[a-z2-7]{26}", "tb-abcdefghijklmnopqrstuvwxyz"),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "01234567-89ab-cdef-0123-456789abcdef"),
            (r"clock is \d+\.\d s (behind|ahead of)", "clock is 0.0 s behind"),
            // The column is as wide as its widest cell, and host names vary in length.
            (&format!(r"\b{host}\.[a-z0-9]{{16}} +"), "host.abcdefghijklmnop  "),
            (r"REPLICA +WHAT", "REPLICA                WHAT"),
            (&format!(r"\b{host}(:|\r)"), "host$1"),
            // The spinner, in any phase.
            ("[\u{2801}-\u{28ff}]", "\u{280b}"),
        ];
        let patterns = patterns.map(|(pattern, example)| (Regex::new(pattern).unwrap(), example)).into();
        Self { literals, patterns }
    }

    fn apply(&self, text: &str) -> String {
        let replaced =
            self.literals.iter().fold(text.to_owned(), |text, (word, example)| text.replace(word, example));
        self.patterns
            .iter()
            .fold(replaced, |text, (pattern, example)| pattern.replace_all(&text, *example).into_owned())
    }
}

/// Returns the contents of a terminal's screen after this output.
fn screen(output: &str) -> String {
    let columns = NonZero::new(COLUMNS).expect("a terminal has columns");
    let mut terminal = vt100::Parser::new(ROWS, columns, 0);
    terminal.process(output.as_bytes());
    let lines: Vec<String> = terminal.screen().rows(0, COLUMNS).collect();
    let text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.trim_end().to_owned()
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/recordings.txt")
}

#[tokio::test]
async fn terminal_output_is_as_reviewed() {
    let mut recorder = TerminalRecorder::start();
    recorder.record_calls().await;
    recorder.record_tasks().await;
    recorder.record_checks().await;
    let page = recorder.page().await;

    let reviewed = fs::read_to_string(file()).unwrap_or_default();
    let head = reviewed.split("\n## ").next().unwrap().trim_end();
    let current = format!("{head}\n{page}");
    if knob("TASKBRIDGE_REVIEW", 0) == 1 {
        fs::write(file(), current).unwrap();
        return;
    }
    let differs = reviewed.lines().zip(current.lines()).find(|(reviewed, current)| reviewed != current);
    assert!(
        reviewed == current,
        "{differs:?}: write it anew with TASKBRIDGE_REVIEW=1, and review the difference"
    );
}

impl TerminalRecorder {
    async fn record_calls(&mut self) {
        self.record_all(&[
            ("Help of call", "call --help"),
            ("The tools", "call"),
            ("One tool", "call --list greet"),
            ("A quick job", "call greet name=Ann"),
            ("A job fails", "call fail"),
            ("A job leaves files", "call show"),
            ("The result for scripts", "call greet name=Ann --json -q"),
            ("An unknown tool", "call gret"),
            ("An argument is missing", "call greet"),
            ("An unknown argument", "call greet name=Ann time=2"),
            ("A value is out of range", "call greet name=Ann times=9"),
            ("A value has the wrong type", "call greet name=Ann loud=perhaps"),
            ("A file parameter without a file", "call count text=README.md"),
            ("A file that is not there", "call count text=@README.md"),
            ("An unknown task", "call --task nosuchtask"),
            ("No server", "call --url http://127.0.0.1:9/mcp greet name=Ann"),
        ])
        .await;
        self.record_bar().await;
        let answers = [
            ("Signal red): ", "green\n"),
            ("Signal red): ", "2\n"),
            ("from 1 to 20): ", "21\n"),
            ("from 1 to 20): ", "7\n"),
        ];
        self.record("A job asks", "call ask", &answers).await;
        self.record("A job asks for a visit to a page", "call pay", &[("cancel] ", "yes\n")]).await;
        self.record("Consent is given", "call careful", &[("cancel] ", "yes\n")]).await;
        self.record("Consent is refused", "call careful", &[("cancel] ", "no\n")]).await;
        let cancel = [("half painted", CTRL_C), ("  > ", "c\n")];
        self.record("Ctrl-C, and the job is cancelled", "call paint gate=stop", &cancel).await;
        let detach = [("half painted", CTRL_C), ("  > ", "b\n")];
        self.record("Ctrl-C, and the job goes on", "call paint gate=leave", &detach).await;
        fs::write(self.dir.path("gates/leave"), "").unwrap();
    }

    async fn record_tasks(&mut self) {
        let (running, ended) = (self.start_detached("tasks").await, self.ids().await.remove(0));
        let lines: [(&'static str, &str); 9] = [
            ("Help of tasks", "tasks --help"),
            ("Help of tasks list", "tasks list --help"),
            ("Tasks that run", "tasks list --state working"),
            ("One task", "tasks show RUNS"),
            ("A task is due now", "tasks retry-now RUNS"),
            ("A task is cancelled", "tasks cancel RUNS"),
            ("It has ended already", "tasks cancel ENDED"),
            ("There is nothing to abandon", "tasks abandon ENDED"),
            ("There is no such task", "tasks show nosuchtask"),
        ];
        for (title, line) in lines {
            self.record(title, &line.replace("RUNS", &running).replace("ENDED", &ended), &[]).await;
        }
        self.dir.wait_for_jobs_to_end().await;
    }

    async fn record_checks(&mut self) {
        self.record_all(&[
            ("Help of check", "check --help"),
            ("A config is right", "check"),
            ("A config has mistakes", "check --config wrong.toml"),
            ("There is no such config", "check --config none.toml"),
            ("Help of doctor", "doctor --help"),
            ("All is well", "doctor"),
            ("What is wrong, and how it is mended", "doctor --config unwell.toml"),
        ])
        .await;
    }
}
