//! Tests for `taskbridge store copy`: from SQLite to PostgreSQL, with running tasks.

use std::process::Command;

use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{Client, ProgramOutput, SimProcess, TestDir, text};

const TOOL_CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"

[auth]
single_user = true

[reconciler]
lease = "2s"

[tools.job]
backend = "engine"
target = {}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
max_running = 2

[audit]
to = ["store"]
"#;

struct Setup {
    engine: SimProcess,
    dir: TestDir,
    database: String,
}

impl Setup {
    fn new() -> Self {
        let dir = TestDir::new("");
        let engine = SimProcess::start(&dir, "keyed");
        let schema = schema();
        let database = format!(
            "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\n",
            shared().url()
        );
        let setup = Self { engine, dir, database };
        setup.use_store("[store]\npath = \"state/tasks.db\"\n");
        std::fs::write(setup.dir.path("new.toml"), setup.config(&setup.database)).unwrap();
        setup
    }

    fn config(&self, store: &str) -> String {
        let address = &self.engine.address;
        format!("{store}\n[backends.engine]\nkind = \"sim\"\naddress = \"{address}\"\n{TOOL_CONFIG}")
    }

    fn use_store(&self, store: &str) {
        std::fs::write(self.dir.config(), self.config(store)).unwrap();
    }

    async fn copy(&self, from: &str) -> ProgramOutput {
        self.run(&["store", "copy", "--from", from, "--to", "new.toml"]).await
    }

    async fn run(&self, args: &[&str]) -> ProgramOutput {
        self.dir.run(self.command(args)).await
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::support::PROGRAM);
        command.args(args);
        self.dir.prepare(&mut command);
        command
    }

    fn file(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path("state/tasks.db")).unwrap()
    }
}

const SOURCE: &str = "sqlite:state/tasks.db";

