//! What the server says about its own work: lines on standard error, never on standard output, which can belong to
//! the protocol.

use std::io::IsTerminal as _;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Log, LogFormat};

/// Begins to write log lines. `filter` wins over the config's.
///
/// # Errors
/// If the filter cannot be understood.
pub(crate) fn begin(log: &Log, filter: Option<&str>) -> Result<(), String> {
    let text = filter.unwrap_or(&log.filter);
    let filter = EnvFilter::try_new(text).map_err(|error| format!("the log filter \"{text}\": {error}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // To say that nothing can be said would be a panic where standard error is gone.
    let lines = lines.log_internal_errors(false);
    // It fails only where lines are written already, as in a program that embeds this one.
    let _ = match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .with(filter_fn(says_no_secret))
            .try_init(),
        LogFormat::Json => {
            lines.json().flatten_event(true).finish().with(filter_fn(says_no_secret)).try_init()
        }
    };
    Ok(())
}

/// False for what can quote a secret, whatever the filter asks for: AWS's libraries write the id of the key that they
/// found, and below that whole requests, in which the token of a question stands.
fn says_no_secret(line: &Metadata<'_>) -> bool {
    !line.target().starts_with("aws_") || *line.level() <= Level::WARN
}
