//! Tests of `taskbridge tasks` and `taskbridge store check` next to running servers, on both stores.

mod abandon;
mod checks;
mod doctor;
mod tasks;
mod watch;

use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, PROGRAM, ProgramOutput, Server, SimProcess, TestDir};

/// Jobs are polled soon after their start and then not for an hour.
const TOOLS_CONFIG: &str = r#"
[reconciler]
lease = "2s"

[tools.job]
backend = "engine"
target = {}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"

[tools.one_at_a_time]
backend = "engine"
target = {}
max_running = 1
parameters.delay_ms.type = "integer"
"#;

/// A folder with a store and an engine.
struct Setup {
    // Before `place`, because dropping the place checks for leftovers.
    _engine: SimProcess,
    dir: TestDir,
    /// The PostgreSQL schema, if any.
    schema: Option<String>,
}

impl Setup {
    fn sqlite() -> Self {
        Self::with(BASICS, "", None)
    }

    fn postgres() -> Self {
        let schema = schema();
        let basics = BASICS.split("[store]").next().unwrap();
        let url = shared().url();
        let store = format!(
            "[store]\nkind = \"postgres\"\nurl = \"{url}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\n"
        );
        Self::with(&format!("{basics}{store}"), "", Some(schema))
    }

    /// Creates a setup with additional `[reconciler]` settings.
    fn with(basics: &str, reconciler: &str, schema: Option<String>) -> Self {
        let dir = TestDir::new("");
        let engine = SimProcess::start(&dir, "keyed");
        let rest = TOOLS_CONFIG.replace("lease = \"2s\"\n", &format!("lease = \"2s\"\n{reconciler}\n"));
        let backend = format!("[backends.engine]\nkind = \"sim\"\naddress = \"{}\"\n", engine.address);
        std::fs::write(dir.config(), format!("{basics}{rest}{backend}")).unwrap();
        Self { _engine: engine, dir, schema }
    }

    async fn serve(&self) -> (Server, Client) {
        let server = self.dir.serve();
        let client = Client::open(server.url()).await.unwrap();
        (server, client)
    }

    /// Runs `taskbridge WORDS... --config FILE`.
    async fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--config").arg(self.dir.config());
        self.dir.prepare(&mut command);
        self.dir.run(command).await
    }

    /// Returns the stdout of a command that must succeed.
    async fn run_ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}: {}", ended.stdout);
        ended.stdout
    }

    /// Returns the stderr of a command that must fail.
    async fn run_refused(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        ended.stderr
    }

    /// Returns the tasks of `list --json`.
    async fn list_tasks(&self, filters: &[&str]) -> Vec<Value> {
        let arguments: Vec<&str> = ["tasks", "list", "--json"].iter().chain(filters).copied().collect();
        serde_json::from_str(&self.run_ok(&arguments).await).unwrap()
    }

    /// Waits until a task satisfies the condition.
    async fn wait_for_task(&self, task: &str, condition: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..300 {
            let found = self.list_tasks(&[]).await.into_iter().find(|view| view["id"] == task);
            if let Some(found) = found.filter(&condition) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("it never is so: {:?}", self.list_tasks(&[]).await);
    }

    /// Changes the store directly, without the server.
    async fn execute_sql(&self, sql: &str) {
        match &self.schema {
            Some(schema) => shared().client(schema).await.batch_execute(sql).await.unwrap(),
            None => {
                let db = Connection::open(self.dir.path("state/taskbridge.db")).unwrap();
                db.pragma_update(None, "foreign_keys", false).unwrap();
                db.execute_batch(sql).unwrap();
            }
        }
    }
}

async fn start(client: &Client, text: &str, delay_ms: u64) -> String {
    client.start("job", json!({"text": text, "delay_ms": delay_ms})).await.unwrap()
}
