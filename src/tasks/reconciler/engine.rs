//! Calls to backends, from places in each backend's own line, with a hard timeout. Which backends there are can be
//! replaced while calls are under way. It must not retry.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Backend, Error, ErrorKind, GroupKey, JobHandle, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::tasks::store::{Purged, Served};

/// The connected backends, by their names in the config. Clones share them.
#[derive(Clone, Default)]
pub struct Engines {
    current: Arc<watch::Sender<Connected>>,
    unconnected: Arc<Mutex<BTreeMap<String, Unconnected>>>,
}

/// A backend of the config that could not be connected yet.
#[derive(Clone, Debug)]
pub struct Unconnected {
    /// Why the last attempt failed, in words that clients may read.
    pub reason: String,
    /// When the first attempt failed.
    pub since: Instant,
}

/// A place in a backend's line: the right to make one call to it.
pub type Place = OwnedSemaphorePermit;

/// The backends at one moment.
pub(super) type Connected = Arc<BTreeMap<String, Engine>>;

/// One backend and its line.
#[derive(Clone)]
pub(super) struct Engine {
    backend: Arc<dyn Backend>,
    places: Arc<Semaphore>,
    /// How many places there are.
    line: usize,
    /// How its last calls went.
    condition: Arc<Mutex<Condition>>,
}

/// How the calls to an engine go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None was made yet.
    #[default]
    Unknown,
    /// The last one was answered.
    Answers,
    /// The last one failed, and all since this moment.
    Fails {
        /// When the first of them failed.
        since: Instant,
    },
    /// It could not be connected, as the config has it now.
    Unconnected {
        /// When the first attempt failed.
        since: Instant,
    },
}

impl Engines {
    /// These backends, each called at most `max_calls` times at a time.
    pub fn new(backends: BTreeMap<String, Arc<dyn Backend>>, max_calls: usize) -> Self {
        let engines = Self::default();
        engines.replace(backends, max_calls);
        engines
    }

    /// Puts these in the place of those that were there. One that was there before keeps its line, and calls to one
    /// that is gone end as they would have.
    pub fn replace(&self, backends: BTreeMap<String, Arc<dyn Backend>>, max_calls: usize) {
        self.current.send_modify(|current| {
            let line = max_calls.clamp(1, Semaphore::MAX_PERMITS);
            let engine = |(name, backend): (String, Arc<dyn Backend>)| {
                let known = current.get(&name).filter(|known| Arc::ptr_eq(&known.backend, &backend));
                let engine = known.cloned().unwrap_or_else(|| Engine {
                    backend,
                    places: Arc::new(Semaphore::new(line)),
                    line,
                    condition: Arc::default(),
                });
                (name, engine)
            };
            let next: BTreeMap<String, Engine> = backends.into_iter().map(engine).collect();
            // Who waits in the line of one that is replaced or gone goes to the end of its successor's.
            let stays = |name: &str, line: &Arc<Semaphore>| {
                next.get(name).is_some_and(|next| Arc::ptr_eq(&next.places, line))
            };
            current
                .iter()
                .filter(|(name, old)| !stays(name, &old.places))
                .for_each(|(_, old)| old.places.close());
            *current = Arc::new(next);
        });
    }

    /// Notes which backends could not be connected. One that is connected all the same is so with settings of before.
    pub fn set_unconnected(&self, unconnected: BTreeMap<String, Unconnected>) {
        *self.unconnected.lock() = unconnected;
    }

    /// Why nothing can be called of a backend, where that is because it could not be connected.
    pub fn refusal(&self, backend: &str) -> Option<String> {
        if self.get(backend).is_some() {
            return None;
        }
        self.unconnected.lock().get(backend).map(|unconnected| unconnected.reason.clone())
    }

    /// The backends now, and whenever they are replaced.
    pub(super) fn watch(&self) -> watch::Receiver<Connected> {
        self.current.subscribe()
    }

    fn get(&self, backend: &str) -> Option<Engine> {
        self.current.borrow().get(backend).cloned()
    }

    /// What is connected now: the rows of these backends are for this process, and no others.
    pub fn served(&self) -> Vec<Served> {
        let engines = self.current.borrow();
        let served = |(name, engine): (&String, &Engine)| Served {
            backend: name.clone(),
            identity: engine.backend.identity(),
        };
        engines.iter().map(served).collect()
    }

    /// What a backend is connected to, where that is known.
    pub fn identity(&self, backend: &str) -> Option<String> {
        self.get(backend)?.backend.identity()
    }

    /// A place in a backend's line, if one is free. None if it is not connected.
    pub fn try_place(&self, backend: &str) -> Option<Place> {
        self.get(backend)?.places.try_acquire_owned().ok()
    }

    /// True if a backend is connected and all places in its line are taken.
    pub(super) fn is_busy(&self, backend: &str) -> bool {
        self.get(backend).is_some_and(|engine| engine.places.available_permits() == 0)
    }

    /// How many calls to all backends together can be under way.
    pub(super) fn capacity(&self) -> usize {
        self.current.borrow().values().map(|engine| engine.line).sum()
    }

    /// True if this backend gives hints.
    pub(super) fn gives_hints(&self, backend: &str) -> bool {
        self.get(backend).is_some_and(|engine| engine.gives_hints())
    }

