//! The audit log: one line for each event that must be accountable, in a hash chain that reveals changes and
//! removals. [`Auditor`] turns events into lines and passes them to the [`Writer`]; docs/audit.md describes
//! the lines. It must not change what happens, with one exception: with `on_failure = "refuse"`, an operation
//! that cannot be recorded is refused before it is done, and a response is withheld if its lines cannot be
//! written.

pub mod abuse_detection;
pub mod chain;
mod events;
mod file;
pub mod record;
mod request_context;
mod rotation;
mod stored;
mod tail;
#[cfg(test)]
mod tests;
pub mod verify;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

pub use file::{FileLog, LogContext, LogFileConfig};
pub use request_context::RequestContext;
pub use rotation::rotated_files;
pub use stored::StoreLog;
pub use writer::Writer;

use self::abuse_detection::{AbuseCounters, AlertDecision, Pattern, SuppressedWindow};
use self::record::{AuditEntry, Kind, RequestOrigin, sanitize};
use self::writer::{MAX_PENDING, Sinks, WriterCounters, WriterMessage};
use crate::auth::client_limit_key;
use crate::clock::{Clock, Entropy};
use crate::seal::Seal;
use crate::tasks::audit::{self as core, Audit, AuditEvent, AuditLineStore, AuditedOperation};
use crate::tasks::store::StoreError;
use crate::tasks::task::{Owner, Task};

/// The audit settings of the config.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The file to write to.
    pub file: Option<LogFileConfig>,
    /// Whether lines are written to standard output.
    pub stdout: bool,
    /// The retention in the store, if lines are written there.
    pub store: Option<Duration>,
    /// The key of the hash chain.
    pub key: chain::Key,
    /// Whether operations are refused that cannot be recorded.
    pub refuse_on_failure: bool,
}

impl Settings {
    /// Returns true if lines are written anywhere.
    pub fn is_on(&self) -> bool {
        self.file.is_some() || self.stdout || self.store.is_some()
    }
}

/// The dependencies of the auditor.
#[derive(Clone)]
pub struct AuditDependencies {
    /// Makes digests.
    pub seal: Seal,
    /// The clock for the time of a line.
    pub clock: Arc<dyn Clock>,
    /// The random source for chain ids.
    pub entropy: Arc<dyn Entropy>,
    /// The id of the writing process.
    pub replica: String,
}

/// The receiver of audit events.
pub struct Auditor {
    dependencies: AuditDependencies,
    refuse_on_failure: bool,
    /// The store, if lines are kept there.
    stored_lines: Option<Arc<dyn AuditLineStore>>,
    queue: Option<mpsc::UnboundedSender<WriterMessage>>,
    writer_counters: Arc<WriterCounters>,
    counts: [AtomicU64; Kind::ALL.len()],
    abuse_counters: Mutex<AbuseCounters>,
}

impl Auditor {
    /// Creates an auditor that writes no lines: it counts events, and the server log still has them.
    pub fn off(dependencies: AuditDependencies) -> Self {
        Self {
            dependencies,
            refuse_on_failure: false,
            stored_lines: None,
            queue: None,
            writer_counters: Arc::default(),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            abuse_counters: Mutex::default(),
        }
    }

