//! Benchmark of one well-behaved client amid a thousand hostile ones: the latency of its `tasks/get` alone
//! and under attack, by turns in one run. README.md, next to this file, explains the table.
//!
//! `cargo bench --bench hostile`. A run without `--bench`, as in `cargo test --benches`, only tries
//! everything out.
#![allow(clippy::print_stdout, reason = "it is a program that prints a table")]

#[allow(dead_code, reason = "their tools are named by number")]
mod bombs;
#[allow(dead_code, unused_imports, reason = "it needs less of it than the other benchmark")]
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use bombs::{Bomb, bombs};

use support::Result;
use support::client::Connection;
use support::crowd::{self, READY, THERE};
use support::place::Places;
use support::server::{Server, Shared};
use support::wire::{self, Generation, Request};
use taskbridge::catalog::Schema;

/// Number of hostile clients.
const MANY: usize = 1_000;
/// Polling interval of the well-behaved client.
const ASKS_EVERY: Duration = Duration::from_millis(5);
/// Upper limit of the p99 under attack, as a multiple of the p99 without.
const AIM: f64 = 5.0;

/// The process of the hostile clients, which is killed on drop.
struct Crowd {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Crowd {
    fn gather(address: SocketAddr, many: usize) -> Result<Self> {
        // The well-behaved client should be scheduled as if it ran on its own machine.
        let mut command = Command::new("nice");
        command.arg("-n").arg("10").arg(std::env::current_exe()?);
        command.arg("crowd").arg(address.to_string()).arg(many.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let says = BufReader::new(process.stdout.take().ok_or("the crowd has no output")?);
        let mut crowd = Self { process, says };
        if crowd.line()? == READY { Ok(crowd) } else { Err("the crowd did not come together".into()) }
    }

    /// Returns the number of its open connections, and the number of slow calls that were answered.
    fn count(&mut self) -> Result<(usize, usize)> {
        let asks = self.process.stdin.as_mut().ok_or("the crowd has no input")?;
        writeln!(asks)?;
        let line = self.line()?;
        let (held, answered) = line.split_once(' ').ok_or("the crowd does not say what it did")?;
        Ok((held.parse()?, answered.parse()?))
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

/// Returns the bombs whose schemas fit into a config, with their numbers.
fn placed() -> impl Iterator<Item = (usize, Bomb)> {
    // The TOML parser has a lower depth limit than the JSON parser.
    let is_toml =
        |bomb: &Bomb| toml::to_string(&bomb.schema).is_ok_and(|text| text.parse::<toml::Table>().is_ok());
    let fits = move |bomb: &Bomb| is_toml(bomb) && Schema::compile(bomb.schema.clone()).is_ok();
    bombs().into_iter().enumerate().filter(move |(_, bomb)| fits(bomb))
}

/// Returns the config of one tool per bomb.
fn tools() -> Result<String> {
    let tool = |(n, bomb): (usize, Bomb)| {
        (format!("bomb_{n}"), json!({"backend": "sim", "target": {}, "input_schema": bomb.schema}))
    };
    let tools: serde_json::Map<_, _> = placed().map(tool).collect();
    Ok(format!("\n{}", toml::to_string(&json!({ "tools": tools }))?))
}

/// Returns one call per bomb.
fn calls() -> Vec<Request> {
    let call = |(n, bomb): (usize, Bomb)| {
        let name = format!("bomb_{n}");
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": bomb.value},
        });
        Request { generation: Generation::V2025, method: "tools/call", name, body: body.to_string() }
    };
    placed().map(call).collect()
}

/// Polls a task for a while, and returns the duration of each poll.
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
    let more = tools()?;
    let server = Server::bridge(&places, "hostile", Shared { more: &more, ..Shared::default() }, false)?;
    let mut good = Connection::open(server.address, Generation::V2025).await?;
    let id = good.id();
    let call = wire::create(Generation::V2025, id, 3_600_000);
    let task = wire::task_id(good.call(&call).await?)?.to_owned();
    polls(&mut good, &task, period / 4).await?;
    let (mut quiet, mut amid, mut fewest, mut calls) = (Vec::new(), Vec::new(), many, 0);
    for _ in 0..rounds {
        quiet.extend(polls(&mut good, &task, period).await?);
        let mut crowd = Crowd::gather(server.address, many)?;
        // Once all of them are active.
        tokio::time::sleep(period / 4).await;
        amid.extend(polls(&mut good, &task, period).await?);
        let (held, answered) = crowd.count()?;
        (fewest, calls) = (fewest.min(held), calls + answered);
        // Otherwise the measured client would have been nearly alone.
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
        "{many} hostile connections, {fewest} or more of them held at the end of each round, and {calls} slow calls answered in \
         {} s: p99 is {ratio:.1} times what it is without (aim: below {AIM})",
        (period * 5 / 4 * u32::try_from(rounds)?).as_secs()
    );
    Ok(())
}

fn raise_file_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Returns once the process is asked to end: the server and the hostile clients must not outlive it.
async fn stopped() -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    Err("stopped by a signal".into())
}

fn main() -> Result<()> {
    raise_file_limit()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address, many] = arguments.as_slice()
        && word == "crowd"
    {
        return runtime.block_on(crowd::run(address.parse()?, many.parse()?, &calls()));
    }
    let (rounds, period, many) = match arguments.iter().any(|argument| argument == "--bench") {
        true => (4, Duration::from_secs(8), MANY),
        false => (1, Duration::from_millis(200), 20),
    };
    runtime.block_on(async {
        tokio::select! {
            measured = measure(rounds, period, many) => measured,
            stopped = stopped() => stopped,
        }
    })
}
