//! Tests for the log in the store.

use std::process::Command;

use serde_json::{Value, json};

use super::{KEYS, dir_with_audit, filter_by_event, parse_lines, run_audit, wait_for_line};
use crate::support::postgres::{schema, shared};
use crate::support::{Client, PROGRAM, SimProcess, TestDir};

/// Returns the lines that `show --store` prints.
async fn show_store(dir: &TestDir) -> Vec<Value> {
    let output = run_audit(dir, &["show", "--store"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    parse_lines(&output.stdout)
}

/// Two replicas with one database write one chain, and it can be verified.
#[tokio::test]
async fn replicas_write_one_chain() {
    let dir = dir_with_audit("to = [\"store\"]\non_failure = \"refuse\"\n");
    let schema = schema();
    let store = format!(
        "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\nmax_connections = 4\n",
        shared().url()
    );
    // Both replicas use the same engine.
    let engine = SimProcess::start(&dir, "keyed");
    let backend = format!("kind = \"sim\"\naddress = \"{}\"", engine.address);
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let config = config.replace("[store]\npath = \"state/taskbridge.db\"\n", &store);
    std::fs::write(dir.config(), config.replace("kind = \"sim\"", &backend)).unwrap();
    let (mut one, mut two) = (dir.serve(), dir.serve());
    let ann = Client::open_with_key(one.url(), KEYS[0].1).await.unwrap();
    let second_client = ann.at(two.url());
    for _ in 0..10 {
        let (first, second) =
            tokio::join!(ann.start("job", json!({})), second_client.start("job", json!({})));
        let (first, second) = (first.unwrap(), second.unwrap());
        let (first, second) = tokio::join!(second_client.result(&first), ann.result(&second));
        first.unwrap();
        second.unwrap();
    }
    assert_eq!((one.stop(), two.stop()), (Some(0), Some(0)));
    let lines = show_store(&dir).await;
    for (event, count) in
        [("task.created", 20), ("task.ended", 20), ("result.read", 20), ("server.stopped", 2)]
    {
        assert_eq!(filter_by_event(&lines, event).len(), count, "{event}");
    }
    let mut replicas: Vec<&Value> = lines.iter().map(|line| &line["replica"]).collect();
    replicas.sort_by_key(|replica| replica.as_str());
    replicas.dedup();
    assert_eq!(replicas.len(), 2);
    let verified = run_audit(&dir, &["verify", "--store"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(verified.stdout.matches("head   chain ").count(), 1, "one chain: {verified:?}");
}

/// `audit verify --store` finds a changed line and a deleted line. The files beside it stay valid.
#[tokio::test]
async fn changed_table_fails_verification() {
    let dir = dir_with_audit("to = [\"store\", \"file\"]\npath = \"audit.jsonl\"\n");
    let mut server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let long = ann.start("long", json!({})).await.unwrap();
    wait_for_line(&dir, "task.started", &long).await;
    let mut command = Command::new(PROGRAM);
    command.args(["tasks", "cancel", &long, "--config"]).arg(dir.config());
    dir.prepare(&mut command);
    assert_eq!(dir.run(command).await.code, Some(0));
    server.stop();
    let events = |lines: &[Value]| lines.iter().map(|line| line["event"].clone()).collect::<Vec<_>>();
    let in_files = run_audit(&dir, &["show"]).await;
    assert_eq!(events(&show_store(&dir).await), events(&parse_lines(&in_files.stdout)), "both have the same");
    assert_eq!(run_audit(&dir, &["verify", "--store"]).await.code, Some(0));
    let db = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    db.execute("UPDATE audit SET line = replace(line, '\"ann\"', '\"bob\"') WHERE n = 3", []).unwrap();
    db.execute("DELETE FROM audit WHERE n = 5", []).unwrap();
    let verified = run_audit(&dir, &["verify", "--store"]).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    for expected in ["BROKEN the store:3: changed", "BROKEN the store:6: removed: line 5"] {
        assert!(verified.stdout.contains(expected), "{expected}: {verified:?}");
    }
    assert_eq!(run_audit(&dir, &["verify"]).await.code, Some(0), "the files are as they were");
}
