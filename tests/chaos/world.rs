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
use crate::support::{PROGRAM, Proxy, Random, Server, SimProcess, TestDir};

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
    pub(super) client_proxy: Proxy,
    /// The proxy between it and the database.
    pub(super) database_proxy: Proxy,
    /// The clock of its machine, for the one replica whose clock can be set.
    pub(super) clock: Option<Clock>,
}

/// An engine.
pub(super) struct Engine {
    pub(super) process: SimProcess,
    /// The proxy between the replicas and it.
    pub(super) proxy: Proxy,
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
    next_replica: AtomicUsize,
    event_counts: Mutex<BTreeMap<String, u64>>,
    /// Dropped last: it checks that none of the other processes is left.
    pub(super) workdir: TestDir,
}

impl World {
    /// Starts everything. `offers_added` selects whether the replicas have the backend that is added and
    /// removed.
    pub(super) async fn begin(random: &mut Random, offers_added: bool) -> Self {
        let workdir = TestDir::new("");
        let (disk, clock) = (Disk::new(), Clock::new());
        // Limits the WAL, so that the disk is much larger than it and new files are needed often.
        let settings = ["max_wal_size=64MB", "min_wal_size=32MB"];
        let environment =
            clock.environment_for_many().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let start = || Postgres::start_with(disk.folder(), &settings, environment);
        let database = tokio::task::block_in_place(start);
        let mut engines = BTreeMap::new();
        for name in EngineName::ALL {
            engines.insert(name, Engine::start(&workdir, name, random.next()).await);
        }
        let mut replicas = Vec::new();
        for number in 0..REPLICAS {
            let (client_proxy, database_proxy) =
                (Proxy::to(None).await, Proxy::to(database.address().parse().ok()).await);
            let server = tokio::sync::Mutex::new(None);
            replicas.push(Replica {
                number,
                server,
                client_proxy,
                database_proxy,
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
            next_replica: AtomicUsize::new(0),
            event_counts: Mutex::default(),
            workdir,
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
        let index = self.next_replica.fetch_add(1, Ordering::Relaxed);
        self.replicas[index % REPLICAS].url()
    }

    /// Counts an event for the table.
    pub(super) fn count(&self, event: &str) {
        self.add(event, 1);
    }

    /// Adds a number of events.
    pub(super) fn add(&self, event: &str, number: u64) {
        *self.event_counts.lock().entry(event.to_owned()).or_default() += number;
    }

    pub(super) fn event_counts(&self) -> BTreeMap<String, u64> {
        self.event_counts.lock().clone()
    }

    /// Returns the log of a replica.
    pub(super) fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.workdir.path(&format!("replica-{number}.log"))).unwrap_or_default()
    }
}

impl Replica {
    /// Returns the endpoint at the proxy for clients.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.client_proxy.address())
    }

    /// Writes the replica's config, with or without the backend that is added and removed.
    pub(super) fn configure(&self, world: &World, offers_added: bool) {
        let url = world.url.replace("DATABASE", &self.database_proxy.address().to_string());
        let engines = EngineName::ALL.into_iter().filter(|name| offers_added || *name != EngineName::Added);
        let backends: Vec<_> = engines.map(|name| (name, world.engine(name).proxy.address())).collect();
        let (file, new) =
            (self.config(&world.workdir), world.workdir.path(&format!("replica-{}.new", self.number)));
        std::fs::write(&new, config(&url, &world.schema, &backends)).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    fn config(&self, workdir: &TestDir) -> std::path::PathBuf {
        workdir.path(&format!("replica-{}.toml", self.number))
    }

    /// Stops the replica gracefully, and starts it again.
    pub(super) async fn restart(&self, server: &mut Option<Server>, world: &World) {
        self.client_proxy.set_target(None);
        if let Some(mut server) = server.take() {
            let code = tokio::task::block_in_place(|| server.stop());
            assert_eq!(code, Some(0), "a replica stops when it is told to");
        }
        self.start(server, world).await;
    }

    /// Returns how often its log contains this text.
    pub(super) fn count_logged(&self, world: &World, text: &str) -> usize {
        world.log(self.number).matches(text).count()
    }

    /// Starts the replica, and retries if it cannot start, as its operator would.
    pub(super) async fn start(&self, server: &mut Option<Server>, world: &World) {
        loop {
            let mut new_server = self.launch(&world.workdir);
            if tokio::task::block_in_place(|| new_server.listens()) {
                let address = new_server.url().trim_start_matches("http://").trim_end_matches("/mcp").parse();
                self.client_proxy.set_target(Some(address.unwrap()));
                *server = Some(new_server);
                return;
            }
            world.count("starts of a replica while the database was away");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Kills the replica as `kill -9` does.
    pub(super) fn kill(&self, server: &mut Option<Server>) {
        self.client_proxy.set_target(None);
        if let Some(mut server) = server.take() {
            tokio::task::block_in_place(|| server.kill());
        }
    }

    fn launch(&self, workdir: &TestDir) -> Server {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(self.config(workdir));
        workdir.prepare(&mut command);
        if let Some(clock) = &self.clock {
            command.envs(clock.environment_for_one());
        }
        Server::spawn(command, &workdir.path(&format!("replica-{}.log", self.number)))
    }
}

impl Engine {
    async fn start(workdir: &TestDir, name: EngineName, seed: u64) -> Self {
        let (seed, mode) =
            ((seed % 1_000_000).to_string(), if name.has_keys() { "keyed" } else { "unkeyed" });
        let options = ["--seed", &seed, "--faults", ENGINE_FAULTS];
        let process = SimProcess::start_as(workdir, name.as_str(), mode, &options);
        let address = process.address.parse().unwrap();
        Self { process, proxy: Proxy::to(Some(address)).await, client: SimClient::new(address) }
    }
}
