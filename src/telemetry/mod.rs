//! What the server says about its own work: lines on standard error, never on standard output, which can belong to
//! the protocol; and spans to a collector, if the config names one ([`spans`], [`export`]).

mod export;
mod lines;
mod spans;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::mpsc;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use self::lines::Lines;
use self::spans::Spans;
use crate::config::{Log, LogFormat, Traces};
use crate::trace::TARGET;

pub(crate) use self::export::Exporter;

/// Spans that can wait to be sent.
const WAITING: usize = 8_192;

/// Begins to write log lines, and to keep spans if they are to be sent: what comes back sends them. `filter` wins over the
/// config's.
///
/// # Errors
/// If the filter cannot be understood, or nothing can be sent as the config says.
pub(crate) fn begin(
    log: &Log,
    filter: Option<&str>,
    traces: Option<&Traces>,
) -> Result<Option<Exporter>, String> {
    let text = filter.unwrap_or(&log.filter);
    let filter = EnvFilter::try_new(text).map_err(|error| format!("the log filter \"{text}\": {error}"))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // To say that nothing can be said would be a panic where standard error is gone.
    let lines = lines.log_internal_errors(false);
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(Lines::default()).boxed(),
    };
    let (closed, to_send) = mpsc::channel(WAITING);
    let lost = Arc::<AtomicU64>::default();
    let exporter = traces.map(|traces| Exporter::new(traces, to_send, Arc::clone(&lost))).transpose()?;
    let spans = traces.map(|traces| {
        let ours = filter_fn(|line| line.is_span() && line.target() == TARGET);
        Spans::new(closed, lost, traces.sample).with_filter(ours)
    });
    let lines = lines.with_filter(filter.and(filter_fn(says_no_secret)));
    // It fails only where lines are written already, as in a program that embeds this one.
    let _ = tracing_subscriber::registry().with(spans).with(lines).try_init();
    Ok(exporter)
}

/// False for what can quote a secret, whatever the filter asks for. AWS's libraries write the id of the key that they found,
/// and below that whole requests with the tokens of questions. Their warnings print whole answers of the metadata service,
/// and the adapter reports the same in one line.
fn says_no_secret(line: &Metadata<'_>) -> bool {
    !line.target().starts_with("aws_") || *line.level() <= Level::ERROR
}
