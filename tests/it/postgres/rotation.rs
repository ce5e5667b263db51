//! Tests for configured seal keys and their rotation: two servers over one database move one by one from the
//! store's own key to another, each in its own way. Clients and rows still have values that were sealed
//! before.

use serde_json::{Value, json};

use super::program::wait_for;
use crate::support::postgres::{schema, shared};
use crate::support::{Client, Fault, Server, SimProcess, TestDir, text};

/// The new key.
const NEW_KEY: &str = "9b1f0c9f3a7e4d1c8e5b2a6f7d0c3e4b9b1f0c9f3a7e4d1c8e5b2a6f7d0c3e4b";

/// Returns a server's config with these keys: one job at a time, a secret argument, and lists of one entry.
fn config(schema: &str, engine: &SimProcess, seal: &str) -> String {
    let (url, address) = (shared().url(), &engine.address);
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
page_size = 1
max_polls_per_second = 100000

[auth]
single_user = true
{seal}
[store]
kind = "postgres"
url = "{url}"
schema = "{schema}"
backends_dir = "state"

[reconciler]
lease = "2s"
quickest_look = "20ms"

[backends.engine]
kind = "sim"
address = "{address}"

[tools.job]
backend = "engine"
target = {{}}
max_running = 1
parameters.text = {{ type = "string", sensitive = true }}
parameters.delay_ms = {{ type = "integer", default = 0 }}
"#
    )
}

/// A server in its own [`TestDir`], whose keys can be changed.
struct Replica {
    dir: TestDir,
    server: Server,
    reloads: usize,
    config: Box<dyn Fn(&str) -> String>,
}

impl Replica {
    fn start(config: impl Fn(&str) -> String + 'static) -> Self {
        let dir = TestDir::new(&config(""));
        std::fs::write(dir.path("new.key"), format!("{NEW_KEY}\n")).unwrap();
        Self { server: serve(&dir), dir, reloads: 0, config: Box::new(config) }
    }

    fn write(&self, keys: &str) {
        std::fs::write(self.dir.path("next"), (self.config)(&format!("[seal]\nkeys = {keys}\n"))).unwrap();
        std::fs::rename(self.dir.path("next"), self.dir.config()).unwrap();
    }

    /// Applies these keys while the server runs.
    async fn apply(&mut self, keys: &str) {
        self.write(keys);
        self.reloads += 1;
        let log = self.dir.path("server.log");
        wait_for("the keys are applied", async || {
            let log = std::fs::read_to_string(&log).unwrap();
            log.matches("config applied: [seal] keys").count() == self.reloads
        })
        .await;
    }

    /// Kills the server, and restarts it with these keys.
    fn restart(&mut self, keys: &str) {
        self.write(keys);
        self.server.kill();
        self.server = serve(&self.dir);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path("server.log")).unwrap()
    }
}

fn serve(dir: &TestDir) -> Server {
    let mut command = dir.command("serve");
    command.env("NEW_KEY", NEW_KEY);
    let mut server = Server::spawn(command, &dir.path("server.log"));
    server.wait_until_it_listens();
    server
}

/// Checks that a server still accepts values sealed before: the session, and a cursor.
async fn assert_cursor_valid(client: &Client, cursor: &Value) {
    let page = client.request("tasks/list", json!({ "cursor": cursor })).await.unwrap();
    assert_eq!(page["tasks"].as_array().unwrap().len(), 1, "{page}");
}

