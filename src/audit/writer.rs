//! The writer of the audit log: it takes lines from the queue and writes them to every sink in batches. Lines
//! that a sink does not take are buffered and retried, up to [`MAX_PENDING`]. Further ones are lost, and a
//! line reports their number. It must not know what lines mean.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::chain::Head;
use super::file::{FileLog, LogContext};
use super::record::Kind;
use super::stored::StoreLog;

/// The maximum number of lines per batch.
const BATCH: usize = 256;
/// The maximum number of lines that wait in the queue, and for each failing sink.
pub(super) const MAX_PENDING: usize = 10_000;
/// The retry interval.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A message to the writer.
pub(super) enum WriterMessage {
    /// A line, without its fields of the chain.
    Line(String),
    /// A flush request. The reply is true if all lines before it are written to every sink.
    Barrier(oneshot::Sender<bool>),
}

/// The counters that the writer and the auditor share.
#[derive(Debug, Default)]
pub(super) struct WriterCounters {
    /// Lines in the queue.
    pub(super) queued: AtomicUsize,
    /// Lines that were dropped because the queue was full.
    pub(super) lost: AtomicU64,
    /// The number of failed writes to a sink.
    pub(super) failures: AtomicU64,
}

/// The configured sinks.
pub(super) struct Sinks {
    pub(super) file: Option<FileLog>,
    pub(super) store: Option<StoreLog>,
    pub(super) stdout: bool,
}

/// A sink of lines.
enum Sink {
    /// A file. `None` while a write is in progress, and after a write that panicked.
    File(Option<Box<FileLog>>),
    /// The store.
    Store(Box<StoreLog>),
    /// Standard output: one chain per process.
    Stdout(Box<(Head, bool)>),
}

/// A sink with its buffer.
struct SinkBuffer {
    name: &'static str,
    sink: Sink,
    unwritten: VecDeque<String>,
    lost: u64,
    is_failing: bool,
}

/// The writer.
pub struct Writer {
    messages: mpsc::UnboundedReceiver<WriterMessage>,
    buffers: Vec<SinkBuffer>,
    context: LogContext,
    counters: Arc<WriterCounters>,
}

impl Writer {
    pub(super) fn new(
        messages: mpsc::UnboundedReceiver<WriterMessage>,
        Sinks { file, store, stdout }: Sinks,
        context: LogContext,
        counters: Arc<WriterCounters>,
    ) -> Self {
        let mut buffers = Vec::new();
        let mut add_buffer = |name, sink| {
            buffers.push(SinkBuffer { name, sink, unwritten: VecDeque::new(), lost: 0, is_failing: false });
        };
        if let Some(file) = file {
            add_buffer("the file", Sink::File(Some(Box::new(file))));
        }
        if let Some(store) = store {
            add_buffer("the store", Sink::Store(Box::new(store)));
        }
        if stdout {
            add_buffer("standard output", Sink::Stdout(Box::new((context.new_chain(), false))));
        }
        Self { messages, buffers, context, counters }
    }

    /// Writes until `stop` is cancelled, then writes the rest of the queue and returns. It also returns once
    /// the auditor is dropped and the queue is empty.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let is_failing = self.buffers.iter().any(|buffer| buffer.is_failing);
            tokio::select! {
                biased;
                received = self.messages.recv_many(&mut batch, BATCH) => if received == 0 { return },
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RETRY_INTERVAL), if is_failing => {}
            }
            self.write(&mut batch).await;
        }
        while let Ok(message) = self.messages.try_recv() {
            batch.push(message);
        }
        self.write(&mut batch).await;
        for buffer in self.buffers.iter().filter(|buffer| buffer.is_failing) {
            let lines = buffer.unwritten.len();
            tracing::error!(
                lines,
                lost = buffer.lost,
                "audit lines are lost at shutdown: they cannot be written to {}",
                buffer.name
            );
        }
    }

    /// Writes a batch, and replies to its flush requests.
    async fn write(&mut self, batch: &mut Vec<WriterMessage>) {
        let (mut lines, mut barriers) = (Vec::new(), Vec::new());
        for message in batch.drain(..) {
            match message {
                WriterMessage::Line(line) => lines.push(line),
                WriterMessage::Barrier(reply) => barriers.push(reply),
            }
        }
        let lost = self.counters.lost.swap(0, Ordering::Relaxed);
        let count = lines.len();
        // A flush also fails if any line was dropped, even one of another caller.
        let mut is_written = lost == 0;
        for buffer in &mut self.buffers {
            buffer.lost += lost;
            for line in &lines {
                match buffer.unwritten.len() < MAX_PENDING {
                    true => buffer.unwritten.push_back(line.clone()),
                    false => {
                        buffer.lost += 1;
                        is_written = false;
                    }
                }
            }
            match buffer.flush(&self.context).await {
                Ok(()) => buffer.record_success(),
                Err(error) => {
                    is_written = false;
                    self.counters.failures.fetch_add(1, Ordering::Relaxed);
                    buffer.record_failure(&error);
                }
            }
        }
        self.counters.queued.fetch_sub(count, Ordering::Relaxed);
        for reply in barriers {
            // The receiver may have been dropped.
            let _ = reply.send(is_written);
        }
    }
}

impl SinkBuffer {
    /// Writes all buffered lines, or keeps them on failure.
    async fn flush(&mut self, context: &LogContext) -> io::Result<()> {
        if self.unwritten.is_empty() && self.lost == 0 {
            return Ok(());
        }
        let mut objects: Vec<String> = self.unwritten.iter().cloned().collect();
        if self.lost > 0 {
            objects.push(context.own_line(Kind::LogLost, json!({"lines": self.lost})));
        }
        self.sink.append(objects, context).await?;
        self.unwritten.clear();
        self.lost = 0;
        Ok(())
    }

    fn record_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(%error, "the audit log cannot be written to {}; retrying every second", self.name);
        }
    }

    fn record_success(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the audit log is written to {} again", self.name);
        }
    }
}

impl Sink {
    async fn append(&mut self, objects: Vec<String>, context: &LogContext) -> io::Result<()> {
        match self {
            Sink::File(file) => {
                let mut log = file.take().ok_or_else(|| io::Error::other("an earlier write panicked"))?;
                let (log, result) = blocking(move || {
                    let result = log.append(&objects);
                    (log, result)
                })
                .await?;
                *file = Some(log);
                result
            }
            Sink::Store(log) => log.append(&objects).await,
            Sink::Stdout(state) => {
                let (mut head, has_begun) = (state.0.clone(), state.1);
                let mut text = String::new();
                let begin_line = (!has_begun).then(|| context.own_line(Kind::LogBegan, json!({})));
                for object in begin_line.iter().chain(&objects) {
                    text.push_str(&head.link(&context.key, object));
                    text.push('\n');
                }
                blocking(move || {
                    let mut out = io::stdout().lock();
                    out.write_all(text.as_bytes()).and_then(|()| out.flush())
                })
                .await??;
                **state = (head, true);
                Ok(())
            }
        }
    }
}

/// Runs work that may block on a disk on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
