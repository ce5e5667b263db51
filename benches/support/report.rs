//! The table. A ratio is computed within each round, in which both servers ran within a second of each
//! other. The table has the median round, which removes other load on the machine.

use std::time::Duration;

use super::load::Measured;
use super::stage::Over;
use super::wire::Generation;

/// One line of the table during the measurement.
pub(crate) struct Cell {
    generation: Generation,
    name: &'static str,
    over: Option<Over>,
    connections: usize,
    /// Requests per operation: the ratio is to one request of the bare server.
    requests: f64,
    aim: Option<f64>,
    rounds: Vec<Round>,
    bridge: Measured,
}

struct Round {
    bridge_us: f64,
    database_us: f64,
    echo_us: f64,
    echo_per_second: f64,
}

impl Cell {
    /// Creates a line for an operation with this number of requests, and optionally a target ratio. The line
    /// is of bridges over a store, or of the bare server that stores rows.
    pub(crate) fn new(
        generation: Generation,
        name: &'static str,
        over: Option<Over>,
        connections: usize,
        requests: f64,
        aim: Option<f64>,
    ) -> Self {
        let (rounds, bridge) = (Vec::new(), Measured::default());
        Self { generation, name, over, connections, requests, aim, rounds, bridge }
    }

    /// Adds one round.
    pub(crate) fn add(&mut self, echo: &Measured, bridge: Measured) {
        self.rounds.push(Round {
            bridge_us: bridge.cpu_us(),
            database_us: bridge.database_us(),
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

    /// Returns the finished line.
    pub(crate) fn line(&self) -> String {
        let ratio = self.median(|round| round.bridge_us / round.echo_us);
        let latency = |of_a_thousand| millis(self.bridge.within(of_a_thousand));
        let over = self.over.map_or_else(|| "bare".to_owned(), Over::name);
        let database = match self.over {
            Some(Over::Postgres(_)) => format!("{:.1}", self.median(|round| round.database_us)),
            _ => String::new(),
        };
        row([
            self.generation.revision(),
            self.name,
            &over,
            &self.connections.to_string(),
            &format!("{:.1}", self.median(|round| round.bridge_us)),
            &database,
            &format!("{:.1}", self.median(|round| round.echo_us)),
            &format!("{ratio:.2}"),
            &self.aim.map(|aim| format!("<= {aim:.0}")).unwrap_or_default(),
            if self.aim.is_some_and(|aim| ratio > aim) { "over" } else { "" },
            &format!("{:.0}", self.bridge.per_second()),
            &format!("{:.0}", self.median(|round| round.echo_per_second)),
            &latency(500),
            &latency(990),
            &latency(999),
        ])
    }
}

/// Returns the head of the table.
pub(crate) fn head() -> String {
    let columns = row([
        "",
        "",
        "store",
        "conns",
        "bridge us",
        "db us",
        "echo us",
        "ratio",
        "aim",
        "",
        "bridge/s",
        "echo/s",
        "p50 ms",
        "p99",
        "p99.9",
    ]);
    format!("{columns}\n{}", "-".repeat(columns.len()))
}

fn row(cells: [&str; 15]) -> String {
    let [revision, name, store, numbers @ ..] = cells;
    let widths = [6, 11, 9, 9, 8, 6, 5, 10, 9, 9, 9, 9];
    let numbers = numbers.iter().zip(widths).map(|(number, width)| format!("{number:>width$}"));
    format!("{revision:<12}{name:<8}{store:<8}{}", numbers.collect::<String>())
}

fn millis(latency: Duration) -> String {
    format!("{:.2}", latency.as_secs_f64() * 1000.0)
}
