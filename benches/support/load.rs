//! Drives a server for a while over some connections, each with one request at a time, and measures the
//! cost.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::{try_join, try_join_all};

use super::Result;
use super::client::Connection;
use super::place::Places;
use super::stage::{Stage, Used};
use super::wire::{self, Generation};

/// The time for a server to finish work after its responses, before its CPU usage is read.
const SETTLE: Duration = Duration::from_millis(30);

/// Polling interval of a client for a task that has not ended.
const BREATH: Duration = Duration::from_millis(1);

/// The repeated operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A call as a task, whose job then runs for an hour.
    Create,
    /// A poll of one of several live tasks.
    Get,
    /// A call as a task whose job takes [`wire::SHORT`], and a request that waits for its result.
    Wait,
    /// A call as a task whose job takes no time, and its result. One generation needs a poll and a request
    /// for the result; the other polls until the response contains it.
    Life,
}

/// One client, with a connection to each server. Its requests go from one server to the next, as behind a
/// proxy.
struct Lane {
    connections: Vec<Connection>,
    turn: usize,
}

/// Several clients.
pub(crate) struct Load {
    work: Work,
    generation: Generation,
    lanes: Vec<Lane>,
    /// The tasks to poll.
    tasks: Vec<String>,
    /// True if the client has its own CPU.
    apart: bool,
}

/// The measurements of a period.
#[derive(Default)]
pub(crate) struct Measured {
    /// The duration of each operation, sorted.
    pub(crate) latencies: Vec<Duration>,
    /// The length of the whole period.
    pub(crate) took: Duration,
    /// The CPU usage in this period.
    pub(crate) used: Used,
}

impl Measured {
    /// Returns the servers' CPU time per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.each(self.used.servers)
    }

    /// Returns the database's CPU time per operation, in microseconds.
    pub(crate) fn database_us(&self) -> f64 {
        self.each(self.used.database)
    }

    fn each(&self, ns: u64) -> f64 {
        ns as f64 / 1000.0 / self.latencies.len().max(1) as f64
    }

    /// Returns the operations per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// Returns the latency that this many of a thousand operations did not exceed.
    pub(crate) fn within(&self, of_a_thousand: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let at = (self.latencies.len() * of_a_thousand / 1000).min(last);
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// Adds the measurements of another period.
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
    /// Connects this number of clients, and creates `live` tasks to poll.
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

    /// Creates live tasks, and returns their ids.
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

    /// Runs all clients concurrently for this period.
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
    /// Reports whether the generation has this operation: the newer one has no request that waits for a
    /// result.
    pub(crate) fn is_of(self, generation: Generation) -> bool {
        self != Work::Wait || generation == Generation::V2025
    }

    /// Returns the number of requests per operation to the bare server, where every task is completed at the
    /// first poll.
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

/// Keeps the client's thread from sleeping. Sending to a sleeping process costs CPU for the wake-up, more
/// often the slower the sender is. If no process sleeps, a server's CPU usage is its own.
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

/// Polls until the response contains the result, and returns the length of that response.
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
