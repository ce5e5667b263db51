//! [`Readings`]: whose turn it is to read an artifact: each takes memory before it is an answer, and an engine's time. It must not
//! refuse anybody: who waits too long is given up by whoever waits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::whose::Whose;
use crate::auth::Principal;

/// Artifacts that are read at once.
const AT_ONCE: usize = 4;

/// Those of them that one caller can have read.
const OF_ONE: usize = 2;

/// The turns of all callers.
pub struct Readings {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<Whose, Weak<Semaphore>>>,
}

/// Somebody's turn, until it is dropped.
pub(super) struct Turn {
    _held: [Option<OwnedSemaphorePermit>; 2],
}

impl Default for Readings {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

impl Readings {
    /// Waits for this caller's turn.
    pub(super) async fn turn(&self, caller: &Principal) -> Turn {
        let theirs = self.of(Whose::of(caller));
        // First among one's own, so that whoever asks for many stands in the line of all no more often than others.
        // Neither is ever closed.
        let own = theirs.acquire_owned().await.ok();
        Turn { _held: [own, Arc::clone(&self.all).acquire_owned().await.ok()] }
    }

    fn of(&self, whose: Whose) -> Arc<Semaphore> {
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

    #[test]
    fn one_caller_has_two_turns_and_others_have_theirs_meanwhile() {
        let readings = Readings::default();
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
