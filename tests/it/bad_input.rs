//! Faults around the server before any client sends a request, and a disk that fills up at run time. Each
//! fault gets a clear error, and no data is lost. Bad input from clients is tested with the transports and
//! handlers.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::{BASICS, Client, Fault, ModernClient, ProgramOutput, TestDir};

const ENGINE: &str = r#"
[backends.engine]
kind = "sim"

[tools.job]
backend = "engine"
target = {}
parameters.delay_ms.type = "integer"
"#;

fn dir_with_engine() -> TestDir {
    TestDir::new(&format!("{BASICS}{ENGINE}"))
}

/// Runs a server that must fail to start, and returns its stderr. Its stdout must be empty.
async fn start_error(dir: &TestDir) -> String {
    let ProgramOutput { code, stdout, stderr } = dir.run(dir.command("serve")).await;
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert_eq!(stdout, "", "a server that does not start says nothing about how to connect");
    stderr
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}

/// `serve` and `check` report the line and the field of a typo, and create no state.
#[tokio::test]
async fn config_typo_error_suggests_fix() {
    let text = format!("{BASICS}{ENGINE}").replace("delay_ms.type", "delay_ms.tpye");
    let line = 1 + text.lines().position(|line| line.contains("tpye")).unwrap();
    let dir = TestDir::new(&text);
    let typo_location = format!("taskbridge.toml:{line}: tools.job.parameters.delay_ms.tpye");
    assert_contains(&start_error(&dir).await, &[&typo_location, "did you mean `type`?"]);
    let checked = dir.run(dir.command("check")).await;
    assert_eq!(checked.code, Some(1));
    assert_contains(&checked.stderr, &[&typo_location, "did you mean `type`?"]);
    assert!(!dir.path("state").exists(), "nothing is made for a config that is wrong");
}

/// The error names the config file that cannot be read.
#[tokio::test]
async fn missing_config_file_is_named() {
    let dir = dir_with_engine();
    fs::remove_file(dir.config()).unwrap();
    assert_contains(&start_error(&dir).await, &["taskbridge.toml", "cannot be read"]);
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let dir = TestDir::new(&format!("{BASICS}{ENGINE}").replace("127.0.0.1:0", &address));
    assert_contains(&start_error(&dir).await, &[&address, "the address is in use", "--listen"]);
    assert!(!dir.path("state").exists(), "a second server by mistake touches nothing");
}

/// Without authentication, a server does not listen on an address that other machines can reach.
#[tokio::test]
async fn public_address_without_auth_is_refused() {
    let dir = TestDir::new(&format!("{BASICS}{ENGINE}").replace("127.0.0.1:0", "0.0.0.0:0"));
    assert_contains(&start_error(&dir).await, &["server.listen", "0.0.0.0:0", "[auth]"]);
}

/// The error names the state folder that cannot be created, and the `[store]` setting.
#[tokio::test]
async fn uncreatable_state_folder_is_named() {
    let dir = dir_with_engine();
    fs::write(dir.path("state"), "a file where the folder should be").unwrap();
    assert_contains(&start_error(&dir).await, &["state", "[store]"]);
}

/// The error names the database that cannot be opened for writing.
#[tokio::test]
async fn unwritable_database_is_named() {
    let dir = dir_with_engine();
    let database = dir.path("state/taskbridge.db");
    // A directory cannot be opened as a file for writing, not even by root.
    fs::create_dir_all(&database).unwrap();
    assert_contains(&start_error(&dir).await, &["state/taskbridge.db", "cannot be opened for writing"]);
}

/// A file that is no database keeps the server from starting, and is not changed.
#[tokio::test]
async fn non_database_file_is_untouched() {
    let dir = dir_with_engine();
    let database = dir.path("state/taskbridge.db");
    fs::create_dir(dir.path("state")).unwrap();
    let content = "these are my notes\n".repeat(500);
    fs::write(&database, &content).unwrap();
    assert_contains(&start_error(&dir).await, &["state/taskbridge.db", "no SQLite database", "backup"]);
    assert_eq!(fs::read_to_string(&database).unwrap(), content);
}

/// The error says that the database is damaged, and the file is not changed.
#[tokio::test]
async fn damaged_database_prevents_start() {
    let dir = dir_with_engine();
    create_database(&dir).await;
    let database = dir.path("state/taskbridge.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[100..].fill(0xA5);
    fs::write(&database, &bytes).unwrap();
    assert_contains(&start_error(&dir).await, &["state/taskbridge.db", "damaged"]);
    assert_eq!(fs::read(&database).unwrap(), bytes, "it is left as it was found");
}

/// A newer schema keeps the server from starting, unless it declares itself compatible.
#[tokio::test]
async fn newer_incompatible_database_is_untouched() {
    let dir = dir_with_engine();
    create_database(&dir).await;
    let database = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    database.pragma_update(None, "user_version", 1_000).unwrap();
    // The older program accepts a newer schema that declares itself compatible.
    assert_eq!(dir.serve().stop(), Some(0));
    database.execute("UPDATE taskbridge_schema SET oldest = 999", []).unwrap();
    assert_contains(&start_error(&dir).await, &["state/taskbridge.db", "version 1000", "a newer taskbridge"]);
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 1_000);
}

