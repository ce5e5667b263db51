//! Tests of untrusted output: text from engines reaches clients without control and invisible characters,
//! bounded in size, and marked as text of a job.

use serde_json::{Value, json};

use crate::support::{PROGRAM, TestApp, text};

/// Colours, a cleared screen, a window title, a link, reversed text, and text that only a model reads.
const CONTROL_TEXT: &str =
    "a\u{1b}[31mb\u{1b}[2J\u{1b}]0;title\u{7}c\u{9b}1Kd\u{202e}e\u{e0041}f\u{0}g\u{8}h";
const PLAIN: &str = "abcdefgh";

const TOOLS: &str = r#"
[backends.here]
kind = "local"
max_output_bytes = 3000

[tools.say]
backend = "here"
parameters.what.type = "string"
target.command = ["sh", "-c", '''
printf 'message %s\n' "$1" >>"$TASKBRIDGE_EVENTS"
printf '%s' "$1"
printf '{"said": "x"}' >"$TASKBRIDGE_OUTPUT"
''', "sh", "{{ what }}"]

[tools.fail]
backend = "here"
parameters.what.type = "string"
target.command = ["sh", "-c", 'printf "%s" "$1" >&2; exit 3', "sh", "{{ what }}"]

[tools.flood]
backend = "here"
target.command = ["sh", "-c", 'head -c 5000000 /dev/zero | tr "\0" "x"; head -c 5000000 /dev/urandom >&2; i=0; while [ $i -lt 5000 ]; do echo "message $i" >>"$TASKBRIDGE_EVENTS"; i=$((i+1)); done']
"#;

/// Reports whether the text has no control characters other than line breaks and tabs. Random bytes can
/// contain DOS line breaks, too.
fn is_plain(text: &str) -> bool {
    text.replace("\r\n", "\n").chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t'))
}

/// Results, logs and status have no control characters, and the text of a job is marked as untrusted.
#[tokio::test]
async fn job_output_is_sanitized_and_marked() {
    let app = TestApp::start(TOOLS);
    let client = app.client().await;
    for tool in ["say", "fail"] {
        // An argument cannot contain a NUL.
        let what = CONTROL_TEXT.replace('\0', "");
        let task = client.start(tool, json!({ "what": what })).await.unwrap();
        let result = client.result(&task).await.unwrap();
        let texts: Vec<&str> =
            result["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
        assert!(
            texts.iter().all(|text| is_plain(text)) && texts.concat().contains(PLAIN),
            "{tool}: {result}"
        );
        let pointers = result["_meta"]["io.taskbridge/untrusted"].as_array().unwrap();
        let targets: Vec<&Value> =
            pointers.iter().map(|at| result.pointer(at.as_str().unwrap()).unwrap()).collect();
        assert!(targets.iter().any(|part| part["text"].as_str().is_some_and(|text| text.contains(PLAIN))));
        assert_eq!(targets.contains(&&json!({"said": "x"})), tool == "say", "{result}");
        let status = client.get(&task).await.unwrap();
        assert!(status["statusMessage"].as_str().is_none_or(is_plain), "{status}");
        let logs = client.call("task_logs", json!({ "task_id": task })).await.unwrap();
        assert!(is_plain(&text(&logs)) && text(&logs).contains(PLAIN), "{logs}");
        assert_eq!(logs["_meta"]["io.taskbridge/untrusted"], json!(["/content/0"]));
        let uri = format!("taskbridge://tasks/{task}/log");
        let read = client.request("resources/read", json!({ "uri": uri })).await.unwrap();
        assert!(is_plain(read["contents"][0]["text"].as_str().unwrap()), "{read}");
    }
    let refused = client.call("task_logs", json!({"task_id": "none"})).await.unwrap();
    assert_eq!(refused["_meta"].get("io.taskbridge/untrusted"), None, "the server's own words");
}

/// The result, the log, the status and the disk use are bounded, and invalid bytes become text.
#[tokio::test]
async fn output_flood_is_bounded() {
    let app = TestApp::start(TOOLS);
    let client = app.client().await;
    let task = client.start("flood", json!({})).await.unwrap();
    let result = client.result(&task).await.unwrap();
    assert!(
        text(&result).len() < 4000 && text(&result).contains("bytes left out"),
        "{}",
        text(&result).len()
    );
    let logs = text(&client.call("task_logs", json!({ "task_id": task })).await.unwrap());
    assert!(logs.len() < 20_000 && is_plain(&logs), "{}", logs.len());
    let status = client.get(&task).await.unwrap();
    assert!(status.to_string().len() < 2000, "{status}");
    let on_disk = std::process::Command::new("du").arg("-sk").arg(app.dir.path("state")).output().unwrap();
    let kib: u64 = String::from_utf8(on_disk.stdout).unwrap().split('\t').next().unwrap().parse().unwrap();
    assert!(kib < 8000, "{kib} KiB are kept");
}

/// `taskbridge call` prints the output of a job without control characters.
#[tokio::test]
async fn terminal_gets_no_control_characters() {
    let app = TestApp::start(TOOLS);
    let what = format!("what={}", CONTROL_TEXT.replace('\0', ""));
    let mut command = std::process::Command::new(PROGRAM);
    app.dir.prepare(&mut command);
    command.args(["call", "--url", app.server.url(), "fail", &what]);
    let output = app.dir.run(command).await;
    assert!(is_plain(&output.stderr) && output.stderr.contains(PLAIN), "{output:?}");
}
