//! The cost of live tasks without requests: CPU of the bridge and of the database, calls to the engine and
//! queries to the store per minute, and memory; and how it grows with the number of tasks.

use std::time::{Duration, Instant};

use super::Result;
use super::held::mb;
use super::load::{Load, Work};
use super::place::Places;
use super::stage::{Over, Stage, Used};
use super::wire::Generation;

/// What to measure.
pub(crate) struct Plan {
    /// The numbers of live tasks, each in its own bridge.
    pub(crate) live: Vec<usize>,
    /// The wait after the last task is created, because young jobs are polled more often than old ones.
    pub(crate) age: Duration,
    /// The period of the measurement.
    pub(crate) period: Duration,
}

/// One bridge with its live tasks.
struct Held {
    over: Over,
    live: usize,
    stage: Stage,
}

/// The usage and the counters at one moment.
struct Reading {
    at: Instant,
    used: Used,
    calls: u64,
    queries: u64,
}

/// Measures bridges over each of these stores.
pub(crate) async fn growth(plan: &Plan, places: &Places, over: &[Over]) -> Result<()> {
    let mut held = Vec::new();
    for over in over {
        for live in &plan.live {
            let name = format!("growth-{}-{live}", over.name());
            let stage = Stage::bridges(places, &name, *over, true).await?;
            Load::new(places, &stage, Generation::V2025, Work::Create, 16, *live).await?;
            held.push(Held { over: *over, live: *live, stage });
        }
    }
    // All bridges at once: each has its own CPU figure, and one after another would take long.
    tokio::time::sleep(plan.age).await;
    let mut before = Vec::new();
    for one in &mut held {
        before.push(one.read().await?);
    }
    tokio::time::sleep(plan.period).await;
    println!(
        "\n{:<8}{:>10}{:>14}{:>10}{:>18}{:>19}{:>10}",
        "store", "live", "bridge % CPU", "db %", "engine calls/min", "store queries/min", "MB"
    );
    for (one, before) in held.iter_mut().zip(before) {
        let after = one.read().await?;
        let passed = after.at - before.at;
        let used = after.used - before.used;
        let percent = |ns: u64| 100.0 * ns as f64 / passed.as_nanos() as f64;
        let a_minute = |count: u64| count as f64 * 60.0 / passed.as_secs_f64();
        println!(
            "{:<8}{:>10}{:>14.2}{:>10.2}{:>18.0}{:>19.0}{:>10.1}",
            one.over.name(),
            one.live,
            percent(used.servers),
            percent(used.database),
            a_minute(after.calls - before.calls),
            a_minute(after.queries - before.queries),
            mb(one.stage.memory_kib()?),
        );
    }
    Ok(())
}

impl Held {
    async fn read(&mut self) -> Result<Reading> {
        let (calls, queries) = self.stage.servers[0].calls()?;
        // A database has its own counter.
        let queries = match &self.stage.database {
            Some(database) => database.transactions().await?,
            None => queries,
        };
        Ok(Reading { at: Instant::now(), used: self.stage.used()?, calls, queries })
    }
}
