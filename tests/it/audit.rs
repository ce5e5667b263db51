//! Tests of the audit log through the endpoint: which lines callers' actions write, and how `taskbridge
//! audit verify` reports tampering. Every line that a test reads is validated against
//! docs/audit.schema.json.

mod failing;
mod flood;
mod lines;
mod stored;
mod tamper;

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{PROGRAM, ProgramOutput, Server, TestDir};

/// Config: two users, and jobs that print, leave an artifact, ask a question, and take time.
const BASE_CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000

[store]
path = "state/taskbridge.db"

[reconciler]
quickest_look = "20ms"
slowest_look = "100ms"

[backends.engine]
kind = "sim"

[tools.job]
backend = "engine"
target = { delay_ms = 50, lines = ["printed"], files = { "a.txt" = "left" } }
input_schema = { type = "object" }

[tools.asks]
backend = "engine"
target = { delay_ms = 50, question = { message = "Which colour?", at_once = true, schema = { type = "object", properties = { colour = { type = "string" } } } } }

[tools.long]
backend = "engine"
target = { delay_ms = 3600000 }

[tools.anns]
backend = "engine"
target = {}
access.call = { principals = ["ann"] }

[tools.full]
backend = "engine"
target = { delay_ms = 3600000 }
max_running = 1
when_full = "refuse"
"#;

/// The API keys of ann and bob.
const KEYS: [(&str, &str); 2] = [("ann", "key-of-ann-0123456789"), ("bob", "key-of-bob-0123456789")];

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/audit.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

/// Creates a folder for a server that writes an audit log.
fn dir_with_audit(audit: &str) -> TestDir {
    let keys = KEYS.map(|(principal, key)| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(key));
        format!("{{ principal = \"{principal}\", sha256 = \"{digest}\" }}")
    });
    let auth = format!("[auth]\nmode = \"api_keys\"\nkeys = [{}]\n", keys.join(", "));
    TestDir::new(&format!("{auth}{BASE_CONFIG}\n[audit]\n{audit}\n"))
}

/// Creates a folder for a server whose audit log is a file.
fn dir_with_audit_file(extra: &str) -> TestDir {
    dir_with_audit(&format!("to = [\"file\"]\npath = \"audit.jsonl\"\n{extra}"))
}

/// Parses and validates the lines of a log.
fn parse_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if let Err(error) = SCHEMA.validate(&line) {
                panic!("{error}: {line}");
            }
            line
        })
        .collect()
}

fn read_log(dir: &TestDir) -> Vec<Value> {
    parse_lines(&fs::read_to_string(dir.path("audit.jsonl")).unwrap())
}

fn filter_by_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Waits until the log has a line of this event for the task whose id has this prefix.
async fn wait_for_line(dir: &TestDir, event: &str, task: &str) {
    let has_line = || {
        let text = fs::read_to_string(dir.path("audit.jsonl")).unwrap_or_default();
        text.lines().any(|line| line.contains(event) && line.contains(&format!("\"id\":\"{}\"", &task[..8])))
    };
    while !has_line() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Runs `taskbridge audit WORDS... --config FILE`.
async fn run_audit(dir: &TestDir, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(PROGRAM);
    command.arg("audit").args(arguments).arg("--config").arg(dir.config());
    dir.prepare(&mut command);
    dir.run(command).await
}

/// Stops the server and verifies that the log is complete.
async fn stop_and_verify(dir: &TestDir, mut server: Server) -> ProgramOutput {
    assert_eq!(server.stop(), Some(0));
    let verified = run_audit(dir, &["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    verified
}
