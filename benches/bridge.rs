//! What the bridge costs: the real server with a real database beside a bare axum server that answers constants, in one
//! run. README.md, beside this file, says how to read the table.
//!
//! `cargo bench --bench bridge [-- WORD...]`: the words choose among `create`, `get`, `life` and `memory`, and among
//! `2025-11-25` and `2026-07-28`. A run without `--bench`, as `cargo test --benches` makes it, only tries everything out
//! and prints numbers that mean nothing.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

mod support;

use std::time::Duration;

use support::Result;
use support::client::Connection;
use support::echo::{self, Sizes};
use support::load::{self, Load, Work};
use support::place::Places;
use support::report::{self, Cell};
use support::server::Server;
use support::wire::{self, Generation};

/// Live tasks that `get` polls in turn.
const POLLED: usize = 256;

/// The rows: the word that chooses one, and what its ratio is to stay below.
const ROWS: [(&str, Work, f64); 3] =
    [("create", Work::Create, 5.0), ("get", Work::Get, 2.0), ("life", Work::Life, 10.0)];

/// How much is done.
struct Plan {
    rounds: usize,
    /// How long each server works in a round.
    slice: Duration,
    /// How long each works before anything counts.
    warm_up: Duration,
    /// Live tasks between whose numbers memory is compared.
    live: (usize, usize),
    sessions: usize,
    /// How long an idle server is looked at.
    idle: Duration,
}

impl Plan {
    fn full() -> Self {
        let (slice, warm_up) = (Duration::from_millis(700), Duration::from_millis(500));
        Self {
            rounds: 8,
            slice,
            warm_up,
            live: (2_000, 12_000),
            sessions: 1_000,
            idle: Duration::from_secs(5),
        }
    }

    fn trial() -> Self {
        let moment = Duration::from_millis(20);
        Self { rounds: 1, slice: moment, warm_up: moment, live: (20, 40), sessions: 10, idle: moment }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, sizes @ ..] = arguments.as_slice()
        && mode == "echo"
    {
        return echo::run(sizes);
    }
    let plan = if arguments.iter().any(|word| word == "--bench") { Plan::full() } else { Plan::trial() };
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&plan, &words))
}

async fn run(plan: &Plan, words: &[&str]) -> Result<()> {
    let revisions = Generation::ALL.map(Generation::revision);
    let (of_revisions, of_rows): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| revisions.contains(word));
    let wanted = |among: &[&str], word: &str| among.is_empty() || among.contains(&word);
    let places = Places::find()?;
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
        for (name, work, aim) in ROWS {
            if !wanted(&of_revisions, generation.revision()) || !wanted(&of_rows, name) {
                continue;
            }
            let sizes = sizes(&places, generation, work).await?;
            for connections in [1, 16] {
                let cell = Cell::new(generation, name, connections, work.requests(generation), aim);
                let cell = measure(plan, &places, sizes, cell, generation, work, connections).await?;
                println!("{}", cell.line());
            }
        }
    }
    if wanted(&of_rows, "memory") {
        memory(plan, &places).await?;
    }
    Ok(())
}

/// How long the bridge's answers are, asked once.
async fn sizes(places: &Places, generation: Generation, work: Work) -> Result<Sizes> {
    let server = Server::bridge(places, "sizes")?;
    let mut connection = Connection::open(server.address, generation).await?;
    let call = wire::create(generation, connection.id(), if work == Work::Life { 0 } else { wire::LONG });
    let answer = connection.call(&call).await?;
    let (create, task) = (answer.len(), wire::task_id(answer)?.to_owned());
    let get = match (work, generation) {
        (Work::Life, Generation::V2026) => load::completed(&mut connection, &task).await?,
        _ => connection.call(&wire::get(generation, 2, &task)).await?.len(),
    };
    let result = match (work, generation) {
        (Work::Life, Generation::V2025) => connection.call(&wire::result(3, &task)).await?.len(),
        _ => 0,
    };
    Ok(Sizes { create, get, result })
}

/// One line of the table, with servers of its own.
async fn measure(
    plan: &Plan,
    places: &Places,
    sizes: Sizes,
    mut cell: Cell,
    generation: Generation,
    work: Work,
    connections: usize,
) -> Result<Cell> {
    let live = if work == Work::Get { POLLED } else { 0 };
    let mut echo = Server::echo(places, "cell", sizes)?;
    let mut bridge = Server::bridge(places, "cell")?;
    let mut on_echo = Load::new(places, &echo, generation, work, connections, live).await?;
    let mut on_bridge = Load::new(places, &bridge, generation, work, connections, live).await?;
    on_echo.run(&mut echo, plan.warm_up).await?;
    on_bridge.run(&mut bridge, plan.warm_up).await?;
    for round in 0..plan.rounds {
        // Each goes first as often as the other.
        if round % 2 == 0 {
            let of_echo = on_echo.run(&mut echo, plan.slice).await?;
            cell.add(&of_echo, on_bridge.run(&mut bridge, plan.slice).await?);
        } else {
            let of_bridge = on_bridge.run(&mut bridge, plan.slice).await?;
            cell.add(&on_echo.run(&mut echo, plan.slice).await?, of_bridge);
        }
    }
    Ok(cell)
}

/// What live tasks and sessions take, and what a server costs that nobody asks anything.
async fn memory(plan: &Plan, places: &Places) -> Result<()> {
    let mut server = Server::bridge(places, "memory")?;
    let mut load = Load::new(places, &server, Generation::V2025, Work::Create, 16, 0).await?;
    let idle = server.meter.memory_kib()?;
    println!("\nidle process            {:>8.1} MB", mb(idle));

    let mut connection = Connection::open(server.address, Generation::V2025).await?;
    let before = server.meter.memory_kib()?;
    for _ in 0..plan.sessions {
        connection.begin_session().await?;
    }
    let sessions = server.meter.memory_kib()?.saturating_sub(before);
    println!(
        "{:>6} idle sessions    {:>8.2} KiB each",
        plan.sessions,
        sessions as f64 / plan.sessions as f64
    );

    let (few, many) = plan.live;
    load.make(few).await?;
    tokio::time::sleep(plan.idle).await;
    let with_few = server.meter.memory_kib()?;
    load.make(many - few).await?;
    tokio::time::sleep(plan.idle).await;
    let with_many = server.meter.memory_kib()?;
    let each = with_many.saturating_sub(with_few) as f64 / (many - few) as f64;
    println!("{many:>6} live tasks       {each:>8.2} KiB each (and {:.1} MB in all)", mb(with_many));

    let cpu = server.meter.cpu_ns()?;
    tokio::time::sleep(plan.idle).await;
    let used = Duration::from_nanos(server.meter.cpu_ns()? - cpu);
    let percent = 100.0 * used.as_secs_f64() / plan.idle.as_secs_f64();
    println!("       watching them    {percent:>8.2} % of a CPU");
    Ok(())
}

fn mb(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}
