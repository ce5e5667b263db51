//! Drives a server for a while over some connections, each with one request at a time, and measures what that costs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::{try_join, try_join_all};

use super::Result;
use super::client::Connection;
use super::place::Places;
use super::stage::{Stage, Used};
use super::wire::{self, Generation};

/// How long a server gets to finish what its answers left to be done, before its CPU is read.
const SETTLE: Duration = Duration::from_millis(30);

/// How long a client waits before it asks again for a task that has not ended.
const BREATH: Duration = Duration::from_millis(1);

/// What is done again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A call as a task, whose job then runs for an hour.
    Create,
    /// A poll of one of some live tasks.
    Get,
    /// A call as a task whose job takes [`wire::SHORT`], and a request for its result that waits for it.
    Wait,
    /// A call as a task whose job takes no time, and its result: a poll and a request for it in one generation, polls
    /// until one brings it in the other.
    Life,
}

/// One client, with a connection to each server. Its requests go from one to the next, as a proxy would have it.
struct Lane {
    connections: Vec<Connection>,
    turn: usize,
}

/// Some clients.
pub(crate) struct Load {
    work: Work,
    generation: Generation,
    lanes: Vec<Lane>,
    /// The tasks to poll.
    tasks: Vec<String>,
    /// True if the client has a CPU for itself.
    apart: bool,
}

/// What a while of work came to.
#[derive(Default)]
pub(crate) struct Measured {
    /// How long each operation took; sorted.
    pub(crate) latencies: Vec<Duration>,
    /// How long all of it took.
    pub(crate) took: Duration,
    /// CPU meanwhile.
    pub(crate) used: Used,
}

impl Measured {
    /// The servers' CPU per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.each(self.used.servers)
    }

    /// That of the database.
    pub(crate) fn database_us(&self) -> f64 {
        self.each(self.used.database)
    }

    fn each(&self, ns: u64) -> f64 {
        ns as f64 / 1000.0 / self.latencies.len().max(1) as f64
    }

    /// Operations in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// The latency that so many of a thousand operations stayed within.
    pub(crate) fn within(&self, of_a_thousand: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let at = (self.latencies.len() * of_a_thousand / 1000).min(last);
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// Takes another while in.
    pub(crate) fn add(&mut self, other: Measured) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.took += other.took;
    }
}

impl Lane {
    async fn open(servers: &[SocketAddr], generation: Generation, turn: usize) -> Result<Self> {
        let connections = servers.iter().map(|server| Connection::open(*server, generation));
        Ok(Self { connections: try_join_all(connections).await?, turn })
    }

    fn next(&mut self) -> &mut Connection {
        self.turn = (self.turn + 1) % self.connections.len();
        &mut self.connections[self.turn]
    }
}

impl Load {
    /// Connects so many clients, and makes `live` tasks to poll.
    pub(crate) async fn new(
        places: &Places,
        stage: &Stage,
        generation: Generation,
        work: Work,
        clients: usize,
        live: usize,
    ) -> Result<Self> {
        let servers = stage.addresses();
        let lanes = try_join_all((0..clients).map(|n| Lane::open(&servers, generation, n))).await?;
        let mut load = Self { work, generation, lanes, tasks: Vec::new(), apart: places.apart };
        load.tasks = load.make(live).await?;
        Ok(load)
    }

    /// Makes live tasks, and returns their ids.
    pub(crate) async fn make(&mut self, tasks: usize) -> Result<Vec<String>> {
        let (lanes, generation) = (self.lanes.len(), self.generation);
        let made = self.lanes.iter_mut().enumerate().map(|(number, lane)| async move {
            let mut made = Vec::new();
            for _ in (number..tasks).step_by(lanes) {
                made.push(create(lane, generation, wire::LONG).await?);
            }
            Result::<_>::Ok(made)
        });
        Ok(try_join_all(made).await?.concat())
    }