    /// See [`taskbridge_sdk::Questions::list_lag`].
    pub(super) fn list_lag(&self, backend: &str) -> Duration {
        let lag = self.get(backend).and_then(|engine| engine.backend.questions().map(|asks| asks.list_lag()));
        lag.unwrap_or_default()
    }

    /// The group that a job is watched in.
    pub(super) fn group(&self, backend: &str, handle: &JobHandle) -> GroupKey {
        match self.get(backend) {
            Some(engine) => engine.backend.group(handle),
            None => GroupKey::new(""),
        }
    }

    /// Waits for a place in a backend's line: at most so many calls to it run at a time.
    pub(super) async fn place(&self, backend: &str) -> Option<Place> {
        loop {
            // The line is closed once another takes its place.
            if let Ok(place) = self.get(backend)?.places.acquire_owned().await {
                return Some(place);
            }
        }
    }

    /// Makes one call.
    ///
    /// # Errors
    /// The backend's own; `late` if it did not answer in time; `Config` if there is no such backend any more.
    pub(super) async fn call<T, F>(
        &self,
        backend: &str,
        within: Duration,
        late: fn(String) -> Error,
        make: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let Some(engine) = self.get(backend) else {
            return Err(Error::config(format!("backend `{backend}` is not in the config any more")));
        };
        tracing::trace!(target: "calls", backend, "to the engine");
        match tokio::time::timeout(within, make(engine.backend)).await {
            Ok(answer) => answer,
            Err(_) => Err(late(format!("backend `{backend}` did not answer within {within:?}"))),
        }
    }

    /// Notifies a backend that a job's task was deleted, if it is connected to the engine that ran it.
    pub(super) async fn forget(&self, gone: &Purged, within: Duration) {
        let (Some(engine), Some(handle)) = (self.get(&gone.backend), &gone.handle) else { return };
        let served = Served { backend: gone.backend.clone(), identity: engine.backend.identity() };
        if !served.matches(&gone.backend, gone.identity.as_deref()) {
            return;
        }
        match tokio::time::timeout(within, engine.backend.forget(handle)).await {
            Ok(Ok(())) => {}
            failed => {
                tracing::debug!(backend = gone.backend, ?failed, "a deleted task's job is not forgotten");
            }
        }
    }

    /// Notes how a call went: answered, or failed like this.
    pub(super) fn note(&self, backend: &str, error: Option<&Error>) {
        if let Some(engine) = self.get(backend) {
            engine.note(error);
        }
    }

    /// How calls to each backend go, by its name.
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
    /// True if it gives hints.
    pub(super) fn gives_hints(&self) -> bool {
        self.backend.wakeups().is_some()
    }

    /// The job that the next hint is about. Never resolves where none are given.
    pub(super) async fn next_hint(&self) -> JobHandle {
        match self.backend.wakeups() {
            Some(wakeups) => wakeups.next().await,
            None => std::future::pending().await,
        }
    }

    /// Notes how a call went. An engine that refuses a job, or wants fewer calls, is there.
    fn note(&self, error: Option<&Error>) {
        use ErrorKind::{Config, Denied, Unavailable, Uncertain};
        let fails = error.is_some_and(|e| matches!(e.kind(), Unavailable | Uncertain | Denied | Config));
        let mut condition = self.condition.lock();
        *condition = match *condition {
            Condition::Fails { since } if fails => Condition::Fails { since },
            _ if fails => Condition::Fails { since: Instant::now() },
            _ => Condition::Answers,
        };
    }

    /// True if both are one connection.
    pub(super) fn is(&self, other: &Self) -> bool {
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

    /// Who waits in the line of a hung backend is served by its successor.
    #[tokio::test]
    async fn replaced_backend_serves_its_line() {
        let named = |backend| BTreeMap::from([("one".to_owned(), backend)]);
        let engines = Engines::new(named(backend()), 1);
        let _held = engines.place("one").await;
        let waits = engines.place("one");
        let replace = async { engines.replace(named(backend()), 1) };
        let (place, ()) = tokio::join!(waits, replace);
        assert!(place.is_some());
        assert!(engines.is_busy("one"), "it is a place of the new one");
    }

    #[tokio::test]
    async fn a_backend_that_stays_keeps_its_line_and_one_that_is_gone_ends_its_calls() {
        let (kept, gone) = (backend(), backend());
        let both = BTreeMap::from([("kept".to_owned(), Arc::clone(&kept)), ("gone".to_owned(), gone)]);
        let engines = Engines::new(both, 1);
        let held = engines.place("kept").await;
        assert!(held.is_some());
        let (begun, go_on) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let call = engines.call("gone", Duration::from_secs(60), Error::unavailable, |_| async {
            begun.notify_one();
            go_on.notified().await;
            Ok("answered")
        });
        let replace = async {
            begun.notified().await;
            engines.replace(BTreeMap::from([("kept".to_owned(), kept)]), 1);
            go_on.notify_one();
        };
        let (answer, ()) = tokio::join!(call, replace);
        assert_eq!(answer.unwrap(), "answered");
        assert!(engines.place("gone").await.is_none());
        let waits = tokio::time::timeout(Duration::from_millis(10), engines.place("kept"));
        assert!(waits.await.is_err(), "the one place is taken still");
        drop(held);
        assert!(engines.place("kept").await.is_some());
    }
}
