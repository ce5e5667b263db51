//! Tests for the results of a call without a terminal: output, files, exit codes, and tasks that a user
//! leaves and attaches to again.

use std::fs;

use serde_json::Value;

use super::{CallFixture, id_after, wait_for_line};
use crate::support::BASICS;

/// Progress goes to stderr, and `--quiet` suppresses it.
#[tokio::test]
async fn stdout_has_only_result() {
    let fixture = CallFixture::start();
    fixture.open("now");
    let called = fixture.call(&["gated", "gate=now"]).await;
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "through now\n"), "{called:?}");
    let id = id_after("gated: task ", &called.stderr);
    assert_eq!(id.len(), 32, "{}", called.stderr);
    assert!(called.stderr.contains("\ngated succeeded after 0:0"), "{}", called.stderr);
    assert!(!called.stderr.contains("terminal"), "nothing was asked: {}", called.stderr);
    let quiet = fixture.call(&["gated", "gate=now", "--quiet"]).await;
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("through now\n", ""));
}

#[tokio::test]
async fn task_is_found_by_id_prefix() {
    let fixture = CallFixture::start();
    let one = fixture.call(&["gated", "gate=one", "--detach", "-q"]).await.stdout.trim().to_owned();
    let other = fixture.call(&["gated", "gate=other", "--detach", "-q"]).await.stdout.trim().to_owned();
    let cancelled = fixture.call(&["--task", &other[..12], "--cancel"]).await;
    assert_eq!(cancelled.stdout, format!("task {other} is cancelled\n"), "{cancelled:?}");
    fixture.open("one");
    let ended = fixture.call(&["--task", &one[..12]]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "through one\n"), "{ended:?}");
    for unknown in [&one[..3], "zzzzzzzz"] {
        let refused = fixture.call(&["--task", unknown]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("not found: it has expired"), "{refused:?}");
    }
    fixture.dir.wait_for_jobs_to_end().await;
}

/// The reason goes to stderr, or into the document of `--json`.
#[tokio::test]
async fn failed_job_sets_exit_code() {
    let fixture = CallFixture::start();
    let called = fixture.call(&["fail"]).await;
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""), "{called:?}");
    for expected in ["fail failed after ", "so far so good", "exit code 3: out of paint"] {
        assert!(called.stderr.contains(expected), "{expected}: {}", called.stderr);
    }
    let json = fixture.call(&["fail", "--json"]).await;
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &document["status"]), (Some(1), &Value::from("failed")));
    assert_eq!(document["result"]["isError"], true);
    assert_eq!(document["task"]["status"], "failed");
}

#[tokio::test]
async fn job_messages_are_shown_live() {
    let fixture = CallFixture::start();
    let (child, mut lines) = fixture.begin(&["talk"]);
    assert_eq!(wait_for_line(&mut lines, "opening the tin").await, "talk: opening the tin");
    assert_eq!(wait_for_line(&mut lines, "running low").await, "talk: warning: running low on red");
    fixture.open("talked");
    assert_eq!(child.wait_with_output().await.unwrap().status.code(), Some(0));
}

#[tokio::test]
async fn a_script_gets_one_document() {
    let fixture = CallFixture::start();
    let called = fixture.call(&["greet", "name=ann", "--json", "--quiet"]).await;
    assert_eq!(called.stderr, "");
    let document: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(document["status"], "completed");
    assert_eq!(document["result"]["content"][0]["text"], "hello ann 1 false []\n");
    assert_eq!(document["task"]["taskId"].as_str().unwrap().len(), 32);
}

#[tokio::test]
async fn data_without_text_is_formatted() {
    let fixture = CallFixture::start();
    assert_eq!(fixture.call(&["data", "-q"]).await.stdout, "{\n  \"litres\": 3\n}\n");
}

#[tokio::test]
async fn binary_content_is_named_or_saved() {
    let fixture = CallFixture::start();
    let called = fixture.call(&["show"]).await;
    assert_eq!(called.stdout, "look\n");
    for expected in [
        "[image/gif, 6 B]\n",
        "[list.txt, text/plain, 7 B]\n",
        "[log, text/plain",
        "save with: taskbridge call --task ",
    ] {
        assert!(called.stderr.contains(expected), "{expected}: {}", called.stderr);
    }
    let called = fixture.call(&["show", "--save", "out", "--json"]).await;
    assert_eq!(called.code, Some(0), "{called:?}");
    let document: Value = serde_json::from_str(&called.stdout).unwrap();
    let mut saved: Vec<&str> =
        document["saved"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    saved.sort_unstable();
    assert_eq!(saved, ["out/2.gif", "out/list.txt", "out/log", "out/sub/raw.bin"]);
    let bytes = |file: &str| fs::read(fixture.dir.path(file)).unwrap();
    assert_eq!(bytes("out/2.gif"), b"GIF89a");
    assert_eq!(bytes("out/list.txt"), b"a list\n");
    assert_eq!(bytes("out/sub/raw.bin"), [0, 255]);
}

/// `--detach` prints the id. `--timeout` ends with exit code 124 and leaves the task running.
#[tokio::test]
async fn detached_task_can_be_attached() {
    let fixture = CallFixture::start();
    let detached = fixture.call(&["gated", "gate=later", "--detach", "--ttl", "1h"]).await;
    assert_eq!(detached.code, Some(0), "{detached:?}");
    let id = detached.stdout.trim_end();
    assert!(detached.stderr.contains(&format!("taskbridge call --task {id}")), "{}", detached.stderr);

    let timed_out = fixture.call(&["--task", id, "--timeout", "300ms"]).await;
    assert_eq!((timed_out.code, timed_out.stdout.as_str()), (Some(124), ""), "{timed_out:?}");
    assert!(timed_out.stderr.contains("timeout; "), "{}", timed_out.stderr);
    fixture.open("later");
    for _ in 0..2 {
        let attached = fixture.call(&["--task", id]).await;
        assert_eq!((attached.code, attached.stdout.as_str()), (Some(0), "through later\n"), "{attached:?}");
    }
    let unknown = fixture.call(&["--task", "aaaa"]).await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("task aaaa not found"), "{}", unknown.stderr);
}

