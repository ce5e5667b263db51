//! Tests of older schemas: the real program migrates each dump in tests/schemas, and the tasks of the dump
//! survive and end. tests/schemas/README.md describes how a dump is made.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::postgres::{schema, shared};
use crate::support::{Client, PROGRAM, SimProcess, TestDir, text};

/// The schema name in the dumps of PostgreSQL.
const DUMPED_SCHEMA: &str = "dumped";

/// How the task of each tool ends, once servers run again. The engine of the dump is gone, and the present
/// engine knows none of its jobs.
const EXPECTED_STATES: [(&str, &str); 14] = [
    ("abandoned", "broken"),
    ("asks", "broken"),
    ("cancelled", "cancelled"),
    ("cancelling", "cancelled"),
    ("failed", "failed"),
    ("gone", "broken"),
    ("holds", "broken"),
    ("open", "broken"),
    ("pending", "succeeded"),
    ("queued", "succeeded"),
    ("refused", "failed"),
    ("starting", "succeeded"),
    ("succeeded", "succeeded"),
    ("waits_for_consent", "input_required"),
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the dumps of a kind of store with their schema versions, in order.
fn dumps(kind: &str) -> Vec<(usize, String)> {
    let mut dumps = Vec::new();
    for entry in fs::read_dir(folder("tests/schemas")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let version = name.strip_prefix(&format!("{kind}-")).and_then(|name| name.strip_suffix(".sql"));
        if let Some(version) = version {
            dumps.push((version.parse().unwrap(), fs::read_to_string(path).unwrap()));
        }
    }
    dumps.sort();
    dumps
}

/// Runs `taskbridge WORDS... --config FILE`, which must succeed. Returns its stdout.
async fn run_cli(dir: &TestDir, args: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(args).arg("--config").arg(dir.config());
    dir.prepare(&mut command);
    let output = dir.run(command).await;
    assert_eq!(output.code, Some(0), "{args:?}: {}{}", output.stdout, output.stderr);
    output.stdout
}

async fn list_tasks(dir: &TestDir) -> Vec<Value> {
    let mut tasks: Vec<Value> =
        serde_json::from_str(&run_cli(dir, &["tasks", "list", "--json"]).await).unwrap();
    tasks.sort_by_key(|task| task["tool"].to_string());
    tasks
}

/// Starts a server of this program on the dump, which is already in `store`, and checks how each task ends.
async fn check_task_ends(dir: &TestDir, store: &str) {
    let engine = SimProcess::start(dir, "keyed");
    let config = fs::read_to_string(folder("tests/schemas/config.in")).unwrap();
    let config = config.replace("@STORE@", store).replace("@ENGINE@", &engine.address);
    fs::write(dir.config(), config.replace("@ELSEWHERE@", &engine.address)).unwrap();
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let has_ended = |task: &Value| task["job"] == "closed" || task["tool"] == "waits_for_consent";
    let mut tasks = list_tasks(dir).await;
    for _ in 0..200 {
        if tasks.iter().all(has_ended) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        tasks = list_tasks(dir).await;
    }
    let states: Vec<(&str, &str)> =
        tasks.iter().map(|task| (task["tool"].as_str().unwrap(), task["state"].as_str().unwrap())).collect();
    assert_eq!(states, EXPECTED_STATES);
    let id = |tool: &str| {
        let task = tasks.iter().find(|task| task["tool"] == tool).unwrap();
        task["id"].as_str().unwrap().to_owned()
    };
    for (tool, result) in [
        ("succeeded", "kept from then"),
        ("failed", "failed then"),
        ("pending", "started after all"),
        ("starting", "started after all"),
        ("queued", "let in after all"),
    ] {
        assert_eq!(text(&client.result(&id(tool)).await.unwrap()), result, "{tool}");
    }
    let repeated = client.start_once("the key of then", "succeeded", json!({})).await.unwrap();
    assert_eq!(repeated, id("succeeded"), "the key stands for its task still");
    assert_eq!(engine.started().len(), 3, "what had been started is not started again");
    assert_eq!(client.list().await.unwrap().len(), EXPECTED_STATES.len());
    run_cli(dir, &["tasks", "cancel", &id("waits_for_consent")]).await;
    assert_eq!(client.get(&id("waits_for_consent")).await.unwrap()["status"], "cancelled");
    let shown = run_cli(dir, &["tasks", "show", &id("pending")]).await;
    assert!(shown.contains("accepted by the engine"), "{shown}");
    assert_eq!(server.stop(), Some(0));
    let report = run_cli(dir, &["store", "check"]).await;
    assert!(report.ends_with(": 14 tasks, nothing wrong\n"), "{report}");
}

/// A file of every older schema version is migrated, and its tasks continue.
#[tokio::test]
async fn older_sqlite_file_keeps_its_tasks() {
    for (version, dump) in dumps("sqlite") {
        let dir = TestDir::new("");
        let db = Connection::open(dir.path("tasks.db")).unwrap();
        // A dump lists its tables by name, not in the order of foreign keys.
        db.pragma_update(None, "foreign_keys", false).unwrap();
        db.execute_batch(&dump).unwrap();
        let stored_version: usize = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(stored_version, version, "the dump is of the version in its name");
        drop(db);
        check_task_ends(&dir, "path = \"tasks.db\"").await;
    }
}

/// Every older schema version is migrated, and its tasks continue.
#[tokio::test]
async fn older_postgres_schema_keeps_its_tasks() {
    for (version, dump) in dumps("postgres") {
        let schema = schema();
        let client = shared().client("public").await;
        client.batch_execute(&dump.replace(DUMPED_SCHEMA, &schema)).await.unwrap();
        let steps = client.query_one(&format!("SELECT steps FROM {schema}.taskbridge_schema"), &[]).await;
        assert_eq!(
            usize::try_from(steps.unwrap().get::<_, i32>(0)).unwrap(),
            version,
            "the dump is of the version in its name"
        );
        let url = shared().url();
        let store =
            format!("kind = \"postgres\"\nurl = \"{url}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"");
        check_task_ends(&TestDir::new(""), &store).await;
    }
}

#[test]
fn every_older_schema_has_dump() {
    for kind in ["sqlite", "postgres"] {
        let migrations =
            fs::read_dir(folder(&format!("crates/store/src/migrations/{kind}"))).unwrap().count();
        let versions: Vec<usize> = dumps(kind).into_iter().map(|(version, _)| version).collect();
        for version in 1..migrations {
            assert!(
                versions.contains(&version),
                "tests/schemas/{kind}-{version:04}.sql is missing: before a migration is added, the version before it is \
                 dumped, with a program that does not have the migration yet: `cargo build && tests/schemas/make \
                 target/debug/taskbridge`"
            );
        }
    }
}
