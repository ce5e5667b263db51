//! Logging and tracing of the server itself. Log lines go to standard error, never to standard output, which
//! may belong to the protocol. Spans go to a collector, if one is configured ([`spans`], [`export`]).

mod export;
mod lines;
mod spans;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::mpsc;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use self::lines::JsonLineFormat;
use self::spans::Spans;
use crate::config::{Log, LogFormat, TraceExport};
use crate::trace::TARGET;

pub(crate) use self::export::Exporter;

/// Maximum number of closed spans in the export queue.
const QUEUE_CAPACITY: usize = 8_192;

/// Returns true if standard error is a terminal that shows colours, and `NO_COLOR` does not disable them.
fn has_colour() -> bool {
    !matches!(anstream::AutoStream::choice(&std::io::stderr()), anstream::ColorChoice::Never)
}

/// Installs the log writer, and the span recorder if spans are exported. Returns the exporter, which the
/// caller must run. `filter` overrides the config's filter.
///
/// # Errors
/// If the filter is invalid, or the export settings are invalid.
pub(crate) fn init(
    log: &Log,
    filter: Option<&str>,
    traces: Option<&TraceExport>,
) -> Result<Option<Exporter>, String> {
    let text = filter.unwrap_or(&log.filter);
    let filter = EnvFilter::try_new(text).map_err(|error| format!("the log filter \"{text}\": {error}"))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Reporting a failed write would panic if standard error is closed.
    let lines = lines.log_internal_errors(false);
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(has_colour()).boxed(),
        LogFormat::Json => {
            lines.fmt_fields(JsonFields::new()).event_format(JsonLineFormat::default()).boxed()
        }
    };
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let dropped_spans = Arc::<AtomicU64>::default();
    let exporter =
        traces.map(|traces| Exporter::new(traces, receiver, Arc::clone(&dropped_spans))).transpose()?;
    let spans = traces.map(|traces| {
        let own_spans = filter_fn(|line| line.is_span() && line.target() == TARGET);
        Spans::new(sender, dropped_spans, traces.sample).with_filter(own_spans)
    });
    let lines = lines.with_filter(filter.and(filter_fn(may_log)));
    // Fails only if a subscriber is already installed, as in a program that embeds this one.
    let _ = tracing_subscriber::registry().with(spans).with(lines).try_init();
    Ok(exporter)
}

/// Returns false for lines that may contain a secret, for any filter. The AWS libraries log the id of the key
/// that they found, and at lower levels whole requests with the tokens of questions. Their warnings contain
/// whole responses of the metadata service; the adapter reports the same in one line.
fn may_log(line: &Metadata<'_>) -> bool {
    !line.target().starts_with("aws_") || *line.level() <= Level::ERROR
}
