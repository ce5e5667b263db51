//! Calls to backends: a concurrency limit for each backend (call permits), and a hard timeout. The set of
//! backends can be replaced while calls are in progress. It must not retry.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Backend, Error, ErrorKind, GroupKey, JobHandle, Questions, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::precedence;
use crate::tasks::store::{DeletedRow, ServedBackend};

/// The connected backends, by their names in the config. Clones share them.
#[derive(Clone, Default)]
pub struct Engines {
    current: Arc<watch::Sender<ConnectedEngines>>,
    unconnected: Arc<Mutex<BTreeMap<String, Unconnected>>>,
}

/// A backend of the config that could not be connected yet.
#[derive(Clone, Debug)]
pub struct Unconnected {
    /// Why the last attempt failed, as text that clients may read.
    pub reason: String,
    /// When the first attempt failed.
    pub since: Instant,
}

/// A call permit of a backend: the right to make one call to it.
pub type CallPermit = OwnedSemaphorePermit;

/// The backends at one point in time.
pub(super) type ConnectedEngines = Arc<BTreeMap<String, Engine>>;

/// One backend and its call permits.
#[derive(Clone)]
pub(super) struct Engine {
    backend: Arc<dyn Backend>,
    permits: Arc<Semaphore>,
    /// Total number of permits.
    capacity: usize,
    /// The result of its recent calls.
    condition: Arc<Mutex<Condition>>,
    /// When the last call of an action failed.
    failed_at: Arc<Mutex<Option<Instant>>>,
}

/// Whether the calls to an engine succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No call was made yet.
    #[default]
    Unknown,
    /// The engine answered the last call, perhaps with a rejection or a rate limit.
    Available,
    /// The last call failed, as did all since this time.
    Failing {
        /// When the first of them failed.
        since: Instant,
    },
    /// It could not be connected with the current config. If it is connected with earlier settings, calls
    /// still use those.
    Unconnected {
        /// When the first attempt failed.
        since: Instant,
    },
}

impl Engines {
    /// Creates the set from these backends, each with `max_calls` call permits.
    pub fn new(backends: BTreeMap<String, Arc<dyn Backend>>, max_calls: usize) -> Self {
        let engines = Self::default();
        engines.replace(backends, max_calls);
        engines
    }

    /// Replaces the set of backends. A backend that stays (the same object) keeps its permits and their
    /// number. Calls to a removed backend continue until their normal end.
    pub fn replace(&self, backends: BTreeMap<String, Arc<dyn Backend>>, max_calls: usize) {
        self.current.send_modify(|current| {
            let capacity = max_calls.clamp(1, Semaphore::MAX_PERMITS);
            let engine = |(name, backend): (String, Arc<dyn Backend>)| {
                let known = current.get(&name).filter(|known| Arc::ptr_eq(&known.backend, &backend));
                let engine = known.cloned().unwrap_or_else(|| Engine {
                    backend,
                    permits: Arc::new(Semaphore::new(capacity)),
                    capacity,
                    condition: Arc::default(),
                    failed_at: Arc::default(),
                });
                (name, engine)
            };
            let next: BTreeMap<String, Engine> = backends.into_iter().map(engine).collect();
            // Callers that wait for a permit of a replaced backend move to the end of its successor's queue.
            // Those of a removed one get none.
            let stays = |name: &str, permits: &Arc<Semaphore>| {
                next.get(name).is_some_and(|next| Arc::ptr_eq(&next.permits, permits))
            };
            current
                .iter()
                .filter(|(name, old)| !stays(name, &old.permits))
                .for_each(|(_, old)| old.permits.close());
            *current = Arc::new(next);
        });
    }

    /// Records which backends could not be connected. If one of them is connected nevertheless, it
    /// still uses earlier settings.
    pub fn set_unconnected(&self, unconnected: BTreeMap<String, Unconnected>) {
        *self.unconnected.lock() = unconnected;
    }

    /// Returns why a backend cannot be called, if the reason is that it could not be connected.
    pub fn refusal(&self, backend: &str) -> Option<String> {
        if self.get(backend).is_some() {
            return None;
        }
        self.unconnected.lock().get(backend).map(|unconnected| unconnected.reason.clone())
    }

    /// Subscribes to the set of backends.
    pub(super) fn watch(&self) -> watch::Receiver<ConnectedEngines> {
        self.current.subscribe()
    }

    fn get(&self, backend: &str) -> Option<Engine> {
        self.current.borrow().get(backend).cloned()
    }

    /// Returns the connected backends. This process serves their rows and no others.
    pub fn served(&self) -> Vec<ServedBackend> {
        let engines = self.current.borrow();
        let served = |(name, engine): (&String, &Engine)| ServedBackend {
            backend: name.clone(),
            identity: engine.backend.identity(),
        };
        engines.iter().map(served).collect()
    }

