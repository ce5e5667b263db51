//! Tests of `taskbridge tasks` and `taskbridge store check` next to running servers, on both stores.

mod abandon;
mod checks;
mod doctor;
mod tasks;

use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Ended, PROGRAM, Place, Server, SimProcess};

/// Jobs are polled soon after their start and then not for an hour.
const REST: &str = r#"
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
    place: Place,
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
        let place = Place::new("");
        let engine = SimProcess::start(&place, "keyed");
        let rest = REST.replace("lease = \"2s\"\n", &format!("lease = \"2s\"\n{reconciler}\n"));
        let backend = format!("[backends.engine]\nkind = \"sim\"\naddress = \"{}\"\n", engine.address);
        std::fs::write(place.config(), format!("{basics}{rest}{backend}")).unwrap();
        Self { _engine: engine, place, schema }
    }

    async fn serve(&self) -> (Server, Client) {
        let server = self.place.serve();
        let client = Client::open(server.url()).await.unwrap();
        (server, client)
    }

    /// Runs `taskbridge WORDS... --config FILE`.
    async fn run(&self, words: &[&str]) -> Ended {
        let mut command = Command::new(PROGRAM);
        command.args(words).arg("--config").arg(self.place.config());
        self.place.settle(&mut command);
        self.place.run(command).await
    }

    /// Returns the stdout of a command that must succeed.
    async fn says(&self, words: &[&str]) -> String {
        let ended = self.run(words).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{words:?}: {}", ended.stdout);
        ended.stdout
    }

    /// Returns the stderr of a command that must fail.
    async fn refuses(&self, words: &[&str]) -> String {
        let ended = self.run(words).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{words:?}: {}", ended.stderr);
        ended.stderr
    }

    /// Returns the tasks of `list --json`.
    async fn listed(&self, words: &[&str]) -> Vec<Value> {
        let all: Vec<&str> = ["tasks", "list", "--json"].iter().chain(words).copied().collect();
        serde_json::from_str(&self.says(&all).await).unwrap()
    }

    /// Waits until a task satisfies the condition.
    async fn until(&self, task: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..300 {
            let found = self.listed(&[]).await.into_iter().find(|view| view["id"] == task);
            if let Some(found) = found.filter(&is_so) {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("it never is so: {:?}", self.listed(&[]).await);
    }

    /// Changes the store directly, without the server.
    async fn plant(&self, sql: &str) {
        match &self.schema {
            Some(schema) => shared().client(schema).await.batch_execute(sql).await.unwrap(),
            None => {
                let db = Connection::open(self.place.path("state/taskbridge.db")).unwrap();
                db.pragma_update(None, "foreign_keys", false).unwrap();
                db.execute_batch(sql).unwrap();
            }
        }
    }
}

async fn start(client: &Client, text: &str, delay_ms: u64) -> String {
    client.start("job", json!({"text": text, "delay_ms": delay_ms})).await.unwrap()
}
