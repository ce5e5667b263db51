//! The footprint of a bridge: memory when idle, per session, per waiting client, per stream and per live
//! task, and the time until it listens.

use std::time::Duration;

use super::Result;
use super::client::Connection;
use super::load::{Load, Work};
use super::place::Places;
use super::stage::{Over, Stage};
use super::wire::{self, Generation};

/// What to measure.
pub(crate) struct Plan {
    pub(crate) sessions: usize,
    /// Number of waiting clients and of listeners, each with its own connection.
    pub(crate) open: usize,
    /// The two numbers of live tasks whose memory is compared.
    pub(crate) live: (usize, usize),
    /// Number of starts for the median.
    pub(crate) starts: usize,
    /// The wait before memory is read.
    pub(crate) settle: Duration,
}

/// Measures everything, on one bridge over a file.
pub(crate) async fn held(plan: &Plan, places: &Places) -> Result<()> {
    let mut stage = Stage::bridges(places, "held", Over::Sqlite, false).await?;
    println!("\nstart, empty            {:>8.1} ms until it listens", started(plan, places, &mut stage)?);
    let idle = stage.memory_kib()?;
    println!("idle process            {:>8.1} MB", mb(idle));

    let address = stage.addresses()[0];
    let mut connection = Connection::open(address, Generation::V2025).await?;
    let before = stage.memory_kib()?;
    for _ in 0..plan.sessions {
        connection.begin_session().await?;
    }
    tell(plan.sessions, "idle sessions", before, &stage)?;

    let mut load = Load::new(places, &stage, Generation::V2025, Work::Create, 16, 0).await?;
    let task = load.make(1).await?.concat();
    let mut open = Vec::new();
    let before = stage.memory_kib()?;
    for _ in 0..plan.open {
        let mut connection = Connection::open(address, Generation::V2025).await?;
        connection.send(&wire::result(1, &task)).await?;
        open.push(connection);
    }
    tokio::time::sleep(plan.settle).await;
    tell(plan.open, "waiting clients", before, &stage)?;
    let before = stage.memory_kib()?;
    for _ in 0..plan.open {
        let mut connection = Connection::open(address, Generation::V2025).await?;
        connection.listen().await?;
        open.push(connection);
    }
    tokio::time::sleep(plan.settle).await;
    tell(plan.open, "listening streams", before, &stage)?;
    drop((open, load));

    started(plan, places, &mut stage)?;
    let mut load = Load::new(places, &stage, Generation::V2025, Work::Create, 16, 0).await?;
    let (few, many) = plan.live;
    load.make(few).await?;
    tokio::time::sleep(plan.settle).await;
    let before = stage.memory_kib()?;
    load.make(many - few).await?;
    tokio::time::sleep(plan.settle).await;
    tell(many - few, "live tasks", before, &stage)?;
    println!("start, {many:>6} tasks    {:>8.1} ms until it listens", started(plan, places, &mut stage)?);
    Ok(())
}

fn tell(count: usize, what: &str, before: u64, stage: &Stage) -> Result<()> {
    let grown = stage.memory_kib()?.saturating_sub(before);
    println!("{count:>6} {what:<17}{:>8.2} KiB each", grown as f64 / count as f64);
    Ok(())
}

/// Returns the median time until it listens, in milliseconds.
fn started(plan: &Plan, places: &Places, stage: &mut Stage) -> Result<f64> {
    let server = stage.servers.first_mut().ok_or("a stage without a server")?;
    let mut took = Vec::new();
    for _ in 0..plan.starts {
        took.push(server.restart(places)?);
    }
    took.sort_unstable();
    Ok(took[took.len() / 2].as_secs_f64() * 1000.0)
}

pub(crate) fn mb(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}