/// A database of another program keeps the server from starting, and gets no tables.
#[tokio::test]
async fn foreign_database_is_untouched() {
    let dir = dir_with_engine();
    fs::create_dir(dir.path("state")).unwrap();
    let database = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    database.execute_batch("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('bread')").unwrap();
    assert_contains(&start_error(&dir).await, &["state/taskbridge.db", "another program"]);
    let tables: i64 = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

/// Creates a database with one finished task.
async fn create_database(dir: &TestDir) {
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({"delay_ms": 0})).await.unwrap();
    client.result(&task).await.unwrap();
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn state_is_for_its_user_alone() {
    let dir = dir_with_engine();
    create_database(&dir).await;
    for name in ["state", "state/taskbridge.db"] {
        let mode = fs::metadata(dir.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} is open to others: {mode:o}");
    }
}

/// A call that fails on a full disk creates no task. Every task whose id a client got survives a restart.
#[tokio::test]
async fn full_disk_call_creates_no_task() {
    let dir = dir_with_engine();
    // To SQLite, a file size limit of 512 KiB is a full disk. The signal that would end the process
    // (SIGXFSZ) is ignored, and stays ignored across exec.
    let mut server = dir.serve_with_limits("trap '' XFSZ; ulimit -f 1024");
    let client = Client::open(server.url()).await.unwrap();
    let mut task_ids = Vec::new();
    let fault = loop {
        assert!(task_ids.len() < 5_000, "the disk is never full");
        match client.start("job", json!({"delay_ms": 3_600_000})).await {
            Ok(task) => task_ids.push(task),
            Err(fault) => break fault,
        }
    };
    // The client learns that the fault is the server's, and no internals of the server.
    let Fault::Refused { code, message } = fault else { panic!("{fault:?}") };
    assert_eq!(code, -32603, "{message}");
    assert!(!message.contains("state/taskbridge.db"), "{message}");
    assert!(!task_ids.is_empty());
    let modern = ModernClient::with_tasks(server.url());
    let fault = loop {
        assert!(task_ids.len() < 5_000, "the disk is never full");
        match modern.call("job", &json!({"delay_ms": 3_600_000}), json!({})).await {
            Ok(task) => task_ids.push(task["taskId"].as_str().unwrap().to_owned()),
            Err(fault) => break fault,
        }
    };
    let Fault::Refused { code, message: modern } = fault else { panic!("{fault:?}") };
    assert_eq!(code, -32603, "{modern}");
    assert!(modern.contains("fault=") && !modern.contains("state/taskbridge.db"), "{modern}");
    // The operator finds the cause and the file in the log by the reference that the client got.
    let reference = message.split("fault=").nth(1).unwrap().to_owned();
    let log = fs::read_to_string(dir.path("server.log")).unwrap();
    let line = log.lines().find(|line| line.contains(&reference)).unwrap();
    assert_contains(line, &["ERROR", "state/taskbridge.db"]);

    // Existing tasks can still be read, and refused calls created no task.
    client.get(&task_ids[0]).await.unwrap();
    server.kill();
    let server = dir.serve();
    let client = client.at(server.url());
    let mut listed: Vec<String> =
        client.list().await.unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect();
    listed.sort();
    task_ids.sort();
    assert_eq!(listed, task_ids);
    let task = client.start("job", json!({"delay_ms": 0})).await.unwrap();
    client.result(&task).await.unwrap();
}

/// The note and the result of a job are nested to the depth limit of the JSON parser.
#[tokio::test]
async fn deep_note_and_result_are_served() {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let dir = TestDir::new(&format!(
        r#"{BASICS}
[backends.here]
kind = "local"

[tools.deep]
backend = "here"
target.command = ["sh", "-c", "echo \"log info $0\" >> $TASKBRIDGE_EVENTS; echo $0 > $TASKBRIDGE_OUTPUT", "{deep}"]
"#
    ));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("deep", json!({})).await.unwrap();
    let result = client.result(&task).await.unwrap();
    assert_eq!(result["isError"], json!(false), "{result}");
    assert_eq!(client.get(&task).await.unwrap()["status"], "completed");
}

/// An unreadable row is an error of its own task only, and the message is clear.
#[tokio::test]
async fn unreadable_row_fails_only_its_task() {
    let dir = dir_with_engine();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let bad = client.start("job", json!({"delay_ms": 3_600_000})).await.unwrap();
    let good = client.start("job", json!({"delay_ms": 3_600_000})).await.unwrap();
    let db = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    db.execute("UPDATE tasks SET body = '{}', due_at = 0, version = version + 1 WHERE id = ?1", [&bad])
        .unwrap();
    for answer in [client.get(&bad).await, client.result(&bad).await, client.cancel(&bad).await] {
        let Fault::Refused { code, message } = answer.unwrap_err() else { panic!("the server stays") };
        assert_eq!(code, -32603);
        assert_contains(
            &message,
            &["record of this cannot be read", "Other tasks are not affected", "fault="],
        );
    }
    client.get(&good).await.unwrap();
    assert_eq!(client.list().await.unwrap().len(), 1);
    let next = client.start("job", json!({"delay_ms": 0})).await.unwrap();
    client.result(&next).await.unwrap();
}
