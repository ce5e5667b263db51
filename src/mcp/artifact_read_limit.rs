//! [`ArtifactReadLimit`]: limits concurrent reads of artifacts, because each uses memory and the engine's
//! time. Each process limits its own reads. It must not refuse a caller: the timeout of the whole read (in
//! `resources`) bounds the wait.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::caller_key::CallerKey;
use crate::auth::Principal;

/// Maximum number of concurrent reads of all callers.
const AT_ONCE: usize = 4;

/// Maximum number of concurrent reads of one caller.
const OF_ONE: usize = 2;

/// The read permits of all callers.
pub struct ArtifactReadLimit {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<CallerKey, Weak<Semaphore>>>,
}

/// A read permit. Dropping it releases the permit.
pub(super) struct ReadPermit {
    _held: [Option<OwnedSemaphorePermit>; 2],
}

impl Default for ArtifactReadLimit {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

impl ArtifactReadLimit {
    /// Waits for a read permit of this caller.
    pub(super) async fn turn(&self, caller: &Principal) -> ReadPermit {
        let theirs = self.of(CallerKey::of(caller));
        // The caller's own semaphore comes first, so that many reads of one caller do not fill the shared
        // queue. Neither semaphore is ever closed.
        let own = theirs.acquire_owned().await.ok();
        ReadPermit { _held: [own, Arc::clone(&self.all).acquire_owned().await.ok()] }
    }

    fn of(&self, whose: CallerKey) -> Arc<Semaphore> {
        let mut each = self.each.lock();
        if let Some(known) = each.get(&whose).and_then(Weak::upgrade) {
            return known;
        }
        each.retain(|_, theirs| theirs.strong_count() > 0);
        let theirs = Arc::new(Semaphore::new(OF_ONE));
        each.insert(whose, Arc::downgrade(&theirs));
        theirs
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
        let readings = ArtifactReadLimit::default();
        let of = |name: &str| Principal { owner: Owner::new(name), ..Principal::single_user() };
        let turn = |name: &str| readings.turn(&of(name)).now_or_never();
        let ann = [turn("ann").unwrap(), turn("ann").unwrap()];
        assert!(turn("ann").is_none());
        let bob = turn("bob").expect("ann keeps nobody waiting");
        let cid = turn("cid").unwrap();
        assert!(turn("dan").is_none(), "four are read at once");
        drop(ann);
        assert!(turn("ann").is_some());
        drop((bob, cid));
        assert!(turn("dan").is_some());
        assert_eq!(readings.each.lock().len(), 1, "those who have gone are forgotten");
    }
}
