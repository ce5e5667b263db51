//! Somebody was at the log.

use std::fs;

use serde_json::json;

use super::{KEYS, audit, log, of_event, stopped, to_file, until};
use crate::support::{Client, Place};

const KEY: &str = "key = \"0123456789abcdef0123456789abcdef\"\n";

/// A place with a log of a few lines.
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

#[tokio::test]
async fn whatever_is_done_to_it_is_found() {
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

#[tokio::test]
async fn an_end_that_was_cut_off_shows_by_the_head_that_was_kept_elsewhere() {
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

#[tokio::test]
async fn without_the_key_the_chain_cannot_be_made_anew() {
    let place = kept(KEY).await;
    // The whole log by somebody who can write the file and has not got the key: a log of another server's.
    let forged = kept("").await;
    fs::copy(forged.path("audit.jsonl"), place.path("audit.jsonl")).unwrap();
    let verified = audit(&place, &["verify"]).await;
    assert!(
        verified.code == Some(1) && verified.stdout.contains("BROKEN audit.jsonl:1: changed"),
        "{verified:?}"
    );
    assert!(!verified.stdout.contains(&KEY[7..39]) && !verified.stderr.contains(&KEY[7..39]));
}

#[tokio::test]
async fn a_server_that_is_killed_leaves_a_log_that_goes_on() {
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
    // What a machine that lost its power leaves: half a line.
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

#[tokio::test]
async fn files_are_put_aside_and_the_chain_goes_on_through_them() {
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
    // One of those between is gone.
    fs::remove_file(place.path(&files[1])).unwrap();
    let verified = audit(&place, &["verify"]).await;
    assert!(verified.code == Some(1) && verified.stdout.contains("removed: lines"), "{verified:?}");
}
