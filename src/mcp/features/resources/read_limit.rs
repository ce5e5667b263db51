//! [`ArtifactReadLimit`]: limits concurrent reads of artifacts, because each uses memory and the engine's
//! time. Each process limits its own reads. It must not refuse a caller: the timeout of the whole read (in
//! `resources`) bounds the wait.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;

/// Maximum number of concurrent reads of all callers.
const MAX_CONCURRENT_READS: usize = 4;

/// Maximum number of concurrent reads of one caller.
const MAX_READS_PER_CALLER: usize = 2;

/// The read permits of all callers.
pub struct ArtifactReadLimit {
    global: Arc<Semaphore>,
    per_caller: Mutex<HashMap<CallerKey, Weak<Semaphore>>>,
}

/// A read permit. Dropping it releases the permit.
pub(crate) struct ReadPermit {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Default for ArtifactReadLimit {
    fn default() -> Self {
        Self { global: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)), per_caller: Mutex::default() }
    }
}

impl ArtifactReadLimit {
    /// Waits for a read permit of this caller.
    pub(crate) async fn acquire(&self, caller: &Principal) -> ReadPermit {
        let semaphore = self.semaphore_of(CallerKey::of(caller));
        // The caller's own semaphore comes first, so that many reads of one caller do not fill the shared
        // queue. Neither semaphore is ever closed.
        let caller_permit = semaphore.acquire_owned().await.ok();
        ReadPermit { _permits: [caller_permit, Arc::clone(&self.global).acquire_owned().await.ok()] }
    }

    fn semaphore_of(&self, caller_key: CallerKey) -> Arc<Semaphore> {
        let mut per_caller = self.per_caller.lock();
        if let Some(semaphore) = per_caller.get(&caller_key).and_then(Weak::upgrade) {
            return semaphore;
        }
        per_caller.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(MAX_READS_PER_CALLER));
        per_caller.insert(caller_key, Arc::downgrade(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::tasks::task::Owner;

    /// A caller has two reads at a time, and all callers together have four.
    #[test]
    fn artifact_reads_are_limited_per_caller() {
        let limit = ArtifactReadLimit::default();
        let principal = |name: &str| Principal { owner: Owner::new(name), ..Principal::single_user() };
        let acquire = |name: &str| limit.acquire(&principal(name)).now_or_never();
        let ann = [acquire("ann").unwrap(), acquire("ann").unwrap()];
        assert!(acquire("ann").is_none());
        let bob = acquire("bob").expect("ann keeps nobody waiting");
        let cid = acquire("cid").unwrap();
        assert!(acquire("dan").is_none(), "four are read at once");
        drop(ann);
        assert!(acquire("ann").is_some());
        drop((bob, cid));
        assert!(acquire("dan").is_some());
        assert_eq!(limit.per_caller.lock().len(), 1, "those who have gone are forgotten");
    }
}
