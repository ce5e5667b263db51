//! The system under test: three replicas, their database and five engines, each a separate process, with a
//! proxy on every connection between them. It must not decide which faults happen when.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::sim::SimClient;

use super::clock::Clock;
use super::config::config;
use super::disk::Disk;
use super::plan::EngineName;
use crate::support::postgres::{Postgres, schema};
use crate::support::{PROGRAM, Place, Proxy, Random, Server, SimProcess};

/// The lease: short, so that replicas take over from each other often.
pub(super) const LEASE: Duration = Duration::from_secs(2);

pub(super) const REPLICAS: usize = 3;

/// The engines' own faults.
const ENGINE_FAULTS: &str = r#"{"lost_reply": 0.01, "lost_before": 0.005, "limited": 0.02, "limited_ms": 200,
                                "outage": 0.01, "slow_ms": 20}"#;

/// One of the servers.
pub(super) struct Replica {
    number: usize,
    /// Locked during a fault or a change of this replica.
    pub(super) server: tokio::sync::Mutex<Option<Server>>,
    /// The proxy between its clients and it.
    pub(super) door: Proxy,
    /// The proxy between it and the database.
    pub(super) database: Proxy,
    /// The clock of its machine, for the one replica whose clock can be set.
    pub(super) clock: Option<Clock>,
}

/// An engine.
pub(super) struct Engine {
    pub(super) process: SimProcess,
    /// The proxy between the replicas and it.
    pub(super) way: Proxy,
    /// A direct connection without faults.
    pub(super) client: SimClient,
}

pub(super) struct World {
    pub(super) replicas: Vec<Replica>,
    engines: BTreeMap<EngineName, Engine>,
    /// Locked during a fault of the database.
    pub(super) database: tokio::sync::Mutex<Postgres>,
    /// Locked during a change of the replicas' configs.
    pub(super) config: tokio::sync::Mutex<()>,
    /// The clock of the database's machine.
    pub(super) clock: Clock,
    pub(super) disk: Disk,
    pub(super) schema: String,
    /// The database's URL with a placeholder for the address of a proxy.
    url: String,
    turn: AtomicUsize,
    tally: Mutex<BTreeMap<String, u64>>,
    /// Dropped last: it checks that none of the other processes is left.
    pub(super) place: Place,
}

impl World {
    /// Starts everything. `offers_added` selects whether the replicas have the backend that is added and
    /// removed.
    pub(super) async fn begin(random: &mut Random, offers_added: bool) -> Self {
        let place = Place::new("");
        let (disk, clock) = (Disk::new(), Clock::new());
        // Limits the WAL, so that the disk is much larger than it and new files are needed often.
        let settings = ["max_wal_size=64MB", "min_wal_size=32MB"];
        let environment =
            clock.of_many().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let start = || Postgres::start_with(disk.folder(), &settings, environment);
        let database = tokio::task::block_in_place(start);
        let mut engines = BTreeMap::new();
        for name in EngineName::ALL {
            engines.insert(name, Engine::start(&place, name, random.next()).await);
        }
        let mut replicas = Vec::new();
        for number in 0..REPLICAS {
            let (door, way) = (Proxy::to(None).await, Proxy::to(database.address().parse().ok()).await);
            let server = tokio::sync::Mutex::new(None);
            replicas.push(Replica {
                number,
                server,
                door,
                database: way,
                clock: (number == 0).then(Clock::new),
            });
        }
        let url = database.url().replace(&database.address(), "DATABASE");
        let world = Self {
            replicas,
            engines,
            database: tokio::sync::Mutex::new(database),
            config: tokio::sync::Mutex::default(),
            clock,
            disk,
            schema: schema(),
            url,
            turn: AtomicUsize::new(0),
            tally: Mutex::default(),
            place,
        };
        for replica in &world.replicas {
            replica.configure(&world, offers_added);
            replica.start(&mut *replica.server.lock().await, &world).await;
        }
        world
    }

