//! What breaks: three replicas, their database and two engines, each a process of its own, with a proxy on every way between
//! them. It must not decide what breaks when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::sim::SimClient;

use super::disk::Disk;
use crate::support::postgres::{Postgres, schema};
use crate::support::{PROGRAM, Place, Proxy, Random, Server, SimProcess};

/// How long a lease is: short, so that replicas take over from each other often.
pub(super) const LEASE: Duration = Duration::from_secs(2);

pub(super) const REPLICAS: usize = 3;

/// Where Debian has its libraries, in a folder for each kind of machine, and in that the one that shows a process another time
/// of day.
const LIBRARIES: &str = "/usr/lib";
const FAKETIME: &str = "faketime/libfaketime.so.1";

/// What the engines do by themselves.
const ENGINE_FAULTS: &str = r#"{"lost_reply": 0.01, "lost_before": 0.005, "limited": 0.02, "limited_ms": 200,
                                "outage": 0.01, "slow_ms": 20}"#;

/// One of the servers.
pub(super) struct Replica {
    number: usize,
    /// Held by whoever does something to it.
    pub(super) server: tokio::sync::Mutex<Option<Server>>,
    /// The way of its clients to it.
    pub(super) door: Proxy,
    /// Its way to the database.
    pub(super) database: Proxy,
    /// The file that says how far its clock is off, if it is the one whose clock can be set.
    pub(super) clock: Option<PathBuf>,
}

/// An engine.
pub(super) struct Engine {
    pub(super) process: SimProcess,
    /// The way of the replicas to it.
    pub(super) way: Proxy,
    /// A way that nothing happens to.
    pub(super) client: SimClient,
}

pub(super) struct World {
    pub(super) replicas: Vec<Replica>,
    pub(super) keyed: Engine,
    pub(super) unkeyed: Engine,
    /// Held by whoever does something to it.
    pub(super) database: tokio::sync::Mutex<Postgres>,
    pub(super) disk: Disk,
    pub(super) schema: String,
    turn: AtomicUsize,
    tally: Mutex<BTreeMap<String, u64>>,
    /// Last: it sees to it that nothing is left of the others.
    pub(super) place: Place,
}

impl World {
    pub(super) async fn begin(random: &mut Random) -> Self {
        let place = Place::new("");
        let disk = Disk::new();
        // So little log is kept that the disk holds it many times over, and new files are needed often.
        let settings = ["max_wal_size=64MB", "min_wal_size=32MB"];
        let database = tokio::task::block_in_place(|| Postgres::start_in(disk.folder(), &settings));
        let keyed = Engine::start(&place, "keyed", random.next()).await;
        let unkeyed = Engine::start(&place, "unkeyed", random.next()).await;
        let (schema, mut replicas) = (schema(), Vec::new());
        for number in 0..REPLICAS {
            let (door, way) = (Proxy::to(None).await, Proxy::to(database.address().parse().ok()).await);
            let url = database.url().replace(&database.address(), &way.address().to_string());
            let config = config(&url, &schema, &keyed, &unkeyed);
            std::fs::write(place.path(&format!("replica-{number}.toml")), config).unwrap();
            let clock = (number == 0).then(|| place.path("clock"));
            if let Some(clock) = &clock {
                std::fs::write(clock, "+0").unwrap();
            }
            let server = tokio::sync::Mutex::new(None);
            replicas.push(Replica { number, server, door, database: way, clock });
        }
        let world = Self {
            replicas,
            keyed,
            unkeyed,
            database: tokio::sync::Mutex::new(database),
            disk,
            schema,
            turn: AtomicUsize::new(0),
            tally: Mutex::default(),
            place,
        };
        for replica in &world.replicas {
            replica.start(&mut *replica.server.lock().await, &world).await;
        }
        world
    }

    /// The endpoint of the next replica in turn, as a load balancer would give it that knows nothing of them.
    pub(super) fn next(&self) -> String {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.replicas[turn % REPLICAS].url()
    }

    /// Counts something for the table.
    pub(super) fn count(&self, what: &str) {
        *self.tally.lock().entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn counted(&self) -> BTreeMap<String, u64> {
        self.tally.lock().clone()
    }

    /// What the servers have logged.
    pub(super) fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.place.path(&format!("replica-{number}.log"))).unwrap_or_default()
    }
}

impl Replica {
    /// The endpoint, by way of its door.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.door.address())
    }

    /// Starts it. Where it cannot begin, whoever runs it starts it again.
    pub(super) async fn start(&self, server: &mut Option<Server>, world: &World) {
        loop {
            let mut started = self.launch(&world.place);
            if tokio::task::block_in_place(|| started.listens()) {
                let address = started.url().trim_start_matches("http://").trim_end_matches("/mcp").parse();
                self.door.aim(Some(address.unwrap()));
                *server = Some(started);
                return;
            }
            world.count("starts of a replica while the database was away");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Kills it as `kill -9` does.
    pub(super) fn kill(&self, server: &mut Option<Server>) {
        self.door.aim(None);
        if let Some(mut server) = server.take() {
            tokio::task::block_in_place(|| server.kill());
        }
    }

    fn launch(&self, place: &Place) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(place.path(&format!("replica-{}.toml", self.number)));
        place.settle(&mut command);
        if let Some(clock) = &self.clock {
            command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", clock);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_CACHE_DURATION", "1");
        }
        Server::spawn(command, &place.path(&format!("replica-{}.log", self.number)))
    }
}

impl Engine {
    async fn start(place: &Place, mode: &str, seed: u64) -> Self {
        let seed = (seed % 1_000_000).to_string();
        let process = SimProcess::start_with(place, mode, &["--seed", &seed, "--faults", ENGINE_FAULTS]);
        let address = process.address.parse().unwrap();
        Self { process, way: Proxy::to(Some(address)).await, client: SimClient::new(address) }
    }
}

fn faketime() -> PathBuf {
    let machines = std::fs::read_dir(LIBRARIES).unwrap().flatten();
    let mut files = machines.map(|machine| machine.path().join(FAKETIME));
    files.find(|file| file.exists()).expect("libfaketime is there: apt-get install libfaketime")
}

fn config(url: &str, schema: &str, keyed: &Engine, unkeyed: &Engine) -> String {
    let mut config = format!(
        r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000
# Short, so that plain calls are answered with a handle as well.
call_budget = "2s"

[auth]
single_user = true

[store]
kind = "postgres"
url = "{url}"
schema = "{schema}"
backends_dir = "state"

[reconciler]
lease = "{}s"
quickest_look = "50ms"
slowest_look = "1s"

[backends.keyed]
kind = "sim"
address = "{}"

[backends.unkeyed]
kind = "sim"
address = "{}"
"#,
        LEASE.as_secs(),
        keyed.way.address(),
        unkeyed.way.address()
    );
    let asks = r#"question = { message = "Who?", schema = { type = "object", required = ["name"], properties = { name = { type = "string" } } } }"#;
    for engine in ["keyed", "unkeyed"] {
        for (work, target) in [("succeeds", ""), ("fails", "outcome = \"fail\""), ("asks", asks)] {
            config.push_str(&format!(
                r#"
[tools.{engine}_{work}]
backend = "{engine}"
target = {{ {target} }}
settle_window = "5s"
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#
            ));
        }
    }
    config
}
