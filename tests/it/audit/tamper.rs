//! Tests for a log that was changed or cut.

use std::fs;

use serde_json::json;

use super::{
    KEYS, dir_with_audit_file, filter_by_event, read_log, run_audit, stop_and_verify, wait_for_line,
};
use crate::support::{Client, TestDir};

const KEY: &str = "key = \"0123456789abcdef0123456789abcdef\"\n";

/// Returns a [`TestDir`] with a log of a few lines.
async fn dir_with_log(extra: &str) -> TestDir {
    let dir = dir_with_audit_file(extra);
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    for _ in 0..4 {
        let task = ann.start("job", json!({})).await.unwrap();
        ann.result(&task).await.unwrap();
    }
    stop_and_verify(&dir, server).await;
    dir
}

/// Covers changed, removed, moved, copied and inserted lines.
#[tokio::test]
async fn every_change_is_detected() {
    let dir = dir_with_log("").await;
    let text = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let edited_log = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut lines);
        lines.join("\n") + "\n"
    };
    let cases: [(&str, &str, String); 7] = [
        ("a word", "changed", edited_log(&|lines| lines[3] = lines[3].replace("\"ann\"", "\"bob\""))),
        (
            "a time",
            "changed",
            edited_log(&|lines| lines[4] = lines[4].replacen("\"time\":\"2", "\"time\":\"1", 1)),
        ),
        ("a line is gone", "removed: line 4", edited_log(&|lines| drop(lines.remove(3)))),
        ("two lines are gone", "removed: lines 4 to 5", edited_log(&|lines| drop(lines.drain(3..5)))),
        ("moved", "copied or moved", edited_log(&|lines| lines.swap(3, 6))),
        ("copied", "copied or moved", edited_log(&|lines| lines.insert(7, lines[2].clone()))),
        (
            "put in",
            "not a line of an audit log",
            edited_log(&|lines| lines.insert(5, "{\"event\":\"x\"}".to_owned())),
        ),
    ];
    for (case, expected, text) in cases {
        fs::write(dir.path("audit.jsonl"), text).unwrap();
        let verified = run_audit(&dir, &["verify"]).await;
        assert_eq!(verified.code, Some(1), "{case}: {verified:?}");
        assert!(
            verified.stdout.contains("BROKEN audit.jsonl:") && verified.stdout.contains(expected),
            "{case}: {verified:?}"
        );
    }
}

/// A log without its last lines is valid by itself, and fails against a hash that was stored elsewhere.
#[tokio::test]
async fn truncated_log_fails_against_anchor() {
    let dir = dir_with_log("").await;
    let verified = run_audit(&dir, &["verify"]).await.stdout;
    let head = verified.lines().find(|line| line.starts_with("head ")).unwrap();
    let hash = head.split(' ').next_back().unwrap();
    assert_eq!(run_audit(&dir, &["verify", "--anchor", hash]).await.code, Some(0));
    let text = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    let truncated: String = text.split_inclusive('\n').take(4).collect();
    fs::write(dir.path("audit.jsonl"), truncated).unwrap();
    assert_eq!(run_audit(&dir, &["verify"]).await.code, Some(0), "nothing is left that could show it");
    let verified = run_audit(&dir, &["verify", "--anchor", hash]).await;
    assert!(verified.code == Some(1) && verified.stdout.contains("cut off"), "{verified:?}");
}

/// With a key in the config, the log of another server cannot replace the log.
#[tokio::test]
async fn forged_chain_fails_without_key() {
    let dir = dir_with_log(KEY).await;
    // An attacker who can write the file but does not have the key replaces the whole log with that of
    // another server.
    let forged = dir_with_log("").await;
    fs::copy(forged.path("audit.jsonl"), dir.path("audit.jsonl")).unwrap();
    let verified = run_audit(&dir, &["verify"]).await;
    assert!(
        verified.code == Some(1) && verified.stdout.contains("BROKEN audit.jsonl:1: changed"),
        "{verified:?}"
    );
    assert!(!verified.stdout.contains(&KEY[7..39]) && !verified.stderr.contains(&KEY[7..39]));
}

/// After a kill and half a line, the log continues as one chain, and `verify` reports a gap.
#[tokio::test]
async fn killed_server_log_continues() {
    let dir = dir_with_audit_file("");
    let mut server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    for _ in 0..3 {
        let task = ann.start("job", json!({})).await.unwrap();
        wait_for_line(&dir, "task.ended", &task).await;
    }
    server.kill();
    let verified = run_audit(&dir, &["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // A power failure leaves half a line.
    let text = fs::read(dir.path("audit.jsonl")).unwrap();
    fs::write(dir.path("audit.jsonl"), &text[..text.len() - 50]).unwrap();
    let verified = run_audit(&dir, &["verify"]).await;
    assert!(verified.code == Some(0) && verified.stdout.contains("a gap"), "{verified:?}");
    let server = dir.serve();
    let ann = ann.at(server.url());
    ann.start("job", json!({})).await.unwrap();
    let verified = stop_and_verify(&dir, server).await;
    assert!(verified.stdout.contains("a gap") && !verified.stdout.contains("BROKEN"), "{verified:?}");
    assert_eq!(verified.stdout.matches("head   chain ").count(), 1, "one chain: {verified:?}");
}

/// The chain spans rotated files and a restart. A file that is missing in between is detected.
#[tokio::test]
async fn rotated_files_form_one_chain() {
    let dir = dir_with_audit_file("max_bytes = 4096\nkeep_files = 3\n");
    let mut server = dir.serve();
    let mut ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    for n in 0..24 {
        if n == 12 {
            server.stop();
            server = dir.serve();
            ann = ann.at(server.url());
        }
        let task = ann.start("job", json!({})).await.unwrap();
        ann.result(&task).await.unwrap();
    }
    let verified = stop_and_verify(&dir, server).await;
    assert!(verified.stdout.contains("older files are missing"), "{verified:?}");
    let files = fs::read_dir(dir.path("")).unwrap().flatten();
    let mut files: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    files.retain(|name| name.starts_with("audit.jsonl."));
    files.sort();
    assert_eq!(files.len(), 4, "three, and the lock: {files:?}");
    assert_eq!(filter_by_event(&read_log(&dir), "log.rotated").len(), 1);
    // One of the files in between is deleted.
    fs::remove_file(dir.path(&files[1])).unwrap();
    let verified = run_audit(&dir, &["verify"]).await;
    assert!(verified.code == Some(1) && verified.stdout.contains("removed: lines"), "{verified:?}");
}
