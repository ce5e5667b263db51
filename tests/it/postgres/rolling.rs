//! Tests that replace three servers on one database one after another while clients work. A client sees only
//! broken connections, which a retry solves, and each call starts one job.
//!
//! `$TASKBRIDGE_OLD` is the program of another version, which `tests/full` builds. With it, the replicas are
//! rolled from that version to this one and back. `taskbridge migrate` upgrades the schema while the old ones
//! serve. Without it, the version stays the same.

#![allow(clippy::print_stdout, reason = "the figures are part of the test's output")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::support::postgres::{schema, shared};
use crate::support::{BASICS, Client, Fault, PROGRAM, Server, SimProcess, TestDir, knob, text};

const REPLICAS: usize = 3;

/// Number of concurrent clients.
const CLIENTS: usize = 4;

/// How long a client retries a request.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

const SERVER_CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000

[auth]
single_user = true

[reconciler]
lease = "30s"
quickest_look = "20ms"

[tools.job]
backend = "engine"
target = {}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#;

/// The replicas, as behind a load balancer that retries: some of them may be down.
struct Fleet {
    servers: Mutex<Vec<Server>>,
    engine: SimProcess,
    dir: TestDir,
    schema: String,
    urls: Mutex<Vec<String>>,
    next: AtomicUsize,
    finished: AtomicBool,
}

/// The work of one client.
#[derive(Debug, Default)]
struct ClientStats {
    calls: usize,
    retries: usize,
}

impl Fleet {
    fn new() -> Self {
        let dir = TestDir::new("");
        let (engine, schema) = (SimProcess::start(&dir, "unkeyed"), schema());
        let config = format!(
            "[store]\nkind = \"postgres\"\nurl = \"{}\"\nschema = \"{}\"\nbackends_dir = \"state\"\n\
             [backends.engine]\nkind = \"sim\"\naddress = \"{}\"\n{SERVER_CONFIG}",
            shared().url(),
            schema,
            engine.address
        );
        std::fs::write(dir.config(), config).unwrap();
        let (servers, urls) = (Mutex::default(), Mutex::default());
        Self {
            dir,
            schema,
            engine,
            servers,
            urls,
            next: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
        }
    }

    fn serve(&self, program: &str) -> Server {
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(self.dir.config());
        self.dir.prepare(&mut command);
        let mut server = Server::spawn(command, &self.dir.path("server.log"));
        server.wait_until_it_listens();
        server
    }

    fn start_all(&self, program: &str) {
        for _ in 0..REPLICAS {
            let server = self.serve(program);
            self.urls.lock().push(server.url().to_owned());
            self.servers.lock().push(server);
        }
    }

    /// Stops each replica in turn, waits for its end, and replaces it by one of this program.
    fn roll(&self, program: &str) {
        for index in 0..REPLICAS {
            let mut old = self.servers.lock().remove(0);
            assert_eq!(old.stop(), Some(0));
            let new = self.serve(program);
            self.urls.lock()[index] = new.url().to_owned();
            self.servers.lock().push(new);
        }
    }

    /// Returns the next replica in turn.
    fn url(&self) -> String {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.urls.lock()[next % REPLICAS].clone()
    }