    /// Returns the identity of the engine that a backend is connected to, if known.
    pub fn identity(&self, backend: &str) -> Option<String> {
        self.get(backend)?.backend.identity()
    }

    /// Returns a call permit of a backend, if one is free and the backend is connected.
    pub fn try_acquire_permit(&self, backend: &str) -> Option<CallPermit> {
        self.get(backend)?.permits.try_acquire_owned().ok()
    }

    /// Returns true if a backend is connected and has no free permit.
    pub(super) fn is_busy(&self, backend: &str) -> bool {
        self.get(backend).is_some_and(|engine| engine.permits.available_permits() == 0)
    }

    /// Returns the maximum number of concurrent calls to all backends together.
    pub(super) fn capacity(&self) -> usize {
        self.current.borrow().values().map(|engine| engine.capacity).sum()
    }

    /// Returns true if this backend gives hints.
    pub(super) fn gives_hints(&self, backend: &str) -> bool {
        self.get(backend).is_some_and(|engine| engine.gives_hints())
    }

    /// See [`Questions::needs_token`].
    pub(super) fn needs_token(&self, backend: &str) -> bool {
        let engine = self.get(backend);
        engine.is_some_and(|engine| engine.backend.abilities().questions.is_some_and(Questions::needs_token))
    }

    /// See [`taskbridge_sdk::Questions::list_lag`].
    pub(super) fn list_lag(&self, backend: &str) -> Duration {
        let lag = self
            .get(backend)
            .and_then(|engine| engine.backend.abilities().questions.map(|questions| questions.list_lag()));
        lag.unwrap_or_default()
    }

    /// See [`Backend::start_lag`].
    pub(super) fn start_lag(&self, backend: &str) -> Duration {
        self.get(backend).map(|engine| engine.backend.start_lag()).unwrap_or_default()
    }

    /// See [`Backend::key_lifetime`].
    pub(super) fn key_lifetime(&self, backend: &str) -> Option<Duration> {
        self.get(backend).and_then(|engine| engine.backend.key_lifetime())
    }

    /// Returns the group that a job is polled in; the empty key if the backend is not connected.
    pub(super) fn group(&self, backend: &str, handle: &JobHandle) -> GroupKey {
        match self.get(backend) {
            Some(engine) => engine.backend.group(handle),
            None => GroupKey::new(""),
        }
    }

    /// Waits for a call permit of a backend. Returns `None` if it is not connected.
    pub(super) async fn acquire_permit(&self, backend: &str) -> Option<CallPermit> {
        loop {
            // The semaphore is closed when the backend is replaced.
            if let Ok(permit) = self.get(backend)?.permits.acquire_owned().await {
                return Some(permit);
            }
        }
    }

    /// Makes one call. It takes no permit: the caller must have one.
    ///
    /// # Errors
    /// The backend's own errors; `timeout_error` if it did not answer within `timeout`; `Config` if there is
    /// no such backend any more.
    pub(super) async fn call<T, F>(
        &self,
        backend: &str,
        timeout: Duration,
        timeout_error: fn(String) -> Error,
        make: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let Some(engine) = self.get(backend) else {
            return Err(Error::config(format!("backend `{backend}` is not in the config any more")));
        };
        tracing::trace!(target: "calls", backend, "to the engine");
        match tokio::time::timeout(timeout, make(engine.backend)).await {
            Ok(answer) => answer,
            Err(_) => Err(timeout_error(format!("backend `{backend}` did not answer within {timeout:?}"))),
        }
    }

    /// Notifies a backend that a job's task was deleted, if it is connected to the engine that ran the job.
    pub(super) async fn forget(&self, row: &DeletedRow, timeout: Duration) {
        let (Some(engine), Some(handle)) = (self.get(&row.backend), &row.handle) else { return };
        let served = ServedBackend { backend: row.backend.clone(), identity: engine.backend.identity() };
        if !served.matches(&row.backend, row.identity.as_deref()) {
            return;
        }
        match tokio::time::timeout(timeout, engine.backend.forget(handle)).await {
            Ok(Ok(())) => {}
            failed => {
                tracing::debug!(
                    backend = row.backend,
                    ?failed,
                    "backend cannot forget the job of a deleted task"
                );
            }
        }
    }

    /// Records the result of a call: `None` if it was answered, or its error.
    pub(super) fn record_result(&self, backend: &str, error: Option<&Error>) {
        if let Some(engine) = self.get(backend) {
            engine.record_result(error);
        }
    }

