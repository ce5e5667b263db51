//! Benchmark of the bridge's overhead: the real server with a real database is compared with a bare axum
//! server that returns constants, in one run. README.md, next to this file, explains the tables.
//!
//! `cargo bench --bench bridge [-- WORD...]`: the words select among `create`, `get`, `wait`, `life`,
//! `floor`, `memory` and `growth`, among `2025-11-25` and `2026-07-28`, and among `sqlite` and `postgres`. A
//! run without `--bench`, as in `cargo test --benches`, only tries everything out and prints meaningless
//! numbers.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

mod support;

use std::time::Duration;

use support::Result;
use support::client::Connection;
use support::database::Database;
use support::echo::{self, Sizes};
use support::load::{self, Load, Work};
use support::place::Places;
use support::report::{self, Cell};
use support::server::{Server, Shared};
use support::stage::{Over, Stage};
use support::wire::{self, Generation};
use support::{growth, held};

/// Number of live tasks that `get` polls in turn.
const POLLED: usize = 256;

/// The rows: the name of each, its work, and the upper limit of its ratio on SQLite.
const ROWS: [(&str, Work, Option<f64>); 4] = [
    ("create", Work::Create, Some(5.0)),
    ("get", Work::Get, Some(2.0)),
    ("wait", Work::Wait, None),
    ("life", Work::Life, Some(10.0)),
];

/// The amount of work.
struct Plan {
    rounds: usize,
    /// How long each server works per round.
    slice: Duration,
    /// How long each server works before the measurement.
    warm_up: Duration,
    held: held::Plan,
    growth: growth::Plan,
}

/// The words of the command line.
struct Words {
    rows: Vec<String>,
    revisions: Vec<String>,
    stores: Vec<String>,
}

impl Plan {
    fn full() -> Self {
        let live = vec![1_000, 10_000, 100_000];
        let (age, period) = (Duration::from_secs(300), Duration::from_secs(60));
        let settle = Duration::from_secs(5);
        Self {
            rounds: 8,
            slice: Duration::from_millis(700),
            warm_up: Duration::from_millis(500),
            held: held::Plan { sessions: 1_000, open: 1_000, live: (2_000, 12_000), starts: 9, settle },
            growth: growth::Plan { live, age, period },
        }
    }

    fn trial() -> Self {
        let moment = Duration::from_millis(20);
        Self {
            rounds: 1,
            slice: moment,
            warm_up: moment,
            held: held::Plan { sessions: 10, open: 10, live: (20, 40), starts: 1, settle: moment },
            growth: growth::Plan { live: vec![10], age: moment, period: moment },
        }
    }
}

impl Words {
    fn of(arguments: &[String]) -> Self {
        let words = arguments.iter().filter(|word| !word.starts_with('-')).cloned();
        let is_revision = |word: &String| Generation::ALL.iter().any(|known| known.revision() == word);
        let (revisions, words): (Vec<_>, Vec<_>) = words.partition(is_revision);
        let (stores, rows) = words.into_iter().partition(|word| word == "sqlite" || word == "postgres");
        Self { rows, revisions, stores }
    }

    fn want(among: &[String], word: &str) -> bool {
        among.is_empty() || among.iter().any(|wanted| wanted == word)
    }

    /// Returns the selected stores that are available.
    fn stores(&self) -> Result<Vec<Over>> {
        let mut stores = Vec::new();
        if Self::want(&self.stores, "sqlite") {
            stores.push(Over::Sqlite);
        }
        if Self::want(&self.stores, "postgres") {
            if Database::is_there() {
                stores.extend([Over::Postgres(1), Over::Postgres(3)]);
            } else if self.stores.is_empty() {
                println!("there is no PostgreSQL server on this machine: its rows are left out\n");
            } else {
                return Err("there is no PostgreSQL server (initdb, postgres) on this machine".into());
            }
        }
        Ok(stores)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, rest @ ..] = arguments.as_slice()
        && mode == "echo"
    {
        return echo::run(rest);
    }
    let plan = if arguments.iter().any(|word| word == "--bench") { Plan::full() } else { Plan::trial() };
    let words = Words::of(&arguments);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&plan, &words))
}

