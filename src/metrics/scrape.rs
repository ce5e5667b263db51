//! [`Scraper`]: the export of all metrics. Values that only the store knows are read for a scrape, then
//! cached for `CACHE_TTL`. So many scrapers cost no more than one. If the store fails, its values stay as
//! they were, and the next scrape reads it again.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taskbridge_sdk::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{AuditCounters, Engine, Metrics};
use crate::clock::Clock;
use crate::tasks::meter::Phase;
use crate::tasks::reconciler::{Condition, Engines};
use crate::tasks::store::{Result, Store};

/// The content type of [`Scraper::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the store's values are cached.
const CACHE_TTL: Duration = Duration::from_secs(5);
/// The timeout of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The exporter of all metrics.
pub struct Scraper {
    metrics: Arc<Metrics>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    engines: Engines,
    refreshed_at: Mutex<Option<Instant>>,
}

impl Scraper {
    /// Creates a scraper over this store. `clock` is the store's clock.
    pub fn new(
        metrics: Arc<Metrics>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        engines: Engines,
    ) -> Self {
        Self { metrics, store, clock, engines, refreshed_at: Mutex::default() }
    }

    /// Returns all metrics as text.
    pub async fn text(&self) -> String {
        for (backend, condition) in self.engines.conditions() {
            let connected = !matches!(condition, Condition::Unconnected { .. });
            let labels = [("backend", backend.into())];
            self.metrics.families.engine_connected.get_or_create(&labels).set(i64::from(connected));
        }
        let mut refreshed_at = self.refreshed_at.lock().await;
        if refreshed_at.is_none_or(|at| at.elapsed() >= CACHE_TTL) {
            match tokio::time::timeout(STORE_TIMEOUT, self.refresh()).await {
                Ok(Ok(())) => *refreshed_at = Some(Instant::now()),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "metrics of the store cannot be read");
                    self.metrics.families.tally_errors.inc();
                }
                Err(_) => {
                    tracing::warn!("metrics of the store cannot be read: timeout");
                    self.metrics.families.tally_errors.inc();
                }
            }
        }
        self.metrics.text()
    }

    async fn refresh(&self) -> Result<()> {
        let served = self.engines.served();
        let oldest = self.store.queue_heads(&served).await?.first().map(|task| task.created_at);
        let due = self.store.next_due(&served).await?.into_iter().flatten().min();
        let now = self.clock.now();
        let since = |start: Option<Timestamp>| start.map_or(0.0, |at| now.since(at).as_secs_f64());
        let families = &self.metrics.families;
        families.queue_oldest.set(since(oldest));
        families.overdue.set(since(due));
        // This comes last: a database may fail to count because of one corrupt row.
        let counts = self.store.row_counts().await?;
        // A tool keeps its series when it has no tasks left.
        let tools: Vec<String> = self.metrics.tools.read().iter().cloned().collect();
        for tool in tools.into_iter().map(Cow::Owned).chain([Cow::Borrowed(super::OTHER)]) {
            for phase in Phase::ALL {
                let labels = [("tool", tool.clone()), ("state", phase.as_str().into())];
                if let Some(tasks) = families.tasks.get(&labels) {
                    tasks.set(0);
                }
            }
        }
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (tool, phase, count) in counts.active {
            let labels = [("tool", self.metrics.tool(&tool)), ("state", phase.as_str().into())];
            families.tasks.get_or_create(&labels).inc_by(number(count));
        }
        families.tasks_kept.set(number(counts.retained));
        families.pending_notices.set(number(counts.pending_notices));
        families.oldest_notice.set(since(counts.notices_pending_since));
        Ok(())
    }
}

impl Metrics {
    /// Returns all metrics as text. The values of the store are those of the last scrape.
    pub(crate) fn text(&self) -> String {
        self.process.lock().refresh();
        if let Some(count) = self.session_counter.get() {
            self.families.sessions.set(i64::try_from(count()).unwrap_or(i64::MAX));
        }
        if let Some(counters) = self.audit_counters.get() {
            let AuditCounters { events, failures } = counters();
            for (event, count) in events {
                let counter = self.families.audit_events.get_or_create(&[("event", event.into())]);
                counter.inner().store(count, Ordering::Relaxed);
            }
            self.families.audit_failures.inner().store(failures, Ordering::Relaxed);
        }
        for Engine { name, backend, pause } in &*self.engines.lock() {
            let labels = [("backend", name.clone().into())];
            self.families.backoff.get_or_create(&labels).set(pause.remaining().as_secs_f64());
            let Some(backend) = backend.upgrade() else { continue };
            for budget in backend.budgets() {
                let labels = [("backend", name.clone().into()), ("budget", budget.name.into())];
                self.families.budget_left.get_or_create(&labels).set(budget.remaining);
                self.families.budget_limit.get_or_create(&labels).set(budget.limit);
            }
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String does not fail");
        text
    }
}
