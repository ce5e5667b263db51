//! Ends of runs that are not reported yet, because parts of them could not be read. All of it may be lost. It
//! must not call GitHub.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::identity::handle::RunHandle;

/// How long after its end was first seen a run is polled again for parts that could not be read.
const RETRY_FOR: Duration = Duration::from_secs(40);
/// How long an end that is not reported yet is remembered after its first poll.
const PENDING_END_TTL: Duration = Duration::from_secs(600);

/// Ends that are not reported yet, by run and attempt.
#[derive(Default)]
pub(crate) struct PendingEnds(Mutex<HashMap<(u64, u64), PendingEnd>>);

/// End that is not reported yet, because parts of it could not be read.
struct PendingEnd {
    /// First and last attempt of this process to read the parts.
    first_read_at: Instant,
    last_read_at: Instant,
    reason: String,
}

impl PendingEnd {
    /// Returns true if the parts may be read again. The interval between retries doubles: a link costs a
    /// request of the hourly limit, and polls are frequent.
    fn is_due(&self, now: Instant) -> bool {
        let age = now - self.first_read_at;
        age >= RETRY_FOR || age >= (self.last_read_at - self.first_read_at) * 2
    }
}

impl PendingEnds {
    /// Records that parts could not be read. Returns false once the end of this attempt was first seen
    /// `RETRY_FOR` ago.
    pub(crate) fn record(&self, run_handle: &RunHandle, reason: &str, now: Instant) -> bool {
        let mut pending_ends = self.0.lock();
        pending_ends.retain(|_, end| now - end.first_read_at < PENDING_END_TTL);
        let new = || PendingEnd { first_read_at: now, last_read_at: now, reason: String::new() };
        let end = pending_ends.entry((run_handle.run, run_handle.attempt)).or_insert_with(new);
        end.last_read_at = now;
        reason.clone_into(&mut end.reason);
        now - end.first_read_at < RETRY_FOR
    }

    /// Returns why parts of this end could not be read, until the next retry is due.
    pub(crate) fn reason(&self, run_handle: &RunHandle, now: Instant) -> Option<String> {
        let pending_ends = self.0.lock();
        pending_ends
            .get(&(run_handle.run, run_handle.attempt))
            .filter(|end| !end.is_due(now))
            .map(|end| end.reason.clone())
    }

    pub(crate) fn forget(&self, run: u64) {
        self.0.lock().retain(|(ended_run, _), _| *ended_run != run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that stays missing is polled five times a second, but requested only a few times.
    #[test]
    fn retries_of_unread_parts_become_rarer() {
        let first_read_at = Instant::now();
        let mut pending_end =
            PendingEnd { first_read_at, last_read_at: first_read_at, reason: String::new() };
        let mut tries = 0;
        for poll in 1..=RETRY_FOR.as_secs() * 5 {
            let now = first_read_at + Duration::from_millis(200) * u32::try_from(poll).unwrap();
            if pending_end.is_due(now) {
                (pending_end.last_read_at, tries) = (now, tries + 1);
            }
        }
        assert!((5..=10).contains(&tries), "{tries}");
        assert!(pending_end.is_due(first_read_at + RETRY_FOR), "the last retry is at the end");
    }
}