    /// All clients work for so long at once.
    pub(crate) async fn run(&mut self, stage: &mut Stage, period: Duration) -> Result<Measured> {
        let (work, generation, tasks) = (self.work, self.generation, self.tasks.as_slice());
        let before = stage.used()?;
        let since = Instant::now();
        let lanes = self.lanes.iter_mut().enumerate().map(|(number, lane)| async move {
            let mut latencies = Vec::new();
            let mut turn = number;
            while since.elapsed() < period {
                let began = Instant::now();
                work.once(lane, generation, tasks, turn).await?;
                latencies.push(began.elapsed());
                turn += 1;
            }
            Result::<_>::Ok(latencies)
        });
        let (latencies, ()) = try_join(try_join_all(lanes), stay_awake(since, period, self.apart)).await?;
        let took = since.elapsed();
        let mut latencies = latencies.concat();
        tokio::time::sleep(SETTLE).await;
        latencies.sort_unstable();
        Ok(Measured { latencies, took, used: stage.used()? - before })
    }
}

impl Work {
    /// True if there is such an operation in this generation: nothing waits for a result in the newer one.
    pub(crate) fn is_of(self, generation: Generation) -> bool {
        self != Work::Wait || generation == Generation::V2025
    }

    /// Requests in one operation, as the bare server is asked: it has every task completed at the first poll.
    pub(crate) fn requests(self, generation: Generation) -> f64 {
        match (self, generation) {
            (Work::Create | Work::Get, _) => 1.0,
            (Work::Wait, _) => 2.0,
            (Work::Life, Generation::V2025) => 3.0,
            (Work::Life, Generation::V2026) => 2.0,
        }
    }

    async fn once(
        self,
        lane: &mut Lane,
        generation: Generation,
        tasks: &[String],
        turn: usize,
    ) -> Result<()> {
        match (self, generation) {
            (Work::Create, _) => {
                create(lane, generation, wire::LONG).await?;
            }
            (Work::Get, _) => poll(lane, generation, &tasks[turn % tasks.len()]).await?,
            (Work::Wait, _) => {
                let task = create(lane, generation, wire::SHORT).await?;
                result(lane, &task).await?;
            }
            (Work::Life, Generation::V2025) => {
                let task = create(lane, generation, 0).await?;
                poll(lane, generation, &task).await?;
                result(lane, &task).await?;
            }
            (Work::Life, Generation::V2026) => {
                let task = create(lane, generation, 0).await?;
                completed(lane.next(), &task).await?;
            }
        }
        Ok(())
    }
}

/// Keeps the client's thread from sleeping. Whoever sends to a process that sleeps pays for waking it, and would pay the
/// more often the slower it is itself; where nobody sleeps, what a server uses is its own.
async fn stay_awake(since: Instant, period: Duration, apart: bool) -> Result<()> {
    while apart && since.elapsed() < period {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn create(lane: &mut Lane, generation: Generation, delay_ms: u64) -> Result<String> {
    let connection = lane.next();
    let call = wire::create(generation, connection.id(), delay_ms);
    Ok(wire::task_id(connection.call(&call).await?)?.to_owned())
}

async fn poll(lane: &mut Lane, generation: Generation, task: &str) -> Result<()> {
    let connection = lane.next();
    let poll = wire::get(generation, connection.id(), task);
    connection.call(&poll).await.map(drop)
}

async fn result(lane: &mut Lane, task: &str) -> Result<()> {
    let connection = lane.next();
    let result = wire::result(connection.id(), task);
    connection.call(&result).await.map(drop)
}

/// Polls until an answer brings the result, and returns how long that answer is.
pub(crate) async fn completed(connection: &mut Connection, task: &str) -> Result<usize> {
    loop {
        let poll = wire::get(Generation::V2026, connection.id(), task);
        let answer = connection.call(&poll).await?;
        if wire::is_completed(answer) {
            return Ok(answer.len());
        }
        tokio::time::sleep(BREATH).await;
    }
}
