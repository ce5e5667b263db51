//! [`InFlightLimit`]: how many entries each owner has open at once. An entry is, for example, a stream or a
//! pending request. Each process counts only its own. It must not know what it counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::auth::Principal;
use crate::limits::caller_key::CallerKey;

/// The counts of all owners. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlightLimit(Arc<Mutex<HashMap<CallerKey, usize>>>);

/// One counted entry. Dropping it releases the count.
pub(crate) struct InFlightPermit {
    limiter: InFlightLimit,
    caller_key: CallerKey,
}

impl InFlightLimit {
    /// Counts one more entry of this caller. Returns `None` at the limit.
    pub(crate) fn take(&self, principal: &Principal, limit: usize) -> Option<InFlightPermit> {
        let caller_key = CallerKey::of(principal);
        let mut counts = self.0.lock();
        let count = counts.entry(caller_key).or_insert(0);
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(InFlightPermit { limiter: self.clone(), caller_key })
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        let mut counts = self.limiter.0.lock();
        if let Some(count) = counts.get_mut(&self.caller_key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.caller_key);
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
        let limiter = InFlightLimit::default();
        let ann = Principal { owner: Owner::new("ann"), ..Principal::single_user() };
        let bob = Principal { owner: Owner::new("bob"), ..ann.clone() };
        let from_address =
            |last| Principal { client_address: Some([10, 0, 0, last].into()), ..Principal::anonymous() };
        let permits: Vec<_> = [&ann, &ann, &bob, &from_address(1), &from_address(1), &from_address(2)]
            .map(|principal| limiter.take(principal, 2))
            .into();
        assert!(permits.iter().all(Option::is_some));
        assert!(
            limiter
                .take(&Principal { client_address: from_address(1).client_address, ..ann.clone() }, 2)
                .is_none(),
            "wherever they are"
        );
        assert!(limiter.take(&from_address(1), 2).is_none() && limiter.take(&from_address(2), 2).is_some());
        drop(permits);
        assert!(limiter.0.lock().is_empty(), "nothing is kept of who has gone");
    }
}