async fn run(plan: &Plan, words: &Words) -> Result<()> {
    let places = Places::find()?;
    let stores = words.stores()?;
    if !places.apart {
        println!(
            "there is one CPU only: the client runs on that of the servers, and throughput says little\n"
        );
    }
    println!(
        "CPU of the server in microseconds per operation; the ratio is to one request of the bare server\n"
    );
    println!("{}", report::head());
    for generation in Generation::ALL {
        if !Words::want(&words.revisions, generation.revision()) {
            continue;
        }
        if Words::want(&words.rows, "floor") && generation == Generation::V2025 {
            floor(plan, &places).await?;
        }
        for (name, work, aim) in ROWS {
            if !Words::want(&words.rows, name) || !work.is_of(generation) {
                continue;
            }
            for over in &stores {
                let aim = aim.filter(|_| *over == Over::Sqlite);
                rows(plan, &places, generation, (name, work, aim), *over).await?;
            }
        }
    }
    if Words::want(&words.rows, "memory") {
        held::held(&plan.held, &places).await?;
    }
    if Words::want(&words.rows, "growth") {
        let alone = stores.into_iter().filter(|over| *over != Over::Postgres(3)).collect::<Vec<_>>();
        growth::growth(&plan.growth, &places, &alone).await?;
    }
    Ok(())
}

/// Prints the lines of one operation over one store.
async fn rows(
    plan: &Plan,
    places: &Places,
    generation: Generation,
    (name, work, aim): (&'static str, Work, Option<f64>),
    over: Over,
) -> Result<()> {
    let clients: &[usize] = match over {
        Over::Sqlite => &[1, 16],
        // A database sees no difference between the generations.
        Over::Postgres(_) if generation == Generation::V2025 => &[16],
        Over::Postgres(_) => &[],
    };
    if clients.is_empty() {
        return Ok(());
    }
    let sizes = sizes(places, generation, work).await?;
    for clients in clients {
        let cell = Cell::new(generation, name, Some(over), *clients, work.requests(generation), aim);
        let bridges = Stage::bridges(places, "cell", over, false).await?;
        println!(
            "{}",
            measure(plan, places, sizes, cell, bridges, (generation, work, *clients)).await?.line()
        );
    }
    Ok(())
}

/// Prints the lines of the bare server that stores a row per call.
async fn floor(plan: &Plan, places: &Places) -> Result<()> {
    let generation = Generation::V2025;
    let sizes = sizes(places, generation, Work::Create).await?;
    for clients in [1, 16] {
        let cell = Cell::new(generation, "floor", None, clients, 1.0, None);
        let keeps = Stage::bare(Server::echo(places, "durable", sizes, true)?);
        let work = (generation, Work::Create, clients);
        println!("{}", measure(plan, places, sizes, cell, keeps, work).await?.line());
    }
    Ok(())
}

/// Measures the lengths of the bridge's responses by one request each.
async fn sizes(places: &Places, generation: Generation, work: Work) -> Result<Sizes> {
    let server = Server::bridge(places, "sizes", Shared::default(), false)?;
    let mut connection = Connection::open(server.address, generation).await?;
    let delay = match work {
        Work::Create | Work::Get => wire::LONG,
        Work::Wait => wire::SHORT,
        Work::Life => 0,
    };
    let call = wire::create(generation, connection.id(), delay);
    let answer = connection.call(&call).await?;
    let (create, task) = (answer.len(), wire::task_id(answer)?.to_owned());
    let get = match (work, generation) {
        (Work::Life, Generation::V2026) => load::completed(&mut connection, &task).await?,
        _ => connection.call(&wire::get(generation, 2, &task)).await?.len(),
    };
    let result = match (work, generation) {
        (Work::Life | Work::Wait, Generation::V2025) => connection.call(&wire::result(3, &task)).await?.len(),
        _ => 0,
    };
    Ok(Sizes { create, get, result })
}

/// Measures one line of the table, with its own servers.
async fn measure(
    plan: &Plan,
    places: &Places,
    sizes: Sizes,
    mut cell: Cell,
    mut measured: Stage,
    (generation, work, clients): (Generation, Work, usize),
) -> Result<Cell> {
    let live = if work == Work::Get { POLLED } else { 0 };
    let mut echo = Stage::bare(Server::echo(places, "cell", sizes, false)?);
    let mut on_echo = Load::new(places, &echo, generation, work, clients, live).await?;
    let mut on_measured = Load::new(places, &measured, generation, work, clients, live).await?;
    on_echo.run(&mut echo, plan.warm_up).await?;
    on_measured.run(&mut measured, plan.warm_up).await?;
    for round in 0..plan.rounds {
        // Each server goes first equally often.
        if round % 2 == 0 {
            let of_echo = on_echo.run(&mut echo, plan.slice).await?;
            cell.add(&of_echo, on_measured.run(&mut measured, plan.slice).await?);
        } else {
            let of_measured = on_measured.run(&mut measured, plan.slice).await?;
            cell.add(&on_echo.run(&mut echo, plan.slice).await?, of_measured);
        }
    }
    Ok(cell)
}
