//! Drives a server for a while over some connections, each with one request at a time, and measures what that costs.

use std::time::{Duration, Instant};

use futures_util::future::{try_join, try_join_all};

use super::Result;
use super::client::Connection;
use super::place::Places;
use super::server::Server;
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
    /// A call as a task whose job takes no time, and its result: a poll and a request for it in one generation, polls
    /// until one brings it in the other.
    Life,
}

/// Some connections to one server.
pub(crate) struct Load {
    work: Work,
    generation: Generation,
    connections: Vec<Connection>,
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
    /// The server's CPU meanwhile, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl Measured {
    /// The server's CPU per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1000.0 / self.latencies.len().max(1) as f64
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
        self.cpu_ns += other.cpu_ns;
    }
}

impl Load {
    /// Connects, and makes `live` tasks to poll.
    pub(crate) async fn new(
        places: &Places,
        server: &Server,
        generation: Generation,
        work: Work,
        connections: usize,
        live: usize,
    ) -> Result<Self> {
        let open = (0..connections).map(|_| Connection::open(server.address, generation));
        let connections = try_join_all(open).await?;
        let mut load = Self { work, generation, connections, tasks: Vec::new(), apart: places.apart };
        load.tasks = load.make(live).await?;
        Ok(load)
    }

    /// Makes live tasks, and returns their ids.
    pub(crate) async fn make(&mut self, tasks: usize) -> Result<Vec<String>> {
        let (lanes, generation) = (self.connections.len(), self.generation);
        let made = self.connections.iter_mut().enumerate().map(|(lane, connection)| async move {
            let mut made = Vec::new();
            for _ in (lane..tasks).step_by(lanes) {
                made.push(create(connection, generation, wire::LONG).await?);
            }
            Result::<_>::Ok(made)
        });
        Ok(try_join_all(made).await?.concat())
    }

    /// Works for so long on all connections at once.
    pub(crate) async fn run(&mut self, server: &mut Server, period: Duration) -> Result<Measured> {
        let (work, generation, tasks) = (self.work, self.generation, self.tasks.as_slice());
        let before = server.meter.cpu_ns()?;
        let since = Instant::now();
        let lanes = self.connections.iter_mut().enumerate().map(|(lane, connection)| async move {
            let mut latencies = Vec::new();
            let mut turn = lane;
            while since.elapsed() < period {
                let began = Instant::now();
                work.once(connection, generation, tasks, turn).await?;
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
        Ok(Measured { latencies, took, cpu_ns: server.meter.cpu_ns()? - before })
    }
}

impl Work {
    /// Requests in one operation, as the bare server is asked: it has every task completed at the first poll.
    pub(crate) fn requests(self, generation: Generation) -> f64 {
        match (self, generation) {
            (Work::Create | Work::Get, _) => 1.0,
            (Work::Life, Generation::V2025) => 3.0,
            (Work::Life, Generation::V2026) => 2.0,
        }
    }

    async fn once(
        self,
        connection: &mut Connection,
        generation: Generation,
        tasks: &[String],
        turn: usize,
    ) -> Result<()> {
        match (self, generation) {
            (Work::Create, _) => {
                create(connection, generation, wire::LONG).await?;
            }
            (Work::Get, _) => {
                let poll = wire::get(generation, connection.id(), &tasks[turn % tasks.len()]);
                connection.call(&poll).await?;
            }
            (Work::Life, Generation::V2025) => {
                let task = create(connection, generation, 0).await?;
                let poll = wire::get(generation, connection.id(), &task);
                connection.call(&poll).await?;
                let result = wire::result(connection.id(), &task);
                connection.call(&result).await?;
            }
            (Work::Life, Generation::V2026) => {
                let task = create(connection, generation, 0).await?;
                completed(connection, &task).await?;
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

async fn create(connection: &mut Connection, generation: Generation, delay_ms: u64) -> Result<String> {
    let call = wire::create(generation, connection.id(), delay_ms);
    Ok(wire::task_id(connection.call(&call).await?)?.to_owned())
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