/// Tasks, sessions and cursors that were sealed with the old key stay valid until it is removed.
#[tokio::test]
async fn seal_key_rotation_keeps_sessions() {
    let engines = TestDir::new("");
    let engine = SimProcess::start(&engines, "keyed");
    let schema = schema();
    let texts: Vec<String> = [(), ()].map(|()| config(&schema, &engine, "SEAL")).into();
    let mut replicas = texts.into_iter().map(|text| Replica::start(move |seal| text.replace("SEAL", seal)));
    let (mut a, mut b) = (replicas.next().unwrap(), replicas.next().unwrap());
    let client = Client::open(a.server.url()).await.unwrap();
    let job = |text: &str, delay_ms: u64| json!({"text": text, "delay_ms": delay_ms});

    // The first job blocks the others, whose rows contain their sealed arguments.
    let first = client.start("job", job("first", 60_000)).await.unwrap();
    let waiting = client.start_once("key", "job", job("sealed by the store's key", 0)).await.unwrap();
    let page = client.request("tasks/list", json!({})).await.unwrap();
    let cursor = &page["nextCursor"];

    // The new key can open values before any server seals with it: A reads it from a file, B from its
    // environment.
    a.apply("[{ from = \"store\" }, { file = \"new.key\" }]").await;
    assert_cursor_valid(&client.at(b.server.url()), cursor).await;
    b.restart("[{ from = \"store\" }, { env = \"NEW_KEY\" }]");
    assert_cursor_valid(&client.at(a.server.url()), cursor).await;
    assert_cursor_valid(&client.at(b.server.url()), cursor).await;

    // During the rotation, A seals with the new key and B with the old one. Each opens both, and B is killed
    // once more.
    a.apply("[{ file = \"new.key\" }, { from = \"store\" }]").await;
    let newer_client = Client::open(a.server.url()).await.unwrap();
    let second = newer_client.start("job", job("sealed by the new key", 0)).await.unwrap();
    for server in [&a.server, &b.server] {
        assert_cursor_valid(&client.at(server.url()), cursor).await;
        assert_cursor_valid(&newer_client.at(server.url()), cursor).await;
    }
    b.restart("[{ env = \"NEW_KEY\" }, { from = \"store\" }]");
    assert_cursor_valid(&newer_client.at(b.server.url()), cursor).await;
    // Whether two calls are the same does not depend on the sealing key.
    let client_b = newer_client.at(b.server.url());
    assert_eq!(
        client_b.start_once("key", "job", job("sealed by the store's key", 0)).await.unwrap(),
        waiting
    );
    assert!(client_b.start_once("key", "job", job("another", 0)).await.is_err());

    // Jobs that waited in rows start with the arguments sealed at that time.
    client_b.cancel(&first).await.unwrap();
    assert_eq!(text(&client_b.result(&waiting).await.unwrap()), "sealed by the store's key");
    assert_eq!(text(&client_b.result(&second).await.unwrap()), "sealed by the new key");

    // Without the old key, values that it sealed are treated like made-up ones: at A, which keeps running,
    // and at B, which restarts.
    let newest_page = newer_client.request("tasks/list", json!({})).await.unwrap();
    a.apply("[{ file = \"new.key\" }]").await;
    b.restart("[{ file = \"new.key\" }]");
    for server in [&a.server, &b.server] {
        let newer_client = newer_client.at(server.url());
        assert_cursor_valid(&newer_client, &newest_page["nextCursor"]).await;
        let page =
            async |cursor: &Value| newer_client.request("tasks/list", json!({ "cursor": cursor })).await;
        let (old, made_up) = (page(cursor).await, page(&json!("none")).await);
        let (
            Err(Fault::Refused { code, message }),
            Err(Fault::Refused { code: other_code, message: other_message }),
        ) = (old, made_up)
        else {
            panic!("a cursor of a key that is gone is good");
        };
        assert_eq!((code, message), (other_code, other_message));
        let response = client.at(server.url()).list().await;
        let Err(Fault::Status(status, body)) = response else {
            panic!("a session of a key that is gone: {response:?}")
        };
        assert!(status == 404 && body.contains("there is no such session"), "{status} {body}");
    }
    for replica in [&a, &b] {
        assert!(!replica.log().contains(NEW_KEY), "a key is in the log");
    }
    assert_eq!(engine.started().len(), 3);
    for mut replica in [a, b] {
        assert_eq!(replica.server.stop(), Some(0));
    }
}

/// An invalid key is refused, and the old one stays in force.
#[tokio::test]
async fn changed_key_file_is_reloaded() {
    let engines = TestDir::new("");
    let engine = SimProcess::start(&engines, "keyed");
    let text = config(&schema(), &engine, "SEAL");
    let mut replica = Replica::start(move |seal| text.replace("SEAL", seal));
    replica.restart("[{ file = \"new.key\" }]");
    let client = Client::open(replica.server.url()).await.unwrap();
    client.list().await.unwrap();
    std::fs::write(replica.dir.path("new.key"), "too short\n").unwrap();
    let expected = "seal.keys[0]: the key has 9 characters, the minimum is 32: write the output of `openssl rand -hex 32`";
    wait_for("the short key is refused", async || replica.log().contains(expected)).await;
    client.list().await.unwrap();
    std::fs::write(replica.dir.path("new.key"), NEW_KEY.replace('9', "8")).unwrap();
    wait_for("the session is of a key that is gone", async || client.list().await.is_err()).await;
    assert!(!replica.log().contains("too short"));
    Client::open(replica.server.url()).await.unwrap().list().await.unwrap();
    assert_eq!(replica.server.stop(), Some(0));
}
