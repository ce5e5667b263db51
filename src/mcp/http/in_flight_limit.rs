//! [`InFlightLimit`]: how many entries each owner has open at once. An entry is, for example, a stream or a
//! pending request. Each process counts only its own. It must not know what it counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::auth::Principal;
use crate::mcp::caller_key::CallerKey;

/// The counts of all owners. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct InFlightLimit(Arc<Mutex<HashMap<CallerKey, usize>>>);

/// One counted entry. Dropping it releases the count.
pub(super) struct InFlightPermit {
    shares: InFlightLimit,
    whose: CallerKey,
}

impl InFlightLimit {
    /// Counts one more entry of this caller. Returns `None` at the limit.
    pub(super) fn take(&self, principal: &Principal, most: usize) -> Option<InFlightPermit> {
        let whose = CallerKey::of(principal);
        let mut taken = self.0.lock();
        let count = taken.entry(whose).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(InFlightPermit { shares: self.clone(), whose })
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let mut taken = self.shares.0.lock();
        if let Some(count) = taken.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::task::Owner;

    /// Callers without an identity are limited by address, and owners wherever they are.
    #[test]
    fn in_flight_limit_is_per_owner() {
        let shares = InFlightLimit::default();
        let ann = Principal { owner: Owner::new("ann"), ..Principal::single_user() };
        let bob = Principal { owner: Owner::new("bob"), ..ann.clone() };
        let from = |last| Principal { from: Some([10, 0, 0, last].into()), ..Principal::anybody() };
        let held: Vec<_> =
            [&ann, &ann, &bob, &from(1), &from(1), &from(2)].map(|who| shares.take(who, 2)).into();
        assert!(held.iter().all(Option::is_some));
        assert!(
            shares.take(&Principal { from: from(1).from, ..ann.clone() }, 2).is_none(),
            "wherever they are"
        );
        assert!(shares.take(&from(1), 2).is_none() && shares.take(&from(2), 2).is_some());
        drop(held);
        assert!(shares.0.lock().is_empty(), "nothing is kept of who has gone");
    }
}
