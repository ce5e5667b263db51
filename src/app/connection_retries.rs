//! [`ConnectionRetries`]: retries backends that could not be connected, with backoff, until each connects. It
//! must not apply a backend; the reloader does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use taskbridge_sdk::{Backend, Result};
use tokio::time::Instant;

use super::connect::{Backends, Connector, FailedConnection};
use crate::config;
use crate::tasks::reconciler::Unconnected;

/// Backoff after the first failure. It doubles after each further one.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// Longest backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The backends that are not connected, each with its next attempt.
#[derive(Default)]
pub(super) struct ConnectionRetries(BTreeMap<String, Attempt>);

/// The next attempt to connect one backend.
struct Attempt {
    connector: Connector,
    settings: config::Backend,
    /// File and line.
    location: String,
    /// Why the last attempt failed.
    reason: String,
    /// When the first attempt failed.
    since: Instant,
    failures: u32,
    connecting: BoxFuture<'static, Result<Arc<dyn Backend>>>,
}

/// A backend that a retry connected.
pub(super) struct RetriedBackend {
    pub(super) name: String,
    pub(super) backend: Arc<dyn Backend>,
    attempt: Attempt,
}

impl RetriedBackend {
    /// Adds it to the connected backends.
    ///
    /// # Errors
    /// See [`Connector::put`].
    pub(super) fn put(&self, backends: &mut Backends) -> std::result::Result<(), String> {
        let Self { name, backend, attempt } = self;
        attempt.connector.put(backends, name, &attempt.settings, Arc::clone(backend))
    }
}

impl ConnectionRetries {
    /// Retries exactly these backends from now on. A backend that already failed before keeps the time of its
    /// first failure.
    pub(super) fn replace(&mut self, failed: Vec<FailedConnection>, connector: &Connector) {
        let before = std::mem::take(&mut self.0);
        for FailedConnection { name, settings, location, error } in failed {
            tracing::error!(
                "{location}: backends.{name}: {error}; the server continues without this backend, and retries with backoff"
            );
            let previous = before.get(&name);
            let attempt = Attempt {
                connecting: attempt(connector, &name, &settings, MIN_BACKOFF),
                connector: connector.clone(),
                reason: error.to_string(),
                since: previous.map_or_else(Instant::now, |earlier| earlier.since),
                failures: 0,
                location,
                settings,
            };
            self.0.insert(name, attempt);
        }
    }

    /// Waits until an attempt ends: with a backend, or with `None` after another failure. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<RetriedBackend> {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let attempts = self.0.values_mut().map(|one| &mut one.connecting);
        let (answer, index, _) = select_all(attempts).await;
        let name = self.0.keys().nth(index)?.clone();
        match answer {
            Ok(backend) => {
                let attempt = self.0.remove(&name)?;
                Some(RetriedBackend { name, backend, attempt })
            }
            Err(error) => {
                self.0.get_mut(&name)?.schedule_retry(&name, error.to_string());
                None
            }
        }
    }

    /// Attempts all of them immediately, and resets their backoff.
    pub(super) fn retry_now(&mut self) {
        for (name, one) in &mut self.0 {
            one.failures = 0;
            one.connecting = attempt(&one.connector, name, &one.settings, Duration::ZERO);
        }
    }

    /// Schedules a retry for a backend that connected but cannot be applied.
    pub(super) fn retry_later(&mut self, retried: RetriedBackend, reason: String) {
        let RetriedBackend { name, mut attempt, .. } = retried;
        attempt.schedule_retry(&name, reason);
        self.0.insert(name, attempt);
    }

    /// Returns why each backend is not connected, by its name.
    pub(super) fn unconnected(&self) -> BTreeMap<String, Unconnected> {
        let one = |(name, attempt): (&String, &Attempt)| {
            (name.clone(), Unconnected { reason: attempt.reason.clone(), since: attempt.since })
        };
        self.0.iter().map(one).collect()
    }
}

impl Attempt {
    /// Schedules a retry with backoff, and logs the reason if it changed.
    fn schedule_retry(&mut self, name: &str, reason: String) {
        self.failures = self.failures.saturating_add(1);
        let wait = MIN_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(MAX_BACKOFF);
        self.connecting = attempt(&self.connector, name, &self.settings, wait);
        if reason != self.reason {
            tracing::error!("{}: backends.{name}: {reason}; the server retries with backoff", self.location);
            self.reason = reason;
        }
    }
}

/// Connects a backend after a delay.
fn attempt(
    connector: &Connector,
    name: &str,
    settings: &config::Backend,
    delay: Duration,
) -> BoxFuture<'static, Result<Arc<dyn Backend>>> {
    let (connector, name, settings, start_at) =
        (connector.clone(), name.to_owned(), settings.clone(), Instant::now() + delay);
    Box::pin(async move {
        tokio::time::sleep_until(start_at).await;
        connector.connect(&name, &settings).await
    })
}