    /// Like [`Self::record_result`], for a call that an action made for a row.
    pub(super) fn record_action_result(&self, backend: &str, error: Option<&Error>) {
        let Some(engine) = self.get(backend) else { return };
        engine.record_result(error);
        // An error of another kind is about the job or the caller, and another replica would get it, too.
        if error.is_some_and(|error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Uncertain)) {
            *engine.failed_at.lock() = Some(Instant::now());
        }
    }

    /// Ends the delay of claims, because what an earlier call lacked may have arrived here.
    pub(super) fn end_claim_delay(&self, backend: &str) {
        if let Some(engine) = self.get(backend) {
            *engine.failed_at.lock() = None;
        }
    }

    /// Returns how much later than other replicas this one claims due rows of a backend.
    pub(super) fn claim_delay(&self, backend: &str) -> Duration {
        let failed_at = self.get(backend).and_then(|engine| *engine.failed_at.lock());
        failed_at.map(|at| precedence::claim_delay(at.elapsed())).unwrap_or_default()
    }

    /// Returns the condition of each backend, by its name.
    pub fn conditions(&self) -> Vec<(String, Condition)> {
        let engines = self.current.borrow().clone();
        let connected = engines.iter().map(|(name, engine)| (name.clone(), *engine.condition.lock()));
        let mut all: BTreeMap<String, Condition> = connected.collect();
        let unconnected = self.unconnected.lock();
        all.extend(
            unconnected.iter().map(|(name, unconnected)| {
                (name.clone(), Condition::Unconnected { since: unconnected.since })
            }),
        );
        all.into_iter().collect()
    }
}

impl Engine {
    /// Returns true if the backend gives hints.
    pub(super) fn gives_hints(&self) -> bool {
        self.backend.abilities().wakeups.is_some()
    }

    /// Waits for the next hint and returns its job. Never resolves if the backend gives none.
    pub(super) async fn next_hint(&self) -> JobHandle {
        match self.backend.abilities().wakeups {
            Some(wakeups) => wakeups.next().await,
            None => std::future::pending().await,
        }
    }

    /// Records the result of a call. An engine that rejects a job, or limits the rate of calls,
    /// counts as available.
    fn record_result(&self, error: Option<&Error>) {
        use ErrorKind::{Config, Denied, Unavailable, Uncertain};
        let fails = error.is_some_and(|e| matches!(e.kind(), Unavailable | Uncertain | Denied | Config));
        let mut condition = self.condition.lock();
        *condition = match *condition {
            Condition::Failing { since } if fails => Condition::Failing { since },
            _ if fails => Condition::Failing { since: Instant::now() },
            _ => Condition::Available,
        };
    }

    /// Returns true if both are the same connection.
    pub(super) fn is_same_connection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::sim::SimEngine;

    use super::*;

    fn backend() -> Arc<dyn Backend> {
        SimEngine::from_config(&taskbridge_sdk::sim::Config::default()).backend()
    }

    /// A caller that waits for a permit of a hung backend gets one of its successor.
    #[tokio::test]
    async fn replaced_backend_keeps_its_queue() {
        let named = |backend| BTreeMap::from([("one".to_owned(), backend)]);
        let engines = Engines::new(named(backend()), 1);
        let _permit = engines.acquire_permit("one").await;
        let waits = engines.acquire_permit("one");
        let replace = async { engines.replace(named(backend()), 1) };
        let (permit, ()) = tokio::join!(waits, replace);
        assert!(permit.is_some());
        assert!(engines.is_busy("one"), "it is a place of the new one");
    }

    /// A backend that stays keeps its queue, and a removed one takes no new calls.
    #[tokio::test]
    async fn removed_backend_completes_open_calls() {
        let (retained, removed) = (backend(), backend());
        let both = BTreeMap::from([("kept".to_owned(), Arc::clone(&retained)), ("gone".to_owned(), removed)]);
        let engines = Engines::new(both, 1);
        let permit = engines.acquire_permit("kept").await;
        assert!(permit.is_some());
        let (started, resume) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let call = engines.call("gone", Duration::from_secs(60), Error::unavailable, |_| async {
            started.notify_one();
            resume.notified().await;
            Ok("answered")
        });
        let replace = async {
            started.notified().await;
            engines.replace(BTreeMap::from([("kept".to_owned(), retained)]), 1);
            resume.notify_one();
        };
        let (answer, ()) = tokio::join!(call, replace);
        assert_eq!(answer.unwrap(), "answered");
        assert!(engines.acquire_permit("gone").await.is_none());
        let waits = tokio::time::timeout(Duration::from_millis(10), engines.acquire_permit("kept"));
        assert!(waits.await.is_err(), "the one place is taken still");
        drop(permit);
        assert!(engines.acquire_permit("kept").await.is_some());
    }
}