#[tokio::test]
async fn a_task_can_be_cancelled() {
    let fixture = CallFixture::start();
    let detached = fixture.call(&["gated", "gate=never", "--detach", "--quiet"]).await;
    assert_eq!(detached.stderr, "");
    let id = detached.stdout.trim_end();
    let cancelled = fixture.call(&["--task", id, "--cancel"]).await;
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(cancelled.stdout, format!("task {id} is cancelled\n"));
    let repeated = fixture.call(&["--task", id, "--cancel"]).await;
    assert_eq!(repeated.code, Some(1), "{repeated:?}");
    let result = fixture.call(&["--task", id, "--json"]).await;
    let document: Value = serde_json::from_str(&result.stdout).unwrap();
    assert_eq!((result.code, &document["status"]), (Some(1), &Value::from("cancelled")), "{result:?}");
    fixture.dir.wait_for_jobs_to_end().await;
}

/// The same idempotency key with other arguments is refused.
#[tokio::test]
async fn repeated_key_returns_same_task() {
    let fixture = CallFixture::start();
    let call = async || {
        fixture.call(&["greet", "name=ann", "--idempotency-key", "k", "--detach", "-q"]).await.stdout
    };
    let (first, second) = (call().await, call().await);
    assert_eq!(first, second);
    assert_ne!(first, fixture.call(&["greet", "name=ann", "--detach", "-q"]).await.stdout);
    let other = fixture.call(&["greet", "name=bob", "--idempotency-key", "k"]).await;
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("greet could not be run: "), "{}", other.stderr);
}

/// A tool without tasks is called without one. Past the call budget, the client continues with the task of
/// the handle.
#[tokio::test]
async fn slow_plain_call_becomes_task() {
    let basics = BASICS.replace("[server]", "[server]\ncall_budget = \"300ms\"");
    let fixture = CallFixture::with(&basics);
    let refused = fixture.call(&["plain", "gate=slow", "--detach"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("plain cannot run as a task on this server"), "{}", refused.stderr);
    let (child, mut lines) = fixture.begin(&["plain", "gate=slow"]);
    wait_for_line(&mut lines, "plain: still running; continues as task ").await;
    fixture.open("slow");
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"plainly through\n".as_slice()));
    fixture.open("quick");
    let quick = fixture.call(&["plain", "gate=quick", "-q"]).await;
    assert_eq!(
        (quick.code, quick.stdout.as_str(), quick.stderr.as_str()),
        (Some(0), "plainly through\n", "")
    );
}

#[tokio::test]
async fn queued_call_shows_its_position() {
    let fixture = CallFixture::start();
    for _ in 0..2 {
        fixture.call(&["narrow", "gate=first", "--detach"]).await;
    }
    let third = fixture.call(&["narrow", "gate=first", "--timeout", "2s"]).await;
    assert_eq!(third.code, Some(124), "{third:?}");
    assert!(
        third.stderr.contains("narrow: waiting for a free slot, position 2 in line\n"),
        "{}",
        third.stderr
    );
    fixture.open("first");
}

/// Without a terminal, a tool that asks before its start is refused.
#[tokio::test]
async fn question_needs_terminal() {
    let fixture = CallFixture::start();
    let refused = fixture.call(&["careful"]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("careful could not be run: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("standard input is not a terminal"), "{}", refused.stderr);
}

/// `--last` finds the task again that was started last, and `--history` lists the tasks of this server alone.
#[tokio::test]
async fn last_call_is_found_again() {
    let fixture = CallFixture::start();
    let nothing = fixture.call(&["--last"]).await;
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.stderr.contains("no call of http"), "{}", nothing.stderr);
    let first = fixture.call(&["greet", "name=Ann"]).await;
    let second = fixture.call(&["greet", "name=Bob", "--detach", "-q"]).await;
    assert_eq!((first.code, second.code), (Some(0), Some(0)));
    let last = fixture.call(&["--last"]).await;
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    assert!(last.stdout.contains("hello Bob"), "{}", last.stdout);

    let history = fixture.call(&["--history", "--json"]).await;
    let history: Value = serde_json::from_str(&history.stdout).unwrap();
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
    assert_eq!(history[1]["task"], second.stdout.trim_end());
    let other = fixture.call(&["--history", "--url", "http://127.0.0.1:9/mcp"]).await;
    assert_eq!((other.code, other.stdout.as_str()), (Some(0), ""), "{}", other.stderr);
}