    pub(super) fn engine(&self, name: EngineName) -> &Engine {
        &self.engines[&name]
    }

    /// Returns the number of a backend's tasks that are not closed. Retries while the database is down.
    pub(super) async fn open_tasks(&self, engine: EngineName) -> i64 {
        let database = self.database.lock().await;
        let count = "SELECT count(*) FROM tasks WHERE NOT closed AND of_backend = $1";
        for _ in 0..150 {
            if let Ok(client) = database.try_client(&self.schema).await
                && let Ok(row) = client.query_one(count, &[&engine.as_str()]).await
            {
                return row.get(0);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the database does not come back");
    }

    /// Returns the endpoint of the next replica in turn, like a load balancer without affinity.
    pub(super) fn next(&self) -> String {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.replicas[turn % REPLICAS].url()
    }

    /// Counts an event for the table.
    pub(super) fn count(&self, what: &str) {
        self.add(what, 1);
    }

    /// Adds a number of events.
    pub(super) fn add(&self, what: &str, number: u64) {
        *self.tally.lock().entry(what.to_owned()).or_default() += number;
    }

    pub(super) fn counted(&self) -> BTreeMap<String, u64> {
        self.tally.lock().clone()
    }

    /// Returns the log of a replica.
    pub(super) fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.place.path(&format!("replica-{number}.log"))).unwrap_or_default()
    }
}

impl Replica {
    /// Returns the endpoint at the proxy for clients.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.door.address())
    }

    /// Writes the replica's config, with or without the backend that is added and removed.
    pub(super) fn configure(&self, world: &World, offers_added: bool) {
        let url = world.url.replace("DATABASE", &self.database.address().to_string());
        let engines = EngineName::ALL.into_iter().filter(|name| offers_added || *name != EngineName::Added);
        let backends: Vec<_> = engines.map(|name| (name, world.engine(name).way.address())).collect();
        let (file, new) =
            (self.config(&world.place), world.place.path(&format!("replica-{}.new", self.number)));
        std::fs::write(&new, config(&url, &world.schema, &backends)).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    fn config(&self, place: &Place) -> std::path::PathBuf {
        place.path(&format!("replica-{}.toml", self.number))
    }

    /// Stops the replica gracefully, and starts it again.
    pub(super) async fn restart(&self, server: &mut Option<Server>, world: &World) {
        self.door.aim(None);
        if let Some(mut server) = server.take() {
            let code = tokio::task::block_in_place(|| server.stop());
            assert_eq!(code, Some(0), "a replica stops when it is told to");
        }
        self.start(server, world).await;
    }

    /// Returns how often its log contains this text.
    pub(super) fn logged(&self, world: &World, words: &str) -> usize {
        world.log(self.number).matches(words).count()
    }

    /// Starts the replica, and retries if it cannot start, as its operator would.
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

    /// Kills the replica as `kill -9` does.
    pub(super) fn kill(&self, server: &mut Option<Server>) {
        self.door.aim(None);
        if let Some(mut server) = server.take() {
            tokio::task::block_in_place(|| server.kill());
        }
    }

    fn launch(&self, place: &Place) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(self.config(place));
        place.settle(&mut command);
        if let Some(clock) = &self.clock {
            command.envs(clock.of_one());
        }
        Server::spawn(command, &place.path(&format!("replica-{}.log", self.number)))
    }
}

impl Engine {
    async fn start(place: &Place, name: EngineName, seed: u64) -> Self {
        let (seed, mode) =
            ((seed % 1_000_000).to_string(), if name.has_keys() { "keyed" } else { "unkeyed" });
        let more = ["--seed", &seed, "--faults", ENGINE_FAULTS];
        let process = SimProcess::start_as(place, name.as_str(), mode, &more);
        let address = process.address.parse().unwrap();
        Self { process, way: Proxy::to(Some(address)).await, client: SimClient::new(address) }
    }
}
