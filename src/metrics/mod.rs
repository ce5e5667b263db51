//! The metrics of the server, and their export for Prometheus (the OpenMetrics text format). It wraps the
//! measured parts, [`store`] and [`backend`], and receives the state changes of tasks
//! ([`crate::tasks::meter`]). No decision may depend on metrics. Labels have few values: known methods, and
//! the tools and backends of the config, never text that a caller invented.

mod backend;
mod families;
mod process;
mod scrape;
mod store;
mod tasks;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use taskbridge_sdk::Backend;

use self::families::Families;
use self::process::Process;
use crate::clock::Clock;
use crate::sessions::ServerStore;
use crate::tasks::meter::Phase;

pub use self::scrape::{CONTENT_TYPE, Scraper};

/// The maximum number of tools with their own series; the others share one. Prometheus keeps each series for
/// a long time.
const MAX_TOOLS: usize = 500;
/// The label for tools, methods and the like without their own series.
const OTHER: &str = "other";

/// All metrics of the process. All parts share one instance.
pub struct Metrics {
    families: Families,
    registry: Registry,
    process: Mutex<Process>,
    /// The tools that have series.
    tools: RwLock<std::collections::BTreeSet<String>>,
    /// The backends, for reading their budgets.
    engines: Mutex<Vec<Engine>>,
    session_counter: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,
    audit_counters: OnceLock<Box<dyn Fn() -> AuditCounters + Send + Sync>>,
}

/// The counters of the audit log since the process started.
pub struct AuditCounters {
    /// The number of events of each kind.
    pub events: Vec<(&'static str, u64)>,
    /// The number of failed writes to a sink.
    pub failures: u64,
}

/// A backend whose budgets and pause are read only for a scrape.
struct Engine {
    name: String,
    backend: Weak<dyn Backend>,
    pause: Arc<backend::Pause>,
}

/// A request in progress. A drop before its response counts as given up.
pub struct RequestTimer<'a> {
    metrics: &'a Metrics,
    method: &'static str,
    started_at: Instant,
    outcome: &'static str,
}

/// An open stream. Dropping it closes it.
pub struct OpenStream {
    metrics: Arc<Metrics>,
    kind: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        Self {
            process: Mutex::new(Process::register(&mut registry)),
            families,
            registry,
            tools: RwLock::default(),
            engines: Mutex::default(),
            session_counter: OnceLock::new(),
            audit_counters: OnceLock::new(),
        }
    }
}

impl Metrics {
    /// Wraps a store to measure each operation.
    pub fn store(
        self: &Arc<Self>,
        inner: Arc<dyn ServerStore>,
        clock: Arc<dyn Clock>,
    ) -> Arc<dyn ServerStore> {
        Arc::new(store::MeasuredStore::new(inner, Arc::clone(self), clock))
    }

    /// Wraps the backend of this name to measure each call.
    pub fn backend(self: &Arc<Self>, name: &str, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        let measured = backend::MeasuredBackend::new(name, inner, Arc::clone(self));
        let pause = measured.pause();
        let measured: Arc<dyn Backend> = Arc::new(measured);
        let mut engines = self.engines.lock();
        engines.retain(|known| known.name != name);
        engines.push(Engine { name: name.to_owned(), backend: Arc::downgrade(&measured), pause });
        measured
    }

    /// Counts a crash of this backend's adapter.
    pub fn record_crash(&self, backend: &str) {
        self.families.engine_crashes.get_or_create(&[("backend", backend.to_owned().into())]).inc();
    }

