//! [`MemoryBudget`]: memory budget for large data in transit: bodies that arrive slowly, and answers that
//! clients read slowly. The budget applies to this process, and each caller has a part of it. This module
//! must not know the content.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use parking_lot::Mutex;

use super::caller_key::CallerKey;

/// Data of up to this size, in bytes, needs no reservation: the number of connections bounds it.
pub(super) const SMALL: usize = 64 * 1024;

/// Number of equal parts of the budget. Each caller may use one part.
const PARTS: usize = 4;

/// The reserved memory. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct MemoryBudget(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    taken: HashMap<CallerKey, usize>,
    in_all: usize,
}

/// The budget as one caller uses it.
pub(super) struct CallerBudget {
    pub(super) room: MemoryBudget,
    pub(super) whose: CallerKey,
    /// The whole budget in bytes.
    pub(super) most: usize,
}

/// A reservation of memory. Dropping it releases the memory.
pub(super) struct MemoryReservation {
    room: MemoryBudget,
    whose: CallerKey,
    bytes: usize,
}

impl MemoryBudget {
    /// Reserves memory from a budget of `most` bytes. Returns `None` if the budget or the caller's part is
    /// exhausted. The only reservation of a caller may exceed its part, and the only reservation of all may
    /// exceed the budget.
    pub(super) fn take(&self, whose: CallerKey, bytes: usize, most: usize) -> Option<MemoryReservation> {
        let mut state = self.0.lock();
        let theirs = state.taken.get(&whose).copied().unwrap_or(0);
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(bytes) <= most;
        if !fits(theirs, most / PARTS) || !fits(state.in_all, most) {
            return None;
        }
        state.in_all += bytes;
        state.taken.insert(whose, theirs + bytes);
        Some(MemoryReservation { room: self.clone(), whose, bytes })
    }
}

impl CallerBudget {
    /// Reserves memory; see [`MemoryBudget::take`].
    pub(super) fn take(&self, bytes: usize) -> Option<MemoryReservation> {
        self.room.take(self.whose, bytes, self.most)
    }
}

impl MemoryReservation {
    /// Changes the size of the reservation to the actual size. This never fails, because the data already
    /// exists.
    pub(super) fn resized(mut self, bytes: usize) -> Self {
        let mut state = self.room.0.lock();
        state.in_all = state.in_all - self.bytes + bytes;
        if let Some(theirs) = state.taken.get_mut(&self.whose) {
            *theirs = *theirs - self.bytes + bytes;
        }
        drop(state);
        self.bytes = bytes;
        self
    }

    /// Binds the reservation to these bytes: it is released when the last reference to them is dropped.
    pub(super) fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(ReservedBytes { bytes, _spot: self })
    }
}

struct ReservedBytes<B> {
    bytes: B,
    _spot: MemoryReservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for ReservedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut state = self.room.0.lock();
        state.in_all -= self.bytes;
        if let Some(theirs) = state.taken.get_mut(&self.whose) {
            *theirs -= self.bytes;
            if *theirs == 0 {
                state.taken.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller gets a quarter of the budget or one item of any size, and all callers share the rest.
    #[test]
    fn memory_budget_is_shared_fairly() {
        let room = MemoryBudget::default();
        let take = |name: &str, bytes| room.take(CallerKey::named(name), bytes, 400);
        let ann = [take("ann", 60).unwrap(), take("ann", 40).unwrap()];
        assert!(take("ann", 1).is_none());
        let bob = take("bob", 250).expect("one thing finds room however large it is");
        assert!(take("bob", 1).is_none());
        assert!(take("cid", 60).is_none(), "there is no more");
        let cid = take("cid", 50).unwrap();
        drop(ann);
        assert!(take("ann", 100).is_some());
        let ann = take("ann", 10).unwrap().resized(100);
        assert!(take("ann", 1).is_none(), "it is longer than it was thought to be");
        drop(ann);
        let sent = bob.hold(vec![7; 250]);
        let part = sent.slice(3..5);
        drop((sent, cid));
        assert!(take("bob", 1).is_none(), "a part of it is there still");
        drop(part);
        let state = room.0.lock();
        assert!(state.in_all == 0 && state.taken.is_empty(), "nothing is kept of who has gone");
    }
}
