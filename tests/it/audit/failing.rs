//! A log that cannot be written.

use std::fs;

use serde_json::json;

use super::{KEYS, log, of_event, place, stopped, to_file};
use crate::support::{Client, Fault};

const FULL: &str = "to = [\"file\"]\npath = \"/dev/full\"\n";

#[tokio::test]
async fn nothing_is_done_untold_where_the_config_says_so() {
    let place = place(&format!("{FULL}on_failure = \"refuse\"\n"));
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let Fault::Refused { code, .. } = ann.start("job", json!({})).await.unwrap_err() else {
        panic!("it is no answer")
    };
    assert_eq!(code, -32603);
    assert_eq!(ann.list().await.unwrap().len(), 0, "nothing was started");
    server.stop();
    let log = fs::read_to_string(place.path("server.log")).unwrap();
    assert!(log.contains("nothing may be done untold"), "{log}");
    assert_eq!(log.matches("cannot be written to the file; trying again").count(), 1, "{log}");
}

#[tokio::test]
async fn calls_go_on_where_it_does_not() {
    let place = place(FULL);
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let task = ann.start("job", json!({})).await.unwrap();
    ann.result(&task).await.unwrap();
    assert_eq!(server.stop(), Some(0));
    let log = fs::read_to_string(place.path("server.log")).unwrap();
    assert!(log.contains("lines of the audit log could not be written"), "{log}");
}

#[tokio::test]
async fn a_log_that_can_be_written_again_has_all_of_it() {
    let place = to_file("on_failure = \"refuse\"\n");
    let server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let first = ann.start("job", json!({})).await.unwrap();
    ann.result(&first).await.unwrap();
    // Something else stands in the file's place, which cannot be written to.
    fs::rename(place.path("audit.jsonl"), place.path("kept")).unwrap();
    fs::create_dir(place.path("audit.jsonl")).unwrap();
    ann.start("job", json!({})).await.unwrap_err();
    ann.cancel(&first).await.unwrap_err();
    assert_eq!(ann.list().await.unwrap().len(), 1, "nothing was started");
    fs::remove_dir(place.path("audit.jsonl")).unwrap();
    fs::rename(place.path("kept"), place.path("audit.jsonl")).unwrap();
    let second = ann.start("job", json!({})).await.unwrap();
    ann.result(&second).await.unwrap();
    stopped(&place, server).await;
    let lines = log(&place);
    assert_eq!(of_event(&lines, "task.created").len(), 2);
    let wished: Vec<_> =
        of_event(&lines, "call.received").iter().map(|line| line["detail"].clone()).collect();
    assert_eq!(wished, vec![json!({"verb": "call"}); 3], "one of them came to nothing");
    let at = |event: &str| lines.iter().position(|line| line["event"] == event).unwrap();
    assert!(at("call.received") < at("task.created"));
}
