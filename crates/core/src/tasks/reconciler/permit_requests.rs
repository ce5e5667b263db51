//! Requests for call permits of several backends. A loop waits for all of them at once, so that a backend
//! that hangs delays only its own rows. It must not call an engine.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::engine::{CallPermit, Engines};

/// The requests of one loop: at most one for each backend, in the order of that backend's queue.
pub(super) struct PermitRequests {
    engines: Engines,
    pending: FuturesUnordered<BoxFuture<'static, (String, Option<CallPermit>)>>,
    backends: BTreeSet<String>,
    granted: BTreeMap<String, CallPermit>,
}

impl PermitRequests {
    pub(super) fn new(engines: Engines) -> Self {
        let (pending, backends, granted) = Default::default();
        Self { engines, pending, backends, granted }
    }

    /// Returns a call permit of a backend. If none is free, requests one and returns `None`.
    pub(super) fn take(&mut self, backend: &str) -> Option<CallPermit> {
        let permit = self.granted.remove(backend).or_else(|| self.engines.try_acquire_permit(backend));
        if permit.is_none() && self.backends.insert(backend.to_owned()) {
            let (engines, backend) = (self.engines.clone(), backend.to_owned());
            let request = async move {
                let permit = engines.acquire_permit(&backend).await;
                (backend, permit)
            };
            self.pending.push(request.boxed());
        }
        permit
    }

    /// Waits until a request is granted; the permit is kept for the next [`Self::take`]. Never
    /// resolves without requests.
    pub(super) async fn granted(&mut self) {
        while let Some((backend, permit)) = self.pending.next().await {
            self.backends.remove(&backend);
            // Without a permit, the backend is not connected any more.
            if let Some(permit) = permit {
                self.granted.insert(backend, permit);
                return;
            }
        }
        std::future::pending().await
    }

    /// Releases permits that were granted and not taken.
    pub(super) fn release_granted(&mut self) {
        self.granted.clear();
    }
}
