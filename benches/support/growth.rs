//! What live tasks cost while nobody asks anything: CPU of the bridge and of the database, calls to the engine and queries
//! to the store in a minute, memory; and how that grows with their number.

use std::time::{Duration, Instant};

use super::Result;
use super::held::mb;
use super::load::{Load, Work};
use super::place::Places;
use super::stage::{Over, Stage, Used};
use super::wire::Generation;

/// How much is looked at.
pub(crate) struct Plan {
    /// So many live tasks, each number in a bridge of its own.
    pub(crate) live: Vec<usize>,
    /// How long after the last was made: young jobs are looked at more often than old ones.
    pub(crate) age: Duration,
    /// How long they are looked at.
    pub(crate) period: Duration,
}

/// One bridge with its live tasks.
struct Held {
    over: Over,
    live: usize,
    stage: Stage,
}

/// What it had used and done at a moment.
struct Reading {
    at: Instant,
    used: Used,
    calls: u64,
    queries: u64,
}

/// Measures bridges over each of these.
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
    // All at once: each is told by its own CPU, and it would take long one after another.
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
        // A database counts for itself.
        let queries = match &self.stage.database {
            Some(database) => database.transactions().await?,
            None => queries,
        };
        Ok(Reading { at: Instant::now(), used: self.stage.used()?, calls, queries })
    }
}
