//! Tests for the log in the store.

use std::process::Command;

use serde_json::{Value, json};

use super::{KEYS, audit, lines_of, of_event, place, until};
use crate::support::postgres::{schema, shared};
use crate::support::{Client, PROGRAM, Place, SimProcess};

/// Returns the lines that `show --store` prints.
async fn shown(place: &Place) -> Vec<Value> {
    let shown = audit(place, &["show", "--store"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    lines_of(&shown.stdout)
}

/// Two replicas with one database write one chain, and it can be verified.
#[tokio::test]
async fn replicas_write_one_chain() {
    let place = place("to = [\"store\"]\non_failure = \"refuse\"\n");
    let schema = schema();
    let store = format!(
        "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\nmax_connections = 4\n",
        shared().url()
    );
    // Both replicas use the same engine.
    let engine = SimProcess::start(&place, "keyed");
    let backend = format!("kind = \"sim\"\naddress = \"{}\"", engine.address);
    let config = std::fs::read_to_string(place.config()).unwrap();
    let config = config.replace("[store]\npath = \"state/taskbridge.db\"\n", &store);
    std::fs::write(place.config(), config.replace("kind = \"sim\"", &backend)).unwrap();
    let (mut one, mut two) = (place.serve(), place.serve());
    let ann = Client::open_with(one.url(), KEYS[0].1).await.unwrap();
    let elsewhere = ann.at(two.url());
    for _ in 0..10 {
        let (first, second) = tokio::join!(ann.start("job", json!({})), elsewhere.start("job", json!({})));
        let (first, second) = (first.unwrap(), second.unwrap());
        let (first, second) = tokio::join!(elsewhere.result(&first), ann.result(&second));
        first.unwrap();
        second.unwrap();
    }
    assert_eq!((one.stop(), two.stop()), (Some(0), Some(0)));
    let lines = shown(&place).await;
    for (event, count) in
        [("task.created", 20), ("task.ended", 20), ("result.read", 20), ("server.stopped", 2)]
    {
        assert_eq!(of_event(&lines, event).len(), count, "{event}");
    }
    let mut replicas: Vec<&Value> = lines.iter().map(|line| &line["replica"]).collect();
    replicas.sort_by_key(|replica| replica.as_str());
    replicas.dedup();
    assert_eq!(replicas.len(), 2);
    let verified = audit(&place, &["verify", "--store"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(verified.stdout.matches("head   chain ").count(), 1, "one chain: {verified:?}");
}

/// `audit verify --store` finds a changed line and a deleted line. The files beside it stay valid.
#[tokio::test]
async fn changed_table_fails_verification() {
    let place = place("to = [\"store\", \"file\"]\npath = \"audit.jsonl\"\n");
    let mut server = place.serve();
    let ann = Client::open_with(server.url(), KEYS[0].1).await.unwrap();
    let long = ann.start("long", json!({})).await.unwrap();
    until(&place, "task.started", &long).await;
    let mut command = Command::new(PROGRAM);
    command.args(["tasks", "cancel", &long, "--config"]).arg(place.config());
    place.settle(&mut command);
    assert_eq!(place.run(command).await.code, Some(0));
    server.stop();
    let events = |lines: &[Value]| lines.iter().map(|line| line["event"].clone()).collect::<Vec<_>>();
    let in_files = audit(&place, &["show"]).await;
    assert_eq!(events(&shown(&place).await), events(&lines_of(&in_files.stdout)), "both have the same");
    assert_eq!(audit(&place, &["verify", "--store"]).await.code, Some(0));
    let db = rusqlite::Connection::open(place.path("state/taskbridge.db")).unwrap();
    db.execute("UPDATE audit SET line = replace(line, '\"ann\"', '\"bob\"') WHERE n = 3", []).unwrap();
    db.execute("DELETE FROM audit WHERE n = 5", []).unwrap();
    let verified = audit(&place, &["verify", "--store"]).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    for words in ["BROKEN the store:3: changed", "BROKEN the store:6: removed: line 5"] {
        assert!(verified.stdout.contains(words), "{words}: {verified:?}");
    }
    assert_eq!(audit(&place, &["verify"]).await.code, Some(0), "the files are as they were");
}
