//! What a good client feels of a thousand bad ones: the latency of its `tasks/get` while it is alone and while they are there,
//! in one run, by turns. README.md, beside this file, says how to read it.
//!
//! `cargo bench --bench hostile`. A run without `--bench`, as `cargo test --benches` makes it, only tries everything out.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

#[allow(dead_code, unused_imports, reason = "it needs less of it than the other benchmark")]
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use support::Result;
use support::client::Connection;
use support::crowd::{self, READY, THERE};
use support::place::Places;
use support::server::{Server, Shared};
use support::wire::{self, Generation};

/// Bad clients.
const MANY: usize = 1_000;
/// How often the good one asks.
const ASKS_EVERY: Duration = Duration::from_millis(5);
/// What the p99 under them is to stay below, in times of what it is without.
const AIM: f64 = 5.0;

/// The other process, which goes away with this.
struct Crowd {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Crowd {
    fn gather(address: SocketAddr, many: usize) -> Result<Self> {
        // The good client is to be scheduled like one on a machine of its own.
        let mut command = Command::new("nice");
        command.arg("-n").arg("10").arg(std::env::current_exe()?);
        command.arg("crowd").arg(address.to_string()).arg(many.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let says = BufReader::new(process.stdout.take().ok_or("the crowd has no output")?);
        let mut crowd = Self { process, says };
        if crowd.line()? == READY { Ok(crowd) } else { Err("the crowd did not come together".into()) }
    }

    /// How many connections it holds now.
    fn held(&mut self) -> Result<usize> {
        let asks = self.process.stdin.as_mut().ok_or("the crowd has no input")?;
        writeln!(asks)?;
        Ok(self.line()?.parse()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Polls a task for a while; how long each poll took.
async fn polls(connection: &mut Connection, task: &str, period: Duration) -> Result<Vec<Duration>> {
    let (mut all, since) = (Vec::new(), Instant::now());
    while since.elapsed() < period {
        let request = wire::get(Generation::V2025, connection.id(), task);
        let asked = Instant::now();
        connection.call(&request).await?;
        all.push(asked.elapsed());
        tokio::time::sleep(ASKS_EVERY).await;
    }
    Ok(all)
}

fn percentile(all: &mut [Duration], of_hundred: f64) -> f64 {
    all.sort_unstable();
    let at = ((all.len() as f64 * of_hundred / 100.0) as usize).min(all.len().saturating_sub(1));
    all.get(at).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
}

async fn measure(rounds: usize, period: Duration, many: usize) -> Result<()> {
    let places = Places::find()?;
    let server = Server::bridge(&places, "hostile", Shared::default(), false)?;
    let mut good = Connection::open(server.address, Generation::V2025).await?;
    let id = good.id();
    let call = wire::create(Generation::V2025, id, 3_600_000);
    let task = wire::task_id(good.call(&call).await?)?.to_owned();
    polls(&mut good, &task, period / 4).await?;
    let (mut quiet, mut amid, mut fewest) = (Vec::new(), Vec::new(), many);
    for _ in 0..rounds {
        quiet.extend(polls(&mut good, &task, period).await?);
        let mut crowd = Crowd::gather(server.address, many)?;
        // Once they all do what they do.
        tokio::time::sleep(period / 4).await;
        amid.extend(polls(&mut good, &task, period).await?);
        let held = crowd.held()?;
        fewest = fewest.min(held);
        // Else what was measured is a good client nearly alone.
        if held * 100 < many * THERE {
            return Err(format!(
                "only {held} of {many} hostile connections were there at the end of a round"
            )
            .into());
        }
        drop(crowd);
        tokio::time::sleep(period / 4).await;
    }
    println!("tasks/get of one client that asks every {ASKS_EVERY:?}, in milliseconds:\n");
    println!("| | polls | p50 | p99 | p99.9 |\n|---|---|---|---|---|");
    let (mut p99, mut rows) = (Vec::new(), Vec::new());
    for (what, all) in [("alone", &mut quiet), ("amid hostile connections", &mut amid)] {
        let [half, most, nearly] = [50.0, 99.0, 99.9].map(|of_hundred| percentile(all, of_hundred));
        p99.push(most);
        rows.push(format!("| {what} | {} | {half:.3} | {most:.3} | {nearly:.3} |", all.len()));
    }
    println!("{}\n", rows.join("\n"));
    let ratio = p99[1] / p99[0];
    println!(
        "{many} hostile connections, {fewest} or more of them held at the end of each round: p99 is {ratio:.1} times what it is \
         without (aim: below {AIM})"
    );
    Ok(())
}

fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

fn main() -> Result<()> {
    raise_file_limit()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address, many] = arguments.as_slice()
        && word == "crowd"
    {
        return runtime.block_on(crowd::run(address.parse()?, many.parse()?));
    }
    match arguments.iter().any(|argument| argument == "--bench") {
        true => runtime.block_on(measure(4, Duration::from_secs(8), MANY)),
        false => runtime.block_on(measure(1, Duration::from_millis(200), 20)),
    }
}
