//! Calls to backends, from places in each backend's own line, with a hard timeout. It must not retry.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Backend, Error, GroupKey, JobHandle, Result};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The connected backends, by their names in the config.
#[derive(Clone, Default)]
pub struct Engines {
    engines: BTreeMap<String, Engine>,
}

#[derive(Clone)]
struct Engine {
    backend: Arc<dyn Backend>,
    places: Arc<Semaphore>,
}

impl Engines {
    /// The engines with one more, of which at most `max_calls` calls run at a time.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, backend: Arc<dyn Backend>, max_calls: usize) -> Self {
        let places = Arc::new(Semaphore::new(max_calls.clamp(1, Semaphore::MAX_PERMITS)));
        self.engines.insert(name.into(), Engine { backend, places });
        self
    }

    /// The backends that give hints.
    pub(super) fn with_wakeups(&self) -> impl Iterator<Item = (&str, &dyn Backend)> {
        let all = self.engines.iter().map(|(name, engine)| (name.as_str(), &*engine.backend));
        all.filter(|(_, backend)| backend.wakeups().is_some())
    }

    /// True if this backend gives hints.
    pub(super) fn gives_hints(&self, backend: &str) -> bool {
        self.engines.get(backend).is_some_and(|engine| engine.backend.wakeups().is_some())
    }

    /// The group that a job is watched in.
    pub(super) fn group(&self, backend: &str, handle: &JobHandle) -> GroupKey {
        match self.engines.get(backend) {
            Some(engine) => engine.backend.group(handle),
            None => GroupKey::new(""),
        }
    }

    /// Waits for a place in a backend's line: at most so many calls to it run at a time.
    pub(super) async fn place(&self, backend: &str) -> Option<SemaphorePermit<'_>> {
        let engine = self.engines.get(backend)?;
        Some(engine.places.acquire().await.expect("the places are never closed"))
    }

    /// Makes one call.
    ///
    /// # Errors
    /// The backend's own; `late` if it did not answer in time; `Config` if there is no such backend any more.
    pub(super) async fn call<'a, T, F>(
        &'a self,
        backend: &str,
        within: Duration,
        late: fn(String) -> Error,
        make: impl FnOnce(&'a dyn Backend) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let Some(engine) = self.engines.get(backend) else {
            return Err(Error::config(format!("backend `{backend}` is not in the config any more")));
        };
        match tokio::time::timeout(within, make(&*engine.backend)).await {
            Ok(answer) => answer,
            Err(_) => Err(late(format!("backend `{backend}` did not answer within {within:?}"))),
        }
    }
}
