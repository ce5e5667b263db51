//! Lines of a program in the server's log, with the name of its backend and without its secrets. They are
//! limited in length and rate. It must not stop reading, because a full pipe would stop the program.

use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Level, one_line};
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep};

use super::bucket::Bucket;
use super::line::{LineReader, Long, Read};
use super::redact::Redactor;

/// Longest line, in bytes.
const MAX_LINE: usize = 4096;
/// Lines at once, and per second.
const LINES: (f64, f64) = (200.0, 20.0);
/// Bytes that are read at once, and per second. A program that writes more has to wait.
const BYTES: (f64, f64) = (1024.0 * 1024.0, 4.0 * 1024.0 * 1024.0);
/// What a line costs beyond its length, so that a flood of short lines takes little of the server's time.
const LINE_BYTES: f64 = 256.0;
/// Interval of the lines that report how many were left out.
const REPORT: Duration = Duration::from_secs(60);

/// The log of one program.
pub(super) struct Log {
    backend: String,
    redactor: Redactor,
    limit: Mutex<Limit>,
}

struct Limit {
    lines: Bucket,
    left_out: u64,
    reported: Option<Instant>,
}

impl Log {
    pub(super) fn new(backend: &str, redactor: Redactor) -> Self {
        let limit = Limit { lines: Bucket::new(LINES.0, LINES.1), left_out: 0, reported: None };
        Self { backend: backend.to_owned(), redactor, limit: Mutex::new(limit) }
    }

    /// Writes a line of the program.
    pub(super) fn write(&self, level: Level, text: &str) {
        // Most lines of a flood end here, so this comes before all work on the text.
        if text.trim().is_empty() || !self.is_allowed() {
            return;
        }
        let text = one_line(&self.redactor.redact(text));
        let backend = self.backend.as_str();
        match level {
            Level::Debug => tracing::debug!(backend, "{text}"),
            Level::Info | Level::Notice => tracing::info!(backend, "{text}"),
            Level::Warning => tracing::warn!(backend, "{text}"),
            Level::Error | Level::Critical | Level::Alert | Level::Emergency => {
                tracing::error!(backend, "{text}");
            }
        }
    }

    fn is_allowed(&self) -> bool {
        let mut limit = self.limit.lock();
        if !limit.lines.take(1.0) {
            limit.left_out += 1;
            let now = Instant::now();
            if limit.reported.is_none_or(|at| now.duration_since(at) >= REPORT) {
                limit.reported = Some(now);
                let (backend, left_out) = (self.backend.as_str(), std::mem::take(&mut limit.left_out));
                tracing::warn!(backend, left_out, "the program writes too many lines: some are left out");
            }
            return false;
        }
        true
    }

    /// Writes all lines of a program's standard error. It never returns.
    pub(super) async fn copy(&self, errors: impl AsyncRead + Unpin) {
        let mut reader = LineReader::new(errors, MAX_LINE, Long::Cut);
        let (mut bytes, mut line) = (Bucket::new(BYTES.0, BYTES.1), Vec::new());
        loop {
            match reader.next(&mut line).await {
                Ok(Read::Line | Read::Long) => self.write(Level::Info, &String::from_utf8_lossy(&line)),
                Ok(Read::End) => {
                    self.write(Level::Info, &String::from_utf8_lossy(&line));
                    break;
                }
                Err(_) => break,
            }
            let wait = bytes.charge(line.len() as f64 + LINE_BYTES);
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flood of lines is cut to the burst, and then to the rate.
    #[tokio::test(start_paused = true)]
    async fn flood_of_lines_is_limited() {
        let log = Log::new("jobs", Redactor::default());
        let allowed = |lines: usize| (0..lines).filter(|_| log.is_allowed()).count();
        assert_eq!(allowed(10_000), 200);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(allowed(10_000), 20);
    }
}
