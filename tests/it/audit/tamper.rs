//! Tests for a log that was changed or cut.

use std::fs;

use serde_json::json;

use super::{KEYS, audit, log, of_event, stopped, to_file, until};
use crate::support::{Client, Place};

const KEY: &str = "key = \"0123456789abcdef0123456789abcdef\"\n";

/// Returns a `Place` with a log of a few lines.
async fn kept(more: &str) -> Place {
    let place = to_file(more);
    let server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    for _ in 0..4 {
        let task = ann.start("job", json!({})).await.unwrap();
        ann.result(&task).await.unwrap();
    }
    stopped(&place, server).await;
    place
}

/// Covers changed, removed, moved, copied and inserted lines.
#[tokio::test]
async fn every_change_is_detected() {
    let place = kept("").await;
    let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut lines);
        lines.join("\n") + "\n"
    };
    let ways: [(&str, &str, String); 7] = [
        ("a word", "changed", with(&|lines| lines[3] = lines[3].replace("\"ann\"", "\"bob\""))),
        ("a time", "changed", with(&|lines| lines[4] = lines[4].replacen("\"time\":\"2", "\"time\":\"1", 1))),
        ("a line is gone", "removed: line 4", with(&|lines| drop(lines.remove(3)))),
        ("two lines are gone", "removed: lines 4 to 5", with(&|lines| drop(lines.drain(3..5)))),
        ("moved", "copied or moved", with(&|lines| lines.swap(3, 6))),
        ("copied", "copied or moved", with(&|lines| lines.insert(7, lines[2].clone()))),
        ("put in", "no line of an audit log", with(&|lines| lines.insert(5, "{\"event\":\"x\"}".to_owned()))),
    ];
    for (how, words, text) in ways {
        fs::write(place.path("audit.jsonl"), text).unwrap();
        let verified = audit(&place, &["verify"]).await;
        assert_eq!(verified.code, Some(1), "{how}: {verified:?}");
        assert!(
            verified.stdout.contains("BROKEN audit.jsonl:") && verified.stdout.contains(words),
            "{how}: {verified:?}"
        );
    }
}

/// A log without its last lines is valid by itself, and fails against a hash that was stored elsewhere.
#[tokio::test]
async fn truncated_log_fails_against_anchor() {
    let place = kept("").await;
    let verified = audit(&place, &["verify"]).await.stdout;
    let head = verified.lines().find(|line| line.starts_with("head ")).unwrap();
    let hash = head.split(' ').next_back().unwrap();
    assert_eq!(audit(&place, &["verify", "--anchor", hash]).await.code, Some(0));
    let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
    let cut: String = text.split_inclusive('\n').take(4).collect();
    fs::write(place.path("audit.jsonl"), cut).unwrap();
    assert_eq!(audit(&place, &["verify"]).await.code, Some(0), "nothing is left that could show it");
    let verified = audit(&place, &["verify", "--anchor", hash]).await;
    assert!(verified.code == Some(1) && verified.stdout.contains("cut off"), "{verified:?}");
}

/// With a key in the config, the log of another server cannot replace the log.
#[tokio::test]
async fn forged_chain_fails_without_key() {
    let place = kept(KEY).await;
    // An attacker who can write the file but does not have the key replaces the whole log with that of
    // another server.
    let forged = kept("").await;
    fs::copy(forged.path("audit.jsonl"), place.path("audit.jsonl")).unwrap();
    let verified = audit(&place, &["verify"]).await;
    assert!(
        verified.code == Some(1) && verified.stdout.contains("BROKEN audit.jsonl:1: changed"),
        "{verified:?}"
    );
    assert!(!verified.stdout.contains(&KEY[7..39]) && !verified.stderr.contains(&KEY[7..39]));
}

/// After a kill and half a line, the log continues as one chain, and `verify` reports a gap.
#[tokio::test]
async fn killed_server_log_continues() {
    let place = to_file("");
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    for _ in 0..3 {
        let task = ann.start("job", json!({})).await.unwrap();
        until(&place, "task.ended", &task).await;
    }
    server.kill();
    let verified = audit(&place, &["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // A power failure leaves half a line.
    let text = fs::read(place.path("audit.jsonl")).unwrap();
    fs::write(place.path("audit.jsonl"), &text[..text.len() - 50]).unwrap();
    let verified = audit(&place, &["verify"]).await;
    assert!(verified.code == Some(0) && verified.stdout.contains("a gap"), "{verified:?}");
    let server = place.serve();
    let ann = ann.at(server.url());
    ann.start("job", json!({})).await.unwrap();
    let verified = stopped(&place, server).await;
    assert!(verified.stdout.contains("a gap") && !verified.stdout.contains("BROKEN"), "{verified:?}");
    assert_eq!(verified.stdout.matches("head   chain ").count(), 1, "one chain: {verified:?}");
}

/// The chain spans rotated files and a restart. A file that is missing in between is detected.
#[tokio::test]
async fn rotated_files_form_one_chain() {
    let place = to_file("max_bytes = 4096\nkeep_files = 3\n");
    let mut server = place.serve();
    let mut ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    for n in 0..24 {
        if n == 12 {
            server.stop();
            server = place.serve();
            ann = ann.at(server.url());
        }
        let task = ann.start("job", json!({})).await.unwrap();
        ann.result(&task).await.unwrap();
    }
    let verified = stopped(&place, server).await;
    assert!(verified.stdout.contains("older files are not here"), "{verified:?}");
    let files = fs::read_dir(place.path("")).unwrap().flatten();
    let mut files: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    files.retain(|name| name.starts_with("audit.jsonl."));
    files.sort();
    assert_eq!(files.len(), 4, "three, and the lock: {files:?}");
    assert_eq!(of_event(&log(&place), "log.rotated").len(), 1);
    // One of the files in between is deleted.
    fs::remove_file(place.path(&files[1])).unwrap();
    let verified = audit(&place, &["verify"]).await;
    assert!(verified.code == Some(1) && verified.stdout.contains("removed: lines"), "{verified:?}");
}
