//! [`MemoryBudget`]: memory budget for large data in transit: bodies that arrive slowly, and answers that
//! clients read slowly. The budget applies to this process, and each caller has a part of it. This module
//! must not know the content.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use parking_lot::Mutex;

use crate::limits::caller_key::CallerKey;

/// Data of up to this size, in bytes, needs no reservation: the number of connections bounds it.
pub(crate) const SMALL: usize = 64 * 1024;

/// Number of equal parts of the budget. Each caller may use one part.
const PARTS: usize = 4;

/// The reserved memory. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MemoryBudget(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reserved: HashMap<CallerKey, usize>,
    total: usize,
}

/// The budget as one caller uses it.
pub(crate) struct CallerBudget {
    pub(crate) budget: MemoryBudget,
    pub(crate) caller_key: CallerKey,
    /// The whole budget in bytes.
    pub(crate) limit: usize,
}

/// A reservation of memory. Dropping it releases the memory.
pub(crate) struct MemoryReservation {
    budget: MemoryBudget,
    caller_key: CallerKey,
    bytes: usize,
}

impl MemoryBudget {
    /// Reserves memory from a budget of `limit` bytes. Returns `None` if the budget or the caller's part is
    /// exhausted. The only reservation of a caller may exceed its part, and the only reservation of all may
    /// exceed the budget.
    pub(crate) fn take(
        &self,
        caller_key: CallerKey,
        bytes: usize,
        limit: usize,
    ) -> Option<MemoryReservation> {
        let mut state = self.0.lock();
        let reserved = state.reserved.get(&caller_key).copied().unwrap_or(0);
        let fits = |used: usize, limit: usize| used == 0 || used.saturating_add(bytes) <= limit;
        if !fits(reserved, limit / PARTS) || !fits(state.total, limit) {
            return None;
        }
        state.total += bytes;
        state.reserved.insert(caller_key, reserved + bytes);
        Some(MemoryReservation { budget: self.clone(), caller_key, bytes })
    }
}

impl CallerBudget {
    /// Reserves memory; see [`MemoryBudget::take`].
    pub(crate) fn take(&self, bytes: usize) -> Option<MemoryReservation> {
        self.budget.take(self.caller_key, bytes, self.limit)
    }
}

impl MemoryReservation {
    /// Changes the size of the reservation to the actual size. This never fails, because the data already
    /// exists.
    pub(crate) fn resize(mut self, bytes: usize) -> Self {
        let mut state = self.budget.0.lock();
        state.total = state.total - self.bytes + bytes;
        if let Some(reserved) = state.reserved.get_mut(&self.caller_key) {
            *reserved = *reserved - self.bytes + bytes;
        }
        drop(state);
        self.bytes = bytes;
        self
    }

    /// Binds the reservation to these bytes: it is released when the last reference to them is dropped.
    pub(crate) fn attach_to(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(ReservedBytes { bytes, _reservation: self })
    }
}

struct ReservedBytes<B> {
    bytes: B,
    _reservation: MemoryReservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for ReservedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut state = self.budget.0.lock();
        state.total -= self.bytes;
        if let Some(reserved) = state.reserved.get_mut(&self.caller_key) {
            *reserved -= self.bytes;
            if *reserved == 0 {
                state.reserved.remove(&self.caller_key);
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
        let budget = MemoryBudget::default();
        let take = |name: &str, bytes| budget.take(CallerKey::named(name), bytes, 400);
        let ann = [take("ann", 60).unwrap(), take("ann", 40).unwrap()];
        assert!(take("ann", 1).is_none());
        let bob = take("bob", 250).expect("one thing finds room however large it is");
        assert!(take("bob", 1).is_none());
        assert!(take("cid", 60).is_none(), "there is no more");
        let cid = take("cid", 50).unwrap();
        drop(ann);
        assert!(take("ann", 100).is_some());
        let ann = take("ann", 10).unwrap().resize(100);
        assert!(take("ann", 1).is_none(), "it is longer than it was thought to be");
        drop(ann);
        let sent = bob.attach_to(vec![7; 250]);
        let part = sent.slice(3..5);
        drop((sent, cid));
        assert!(take("bob", 1).is_none(), "a part of it is there still");
        drop(part);
        let state = budget.0.lock();
        assert!(state.total == 0 && state.reserved.is_empty(), "nothing is kept of who has gone");
    }
}