    /// Tries one replica after another while connections break. Any other error is visible to a client and
    /// fails the test.
    async fn request_with_retry<T>(
        &self,
        retries: &mut usize,
        send: impl AsyncFn(String) -> Result<T, Fault>,
    ) -> T {
        let attempts = async {
            loop {
                match send(self.url()).await {
                    Ok(response) => return response,
                    Err(Fault::Lost(_)) => *retries += 1,
                    Err(other) => panic!("a client sees {other:?}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(RETRY_TIMEOUT, attempts).await {
            Ok(response) => response,
            Err(_) => {
                panic!("no replica answers; the tasks that have not ended: {}", self.unfinished().await)
            }
        }
    }

    /// Returns the unfinished tasks with their histories.
    async fn unfinished(&self) -> String {
        let sql = "SELECT t.body || ' ' || coalesce(string_agg(e.replica || ' ' || e.what, ' ' ORDER BY e.n), '')
                   FROM tasks t LEFT JOIN entries e ON e.task = t.id WHERE NOT t.closed GROUP BY t.id, t.body";
        let rows = shared().client(&self.schema).await.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
    }

    /// Runs one client from the start of its session until the test is over: call after call, each with the
    /// expected result.
    async fn work(&self, name: usize) -> ClientStats {
        let mut stats = ClientStats::default();
        let client = self.request_with_retry(&mut stats.retries, async |url| Client::open(&url).await).await;
        while !self.finished.load(Ordering::Relaxed) {
            let key = format!("{name}.{}", stats.calls);
            let job = json!({"text": key, "delay_ms": 50 * (stats.calls % 8)});
            let start = async |url: String| client.at(&url).start_once(&key, "job", job.clone()).await;
            let task = self.request_with_retry(&mut stats.retries, start).await;
            let poll = async |url: String| client.at(&url).get(&task).await;
            assert_eq!(self.request_with_retry(&mut stats.retries, poll).await["taskId"], json!(task));
            let result = async |url: String| client.at(&url).result(&task).await;
            assert_eq!(text(&self.request_with_retry(&mut stats.retries, result).await), key);
            stats.calls += 1;
        }
        stats
    }
}

/// Returns the program of another version, or this one.
fn old_program() -> String {
    knob("TASKBRIDGE_OLD", PROGRAM.to_owned())
}

fn run(fleet: &Fleet, program: &str, verb: &str) {
    let mut command = Command::new(program);
    command.arg(verb).arg("--config").arg(fleet.dir.config());
    fleet.dir.prepare(&mut command);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Clients only retry broken connections, and each call is one job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_replacement_is_transparent() {
    let old = old_program();
    let rounds: usize = knob("TASKBRIDGE_ROLLS", 1);
    let fleet = Arc::new(Fleet::new());
    fleet.start_all(&old);
    let rolling = async {
        let fleet = Arc::clone(&fleet);
        let rolled = tokio::task::spawn_blocking(move || {
            run(&fleet, PROGRAM, "migrate");
            for _ in 0..rounds {
                fleet.roll(PROGRAM);
                if old != PROGRAM {
                    // A rollback from the new version, over the data that it has written.
                    fleet.roll(&old);
                }
            }
            fleet.finished.store(true, Ordering::Relaxed);
        });
        rolled.await.unwrap();
    };
    let clients = futures_util::future::join_all((0..CLIENTS).map(|name| fleet.work(name)));
    let (clients, ()) = tokio::join!(clients, rolling);
    let (calls, retries) = clients.iter().fold((0, 0), |(c, a), stats| (c + stats.calls, a + stats.retries));
    println!(
        "{calls} calls while replicas were replaced; {retries} requests made again; {REPLICAS} replicas"
    );
    assert!(clients.iter().all(|stats| stats.calls > 0), "{clients:?}");
    assert_eq!(fleet.engine.started().len(), calls, "each call is one job");
    for mut server in fleet.servers.lock().drain(..) {
        assert_eq!(server.stop(), Some(0));
    }
}

/// A SQLite file of this version works with the other version, or that version refuses it with instructions
/// and leaves it unchanged.
#[tokio::test]
async fn older_program_opens_or_refuses_file() {
    let dir = TestDir::new(BASICS);
    assert_eq!(dir.serve().stop(), Some(0));
    let before = std::fs::read(dir.path("state/taskbridge.db")).unwrap();
    let mut command = Command::new(old_program());
    command.arg("serve").arg("--config").arg(dir.config());
    dir.prepare(&mut command);
    let mut server = Server::spawn(command, &dir.path("old.log"));
    if server.listens() {
        assert_eq!(server.stop(), Some(0));
        return;
    }
    let log = std::fs::read_to_string(dir.path("old.log")).unwrap();
    for expected in ["state/taskbridge.db", "a newer taskbridge has used it. Run that one, or a newer one"] {
        assert!(log.contains(expected), "{log}");
    }
    assert_eq!(std::fs::read(dir.path("state/taskbridge.db")).unwrap(), before, "it is left as it was");
}
