//! How long a job may run, and when its task expires. Pure functions of the row and the time;
//! nothing is deleted here.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::{Job, NEVER, Task};

/// Lead time: the expiry of a running task moves this long before it is reached, or half the requested
/// lifetime if that is shorter. Clients that poll see the later time before the earlier one has passed.
const LEAD: Duration = Duration::from_secs(600);

impl Task {
    /// Returns when the task expires, as announced at this time. Until the task has ended this is not a
    /// deadline: it moves before it is reached, and never back. See [`Self::kept_until`].
    pub fn expires_at(&self, now: Timestamp) -> Timestamp {
        self.created_at
            + match self.ended_at {
                Some(ended) => self.final_lifetime(ended.since(self.created_at)),
                None => self.running_lifetime(now.since(self.created_at)),
            }
    }

    /// Returns until when the store keeps the row and its idempotency key: a task that has not
    /// ended does not expire.
    pub fn kept_until(&self) -> Timestamp {
        self.ended_at.map_or(NEVER, |ended| self.expires_at(ended))
    }

    /// Returns when the `max_runtime` of an open job is over. For other jobs, assumes a start at
    /// the end of the maximum wait.
    pub fn run_until(&self) -> Timestamp {
        let accepted = match &self.job {
            Job::Open { started_at, .. } => *started_at,
            Job::Pending { .. } | Job::Starting { .. } | Job::Closed { .. } => {
                self.created_at + self.terms.max_wait()
            }
        };
        accepted + self.terms.max_runtime
    }

    /// Returns the lifetime that is announced at this age while the task has not ended. Until the
    /// lead time begins, this is the requested lifetime. After that, the remaining time is
    /// `keep_result`, and at least the lead time.
    fn running_lifetime(&self, age: Duration) -> Duration {
        let (ttl, lead) = (self.terms.ttl, self.lead());
        if age <= ttl.saturating_sub(lead) { ttl } else { ttl.max(age + self.terms.keep_result.max(lead)) }
    }

    /// Returns the lifetime of a task that ended at this age. Another process may have announced
    /// the value for a greater age, because its clock is ahead or it had not seen the end yet. Half
    /// the lead time covers that.
    fn final_lifetime(&self, age: Duration) -> Duration {
        self.running_lifetime(age + self.lead() / 2).max(age + self.terms.keep_result)
    }

    fn lead(&self) -> Duration {
        LEAD.min(self.terms.ttl / 2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tasks::machine::tests::row_of;
    use crate::tasks::task::TaskId;

    proptest! {
        #[test]
        fn announced_expiry_never_moves_back(
            ttl in 10_u64..1_000_000,
            keep in 0_u64..1_000_000,
            steps in proptest::collection::vec(0_u64..500_000, 1..20),
            end_after in 0_u64..500_000,
        ) {
            let mut task = row_of(&TaskId::from_wire("t"), "");
            (task.terms.ttl, task.terms.keep_result) = (Duration::from_millis(ttl), Duration::from_millis(keep));
            let mut now = task.created_at;
            prop_assert_eq!(task.expires_at(now), now + task.terms.ttl, "as requested");
            let mut last = task.expires_at(now);
            for step in steps {
                now = now + Duration::from_millis(step);
                let next = task.expires_at(now);
                prop_assert!(next >= last && next > now);
                prop_assert_eq!(task.kept_until(), NEVER);
                last = next;
            }
            let ended = now + Duration::from_millis(end_after);
            last = last.max(task.expires_at(ended + task.lead() / 2));
            task.ended_at = Some(ended);
            let kept = task.expires_at(ended);
            prop_assert!(kept >= last && kept >= ended + task.terms.keep_result);
        }
    }
}