    /// Creates an auditor for these settings, with the writer that stores its lines. `lines` is the store,
    /// for a log that is kept there.
    pub fn new(
        settings: &Settings,
        dependencies: AuditDependencies,
        lines: Arc<dyn AuditLineStore>,
    ) -> (Self, Option<Writer>) {
        if !settings.is_on() {
            return (Self::off(dependencies), None);
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let AuditDependencies { clock, entropy, replica, .. } = dependencies.clone();
        let context = LogContext { key: settings.key.clone(), clock, entropy, replica };
        let file = settings.file.clone().map(|config| FileLog::new(config, context.clone()));
        let auditor = Self {
            refuse_on_failure: settings.refuse_on_failure,
            stored_lines: settings.store.map(|_| Arc::clone(&lines)),
            queue: Some(sender),
            ..Self::off(dependencies)
        };
        let store = settings.store.map(|retention| StoreLog::new(lines, retention, context.clone()));
        let sinks = Sinks { file, store, stdout: settings.stdout };
        let writer = Writer::new(receiver, sinks, context, Arc::clone(&auditor.writer_counters));
        (auditor, Some(writer))
    }

    /// Returns the number of events of each kind since the process started.
    pub fn counts(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.iter().zip(&self.counts).map(|(kind, count)| (*kind, count.load(Ordering::Relaxed)))
    }

    /// Returns up to `limit` lines of the log in the store with numbers below `before`, newest first. `None` if
    /// the log is not kept in the store.
    ///
    /// # Errors
    /// If the store is unavailable.
    pub async fn newest_lines(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Option<Vec<(u64, String)>>, StoreError> {
        let Some(lines) = &self.stored_lines else { return Ok(None) };
        let end = match before {
            Some(before) => before,
            None => lines.last_line().await?.map_or(0, |(n, _)| n + 1),
        };
        let first = end.saturating_sub(limit as u64);
        let mut found = lines.lines_after(first.saturating_sub(1), limit + 1).await?;
        found.retain(|(n, _)| (first..end).contains(n));
        found.reverse();
        Ok(Some(found))
    }

    /// Returns the number of failed writes to a sink.
    pub fn failures(&self) -> u64 {
        self.writer_counters.failures.load(Ordering::Relaxed)
    }

    /// With `on_failure = "refuse"`, waits before a response until the audit lines of its request are
    /// written. Otherwise it returns at once.
    ///
    /// # Errors
    /// If a line cannot be written.
    pub async fn flush_request(&self, request_context: &RequestContext) -> Result<(), StoreError> {
        if request_context.take_lost() && self.refuse_on_failure {
            return Err(unavailable_error());
        }
        match self.refuse_on_failure && request_context.take_recorded() {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Like [`Self::flush_request`], for the current request, before data is sent to its caller ahead of the
    /// response.
    ///
    /// # Errors
    /// If a line cannot be written.
    pub async fn flush_current_request(&self) -> Result<(), StoreError> {
        match RequestContext::current() {
            Some(request_context) => self.flush_request(&request_context).await,
            None => Ok(()),
        }
    }

    /// Records a failed authentication.
    pub fn auth_failed(&self, address: Option<IpAddr>, why: &str) {
        let mut entry = self.entry(Kind::AuthFailed, "denied");
        entry.from = Some(RequestOrigin { by: "http", address: address.map(|address| address.to_string()) });
        entry.detail = json!({"why": sanitize(why)});
        self.write_limited(Kind::AuthFailed, entry, &subject(None, address));
    }

    /// Records a call that the caller may not make.
    pub fn call_denied(&self, tool: Option<&str>, why: &str) {
        let mut entry = self.entry(Kind::CallDenied, "denied");
        entry.tool = tool.map(sanitize);
        entry.detail = json!({"verb": "call", "why": sanitize(why)});
        self.write_limited_by_caller(Kind::CallDenied, entry, "");
    }

    /// Records a request beyond a limit.
    pub fn limit_exceeded(&self, limit: &str) {
        let mut entry = self.entry(Kind::LimitExceeded, "refused");
        entry.detail = json!({"limit": sanitize(limit)});
        self.write_limited_by_caller(Kind::LimitExceeded, entry, "");
    }

    /// Records an action of the server itself.
    pub fn server_event(&self, kind: Kind, outcome: &'static str, detail: Value) {
        let mut entry = self.entry(kind, outcome);
        entry.detail = detail;
        self.write_limited(kind, entry, "");
    }

    /// Records that an operator is about to change a task.
    ///
    /// # Errors
    /// If the config requires the record and it cannot be written.
    pub async fn operator_acted(&self, command: &str, task: &Task) -> Result<(), StoreError> {
        let mut entry = self.entry(Kind::OperatorActed, "ok");
        entry.task = Some(self.task_name_with_owner(task));
        entry.detail = json!({"command": command});
        self.write_limited(Kind::OperatorActed, entry, "");
        if self.refuse_on_failure { self.flush().await } else { Ok(()) }
    }

    /// Waits until all lines that were queued so far are written to every sink.
    ///
    /// # Errors
    /// If a line cannot be written.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let Some(queue) = &self.queue else { return Ok(()) };
        let (reply, written) = oneshot::channel();
        let is_written = queue.send(WriterMessage::Barrier(reply)).is_ok() && written.await.unwrap_or(false);
        if is_written { Ok(()) } else { Err(unavailable_error()) }
    }

    /// Creates an entry without a caller.
    fn entry_without_caller(&self, kind: Kind, outcome: &'static str) -> AuditEntry {
        AuditEntry::new(self.dependencies.clock.now().to_string(), &self.dependencies.replica, kind, outcome)
    }

    fn entry(&self, kind: Kind, outcome: &'static str) -> AuditEntry {
        let mut entry = self.entry_without_caller(kind, outcome);
        if let Some(request_context) = RequestContext::current() {
            entry.who = request_context.caller();
            entry.from = Some(request_context.origin());
            entry.request = request_context.request(&self.dependencies.seal);
        }
        entry
    }

    /// Records an event of the current caller that may repeat often. Returns false if its line was
    /// suppressed because of its rate.
    fn write_limited_by_caller(&self, kind: Kind, entry: AuditEntry, what: &str) -> bool {
        let request_context = RequestContext::current();
        let owner = request_context
            .as_ref()
            .and_then(|context| context.principal.as_ref())
            .filter(|by| by.identified);
        let address = request_context.as_ref().and_then(|context| context.address());
        let subject = subject(owner.map(|by| &by.owner), address);
        self.write_limited(kind, entry, format!("{subject} {what}").trim_end())
    }

    /// Counts the event, and writes its line unless its pattern and subject already have the most lines of
    /// this window. Returns false in that case.
    fn write_limited(&self, kind: Kind, entry: AuditEntry, subject: &str) -> bool {
        self.count(kind);
        let Some(pattern) = Pattern::of(kind) else {
            self.write(entry);
            return true;
        };
        let (AlertDecision { is_written, is_alert }, suppressed) =
            self.abuse_counters.lock().count(pattern, subject, self.dependencies.clock.now());
        for SuppressedWindow { pattern, subject, count } in suppressed {
            // The current caller is not involved in the window of another subject.
            let entry = self.entry_without_caller(Kind::Suspicion, "over");
            self.enqueue(self.alert_entry(entry, pattern, &subject, count));
        }
        if is_alert {
            tracing::warn!(target: "audit", subject, "{}", pattern.name());
            let entry = self.entry(Kind::Suspicion, "suspicious");
            self.write(self.alert_entry(entry, pattern, subject, abuse_detection::ALERT_THRESHOLD));
        }
        if is_written {
            self.write(entry);
        }
        is_written
    }

    fn alert_entry(&self, mut entry: AuditEntry, pattern: Pattern, subject: &str, count: u32) -> AuditEntry {
        self.count(Kind::Suspicion);
        entry.detail = json!({
            "pattern": pattern.name(),
            "subject": sanitize(subject),
            "count": count,
            "seconds": abuse_detection::WINDOW.as_secs(),
        });
        entry
    }

    fn count(&self, kind: Kind) {
        let at = Kind::ALL.iter().position(|other| *other == kind);
        if let Some(count) = at.and_then(|at| self.counts.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line about the current caller.
    fn write(&self, entry: AuditEntry) {
        if self.queue.is_none() {
            return;
        }
        let is_queued = self.enqueue(entry);
        if let Some(request_context) = RequestContext::current() {
            request_context.mark_recorded();
            if !is_queued {
                request_context.mark_lost();
            }
        }
    }

    /// Queues a line for the writer. Returns false if it is lost.
    fn enqueue(&self, entry: AuditEntry) -> bool {
        let Some(queue) = &self.queue else { return true };
        // The queue is bounded: lines beyond it are counted as lost, and a line of the log reports their
        // number.
        let is_lost = self.writer_counters.queued.fetch_add(1, Ordering::Relaxed) >= MAX_PENDING
            || queue.send(WriterMessage::Line(entry.object())).is_err();
        if is_lost {
            self.writer_counters.queued.fetch_sub(1, Ordering::Relaxed);
            self.writer_counters.lost.fetch_add(1, Ordering::Relaxed);
        }
        !is_lost
    }
}

#[async_trait]
impl Audit for Auditor {
    fn record(&self, event: AuditEvent<'_>) {
        let is_recorded = self.write_event(&event);
        // The rate limit of lines applies to the server log as well.
        if is_recorded {
            core::log(event);
        }
    }

    async fn announce(&self, operation: AuditedOperation<'_>) -> Result<(), StoreError> {
        if !self.refuse_on_failure {
            return Ok(());
        }
        let mut entry = self.entry(Kind::CallReceived, "ok");
        let verb = match operation {
            AuditedOperation::Call { tool, arguments } => {
                entry.tool = Some(sanitize(tool));
                entry.arguments = Some(self.arguments_digest(arguments));
                "call"
            }
            AuditedOperation::Cancel(id) => {
                entry.task = Some(self.task_name(id));
                "cancel"
            }
            AuditedOperation::Answer(id) => {
                entry.task = Some(self.task_name(id));
                "answer"
            }
        };
        entry.detail = json!({"verb": verb});
        self.write_limited(Kind::CallReceived, entry, "");
        self.flush().await
    }
}

/// Returns the error for an operation that is refused.
fn unavailable_error() -> StoreError {
    let why = "the audit log is unavailable, so the request is refused ([audit] on_failure)";
    StoreError::Unavailable(why.to_owned())
}

/// Returns the subject under which events are counted.
fn subject(owner: Option<&Owner>, address: Option<IpAddr>) -> String {
    match (owner, address) {
        (Some(owner), _) => format!("owner {}", owner.as_str()),
        (None, Some(address)) => format!("address {}", client_limit_key(address)),
        (None, None) => "this machine".to_owned(),
    }
}