/// The copy waits for no task, and is refused while a server uses the store. Nothing starts twice.
#[tokio::test]
async fn store_copy_keeps_running_tasks() {
    let setup = Setup::new();
    let mut server = setup.dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let job = |name: &str, delay_ms: u64| json!({"text": name, "delay_ms": delay_ms});
    let done = client.start_once("key", "job", job("done", 0)).await.unwrap();
    assert_eq!(text(&client.result(&done).await.unwrap()), "done");
    let running = client.start("job", job("running", 6_000)).await.unwrap();
    let second = client.start("job", job("second", 6_000)).await.unwrap();
    let queued = client.start("job", job("queued", 0)).await.unwrap();

    let busy = setup.copy("sqlite:state/tasks.db").await;
    assert_eq!(busy.code, Some(1), "{}", busy.stdout);
    assert!(busy.stderr.contains("a server has it open: stop it first"), "{}", busy.stderr);
    server.kill();
    let copied = setup.copy("sqlite:state/tasks.db").await;
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let counts = "4 tasks (3 not ended), 1 result, 1 idempotency key, 0 sessions";
    assert!(copied.stdout.contains(counts), "{}", copied.stdout);
    let repeated = setup.copy("sqlite:state/tasks.db").await;
    assert!(repeated.stderr.contains("start with the config of that store"), "{}", repeated.stderr);

    let verified = setup.run(&["audit", "verify", "--store", "--config", "new.toml"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(verified.stdout.contains("nothing changed, removed"), "{verified:?}");
    setup.use_store(&setup.database);
    let mut server = setup.dir.serve();
    let client = client.at(server.url());
    assert_eq!(text(&client.result(&done).await.unwrap()), "done");
    assert_eq!(
        client.start_once("key", "job", job("done", 0)).await.unwrap(),
        done,
        "the key stands for it still"
    );
    for (task, name) in [(running, "running"), (second, "second"), (queued, "queued")] {
        assert_eq!(text(&client.result(&task).await.unwrap()), name);
    }
    assert_eq!(setup.engine.started().len(), 4, "nothing was started twice");
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn a_copy_of_nothing_is_refused() {
    let setup = Setup::new();
    let missing = setup.copy("sqlite:nowhere.db").await;
    assert!(
        missing.code == Some(1) && missing.stderr.contains("nowhere.db: there is no such file"),
        "{missing:?}"
    );
    let no_scheme = setup.copy("nowhere.db").await;
    assert!(no_scheme.stderr.contains("must be sqlite: followed by the path"), "{no_scheme:?}");
}

/// Every command rejects a copied file, and so do programs that do not know the mark. `store reopen` makes
/// the file usable again.
#[tokio::test]
async fn copied_file_is_not_served() {
    let setup = Setup::new();
    let mut server = setup.dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    client.start("job", json!({"text": "x", "delay_ms": 3_600_000})).await.unwrap();
    server.stop();
    setup.file().execute("UPDATE tasks SET identity = 'sim at home'", []).unwrap();
    setup.file().execute("UPDATE taskbridge_schema SET oldest = 5", []).unwrap();
    assert_eq!(setup.copy(SOURCE).await.code, Some(0));
    let (_, schema) = setup.database.split_once("schema = \"").unwrap();
    let schema = schema.split('"').next().unwrap();
    let target = shared().client(schema).await;
    let row = target.query_one("SELECT identity, of_backend, lease_holder FROM tasks", &[]).await.unwrap();
    let columns: [Option<String>; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(columns, [Some("sim at home".to_owned()), Some("engine".to_owned()), None]);

    let config = setup.dir.config();
    let config = config.to_str().unwrap();
    for args in [
        &["serve", "--config", config][..],
        &["tasks", "list", "--config", config],
        &["store", "check", "--config", config],
    ] {
        let refused = setup.run(args).await;
        assert_eq!(refused.code, Some(1), "{args:?}: {refused:?}");
        for expected in
            ["state/tasks.db: its tasks were copied to postgres://", schema, "store reopen sqlite:"]
        {
            assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        }
        assert!(!refused.stderr.contains("broken"), "{refused:?}");
    }
    let oldest = "SELECT oldest FROM taskbridge_schema";
    let oldest = || setup.file().query_row(oldest, [], |row| row.get::<_, i64>(0)).unwrap();
    assert!(oldest() > 1_000, "older programs refuse it as well");

    assert_eq!(setup.run(&["store", "reopen", SOURCE]).await.code, Some(0));
    assert_eq!(oldest(), 5, "as it was");
    let not_empty = setup.copy(SOURCE).await;
    assert!(not_empty.stderr.contains("is not empty"), "{not_empty:?}");
    assert_eq!(setup.run(&["tasks", "list", "--config", config]).await.code, Some(0), "it is as it was");
}

/// Whenever a copy is killed, no program serves both stores, and the same command completes the copy.
#[tokio::test]
async fn killed_copy_is_completed_by_another() {
    let setup = Setup::new();
    let mut server = setup.dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    for n in 0..20 {
        client.start("job", json!({"text": n.to_string(), "delay_ms": 3_600_000})).await.unwrap();
    }
    server.stop();
    let config = setup.dir.config();
    let config = config.to_str().unwrap();
    let mark = "SELECT value FROM facts WHERE name = 'moved'";
    let mark = || setup.file().query_row(mark, [], |row| row.get::<_, String>(0)).ok();
    let mut phases_seen = [false; 2];
    for ms in (0..).step_by(10) {
        let mut copy =
            setup.command(&["store", "copy", "--from", SOURCE, "--to", "new.toml"]).spawn().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        let ended = copy.try_wait().unwrap();
        copy.kill().unwrap();
        copy.wait().unwrap();
        match mark() {
            None => phases_seen[0] = true,
            Some(mark) if mark.contains("\"complete\":false") => {
                phases_seen[1] = true;
                let refused = setup.run(&["tasks", "list", "--config", config]).await;
                assert!(refused.stderr.contains("run the same `taskbridge store copy` again"), "{refused:?}");
            }
            Some(_) => break,
        }
        assert!(ended.is_none(), "a copy that ended by itself has completed the mark");
    }
    assert!(phases_seen[0], "some were killed before they wrote anything");
    let listed = setup.run(&["tasks", "list", "--config", "new.toml"]).await;
    assert_eq!(listed.stdout.lines().filter(|line| line.contains("job")).count(), 20, "{listed:?}");

    // The state after a kill between the commit and the completion of the mark.
    let unfinished = "UPDATE facts SET value = replace(value, ':true', ':false') WHERE name = 'moved'";
    assert_eq!(setup.file().execute(unfinished, []).unwrap(), 1);
    let repeated = setup.copy(SOURCE).await;
    assert!(repeated.code == Some(0) && repeated.stdout.contains("has the copy of"), "{repeated:?}");
    assert!(mark().unwrap().contains("\"complete\":true"));
    let listed = setup.run(&["tasks", "list", "--config", "new.toml"]).await;
    assert_eq!(listed.stdout.lines().filter(|line| line.contains("job")).count(), 20, "{listed:?}");

    // A copy that was begun to another destination.
    setup.file().execute("UPDATE facts SET value = replace(value, ':true', ':false')", []).unwrap();
    let other = std::fs::read_to_string(setup.dir.path("new.toml")).unwrap();
    let other = other.replace("schema = \"", "schema = \"other_");
    std::fs::write(setup.dir.path("new.toml"), other).unwrap();
    let other = setup.copy(SOURCE).await;
    assert!(other.code == Some(1) && other.stderr.contains("may be complete"), "{other:?}");
}