    /// Starts the measurement of a request of this method.
    pub fn request(&self, method: &str) -> RequestTimer<'_> {
        let method = known_method(method);
        RequestTimer { metrics: self, method, started_at: Instant::now(), outcome: "given_up" }
    }

    /// Counts an HTTP response to `/mcp`.
    pub fn record_response(&self, method: &str, status: u16) {
        const METHODS: [&str; 4] = ["POST", "GET", "DELETE", "OPTIONS"];
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER);
        let labels = [("method", method.into()), ("status", status.to_string().into())];
        self.families.http_responses.get_or_create(&labels).inc();
        match status {
            401 => self.record_refusal("unauthenticated"),
            403 => self.record_refusal("forbidden"),
            404 => self.record_refusal("not_found"),
            429 => self.record_refusal("too_many"),
            _ => {}
        }
    }

    /// Counts a refusal, for one of a few fixed reasons.
    pub fn record_refusal(&self, reason: &'static str) {
        self.families.requests_refused.get_or_create(&[("reason", reason.into())]).inc();
    }

    /// Counts a new session.
    pub fn record_session(&self) {
        self.families.sessions_begun.inc();
    }

    /// Sets the function that counts the sessions with open streams or requests. Only the first call has an
    /// effect.
    pub fn set_session_counter(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        let _ = self.session_counter.set(Box::new(count));
    }

    /// Sets the function that reads the counters of the audit log. Only the first call has an effect.
    pub fn set_audit_counters(&self, counters: impl Fn() -> AuditCounters + Send + Sync + 'static) {
        let _ = self.audit_counters.set(Box::new(counters));
    }

    /// Counts an open stream: a listening one, or one that waits for a response.
    pub fn stream(self: &Arc<Self>, listens: bool) -> OpenStream {
        let kind = if listens { "listening" } else { "waiting" };
        self.families.streams.get_or_create(&[("kind", kind.into())]).inc();
        OpenStream { metrics: Arc::clone(self), kind }
    }

    /// Returns the label of a tool, and creates its series if it is new. `OTHER` beyond `MAX_TOOLS`.
    fn tool(&self, name: &str) -> Cow<'static, str> {
        if !self.tools.read().contains(name) {
            let mut tools = self.tools.write();
            if tools.len() >= MAX_TOOLS {
                return OTHER.into();
            }
            tools.insert(name.to_owned());
            for phase in Phase::ALL {
                let labels = [("tool", name.to_owned().into()), ("state", phase.as_str().into())];
                drop(self.families.tasks.get_or_create(&labels));
            }
        }
        name.to_owned().into()
    }

    /// Counts this many notices with an outcome.
    fn record_notices(&self, outcome: &'static str, notices: usize) {
        self.families.deliveries.get_or_create(&[("outcome", outcome.into())]).inc_by(notices as u64);
    }

    fn record_store_operation(&self, operation: &'static str, took: Duration, success: bool) {
        let labels = [("operation", operation.into())];
        self.families.store_duration.get_or_create(&labels).observe(took.as_secs_f64());
        self.families.store_errors.get_or_create(&labels).inc_by(u64::from(!success));
    }
}

impl RequestTimer<'_> {
    /// Records a response: success or an error.
    pub fn finish(mut self, success: bool) {
        self.outcome = if success { "ok" } else { "error" };
    }
}

impl Drop for RequestTimer<'_> {
    fn drop(&mut self) {
        let families = &self.metrics.families;
        let (took, method) = (self.started_at.elapsed(), Cow::Borrowed(self.method));
        families.request_duration.get_or_create(&[("method", method.clone())]).observe(took.as_secs_f64());
        families.requests.get_or_create(&[("method", method), ("outcome", self.outcome.into())]).inc();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.metrics.families.streams.get_or_create(&[("kind", self.kind.into())]).dec();
    }
}

/// Returns the label of a method. Clients can send any text.
fn known_method(method: &str) -> &'static str {
    const METHODS: [&str; 21] = [
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "tools/call",
        "tasks/get",
        "tasks/result",
        "tasks/list",
        "tasks/update",
        "tasks/cancel",
        "logging/setLevel",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "subscriptions/listen",
        OTHER,
    ];
    METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unknown methods and verbs become `other`, and so do tools beyond the limit.
    #[test]
    fn metrics_labels_are_bounded() {
        let metrics = Arc::new(Metrics::default());
        for n in 0..1_000 {
            metrics.request(&format!("made/up{n}")).finish(false);
            metrics.record_response(&format!("VERB{n}"), 405);
            metrics.tool(&format!("tool{n}"));
        }
        assert_eq!(metrics.tool("tool7"), "tool7");
        assert_eq!(metrics.tool("one more"), "other");
        let text = metrics.text();
        assert!(
            text.contains("taskbridge_requests_total{method=\"other\",outcome=\"error\"} 1000\n"),
            "{text}"
        );
        assert!(
            text.contains("taskbridge_http_responses_total{method=\"other\",status=\"405\"} 1000\n"),
            "{text}"
        );
        assert!(!text.contains("made/up") && !text.contains("VERB"));
    }

    /// The gauge falls when a stream closes.
    #[test]
    fn open_streams_are_counted() {
        let metrics = Arc::new(Metrics::default());
        let (one, two) = (metrics.stream(true), metrics.stream(true));
        assert!(metrics.text().contains("taskbridge_streams_open{kind=\"listening\"} 2\n"));
        drop((one, two));
        assert!(metrics.text().contains("taskbridge_streams_open{kind=\"listening\"} 0\n"));
    }
}
