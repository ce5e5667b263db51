//! The table. A ratio is taken within each round, where both servers ran within a second of each other, and the median
//! round stands in the table: what else the machine did meanwhile drops out.

use std::time::Duration;

use super::load::Measured;
use super::wire::Generation;

/// One line of the table while it is gathered.
pub(crate) struct Cell {
    generation: Generation,
    name: &'static str,
    connections: usize,
    /// Requests in one operation: the ratio is to one request of the bare server.
    requests: f64,
    aim: f64,
    rounds: Vec<Round>,
    bridge: Measured,
}

struct Round {
    bridge_us: f64,
    echo_us: f64,
    echo_per_second: f64,
}

impl Cell {
    /// A line for an operation of so many requests, with the ratio that is aimed for.
    pub(crate) fn new(
        generation: Generation,
        name: &'static str,
        connections: usize,
        requests: f64,
        aim: f64,
    ) -> Self {
        Self { generation, name, connections, requests, aim, rounds: Vec::new(), bridge: Measured::default() }
    }

    /// Adds one round.
    pub(crate) fn add(&mut self, echo: &Measured, bridge: Measured) {
        self.rounds.push(Round {
            bridge_us: bridge.cpu_us(),
            echo_us: echo.cpu_us() / self.requests,
            echo_per_second: echo.per_second(),
        });
        self.bridge.add(bridge);
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut all: Vec<f64> = self.rounds.iter().map(of).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The finished line.
    pub(crate) fn line(&self) -> String {
        let ratio = self.median(|round| round.bridge_us / round.echo_us);
        let latency = |of_a_thousand| millis(self.bridge.within(of_a_thousand));
        format!(
            "{:<12}{:<8}{:>6}{:>12.1}{:>11.1}{:>9.2}{:>7}{:>5}{:>11.0}{:>11.0}{:>9}{:>9}{:>9}",
            self.generation.revision(),
            self.name,
            self.connections,
            self.median(|round| round.bridge_us),
            self.median(|round| round.echo_us),
            ratio,
            format!("<= {:.0}", self.aim),
            if ratio <= self.aim { "" } else { "over" },
            self.bridge.per_second(),
            self.median(|round| round.echo_per_second),
            latency(500),
            latency(990),
            latency(999),
        )
    }
}

/// The head of the table.
pub(crate) fn head() -> String {
    let columns = format!(
        "{:<12}{:<8}{:>6}{:>12}{:>11}{:>9}{:>7}{:>5}{:>11}{:>11}{:>9}{:>9}{:>9}",
        "",
        "",
        "conns",
        "bridge us",
        "echo us",
        "ratio",
        "aim",
        "",
        "bridge/s",
        "echo/s",
        "p50 ms",
        "p99",
        "p99.9"
    );
    format!("{columns}\n{}", "-".repeat(columns.len()))
}

fn millis(latency: Duration) -> String {
    format!("{:.2}", latency.as_secs_f64() * 1000.0)
}
