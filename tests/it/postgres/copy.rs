//! `taskbridge store copy`: from SQLite to PostgreSQL, with tasks that run.

use std::process::Command;

use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{Client, Ended, Place, SimProcess, text};

const REST: &str = r#"
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
"#;

struct Setup {
    engine: SimProcess,
    place: Place,
    database: String,
}

impl Setup {
    fn new() -> Self {
        let place = Place::new("");
        let engine = SimProcess::start(&place, "keyed");
        let schema = schema();
        let database = format!(
            "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{schema}\"\nbackends_dir = \"state\"\n",
            shared().url()
        );
        let setup = Self { engine, place, database };
        setup.use_store("[store]\npath = \"state/tasks.db\"\n");
        std::fs::write(setup.place.path("new.toml"), setup.config(&setup.database)).unwrap();
        setup
    }

    fn config(&self, store: &str) -> String {
        let address = &self.engine.address;
        format!("{store}\n[backends.engine]\nkind = \"sim\"\naddress = \"{address}\"\n{REST}")
    }

    fn use_store(&self, store: &str) {
        std::fs::write(self.place.config(), self.config(store)).unwrap();
    }

    async fn copy(&self, from: &str) -> Ended {
        let mut command = Command::new(crate::support::PROGRAM);
        command.args(["store", "copy", "--from", from, "--to", "new.toml"]);
        self.place.settle(&mut command);
        self.place.run(command).await
    }
}

#[tokio::test]
async fn a_store_is_copied_with_tasks_that_run() {
    let setup = Setup::new();
    let mut server = setup.place.serve();
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
    let counts = "4 tasks (3 not ended), 1 results, 1 idempotency keys, 0 sessions";
    assert!(copied.stdout.contains(counts), "{}", copied.stdout);
    let again = setup.copy("sqlite:state/tasks.db").await;
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);

    setup.use_store(&setup.database);
    let mut server = setup.place.serve();
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
    let wrong = setup.copy("nowhere.db").await;
    assert!(wrong.stderr.contains("write sqlite: and the path"), "{wrong:?}");
}
