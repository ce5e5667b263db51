//! Client-side rate limits: a token bucket per operation, with the quotas that AWS documents for smaller
//! regions. They ensure that this process alone does not exceed these quotas. Calls of SQS and STS are not
//! limited here. It must not wait: an empty bucket returns the delay.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Error;
use tokio::time::Instant;

use crate::config::Quota;

/// Rate-limited operation of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Start,
    StartSync,
    Describe,
    List,
    Stop,
    History,
    DescribeMachine,
    ListMachines,
    ListTags,
    DescribeActivity,
    ActivityTask,
    TaskSuccess,
    TaskFailure,
    TaskHeartbeat,
    LogEvents,
}

impl Operation {
    /// All operations, in the order of their variants: the name at AWS, and the quota (burst, calls per
    /// second) that AWS documents for smaller regions.
    const ALL: [(Operation, &'static str, u32, f64); 15] = [
        (Self::Start, "StartExecution", 800, 150.0),
        (Self::StartSync, "StartSyncExecution", 800, 150.0),
        (Self::Describe, "DescribeExecution", 250, 10.0),
        (Self::List, "ListExecutions", 100, 2.0),
        (Self::Stop, "StopExecution", 500, 25.0),
        (Self::History, "GetExecutionHistory", 400, 20.0),
        (Self::DescribeMachine, "DescribeStateMachine", 200, 20.0),
        (Self::ListMachines, "ListStateMachines", 100, 5.0),
        (Self::ListTags, "ListTagsForResource", 100, 1.0),
        (Self::DescribeActivity, "DescribeActivity", 200, 1.0),
        (Self::ActivityTask, "GetActivityTask", 1500, 300.0),
        (Self::TaskSuccess, "SendTaskSuccess", 1500, 300.0),
        (Self::TaskFailure, "SendTaskFailure", 1500, 300.0),
        (Self::TaskHeartbeat, "SendTaskHeartbeat", 1500, 300.0),
        (Self::LogEvents, "FilterLogEvents", 5, 5.0),
    ];

    /// Returns its name at AWS.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    refilled_at: Instant,
}

impl Bucket {
    pub(crate) fn full(capacity: u32, per_second: f64, now: Instant) -> Self {
        let capacity = f64::from(capacity);
        Self { capacity, per_second, tokens: capacity, refilled_at: now }
    }

    /// Returns the number of calls that are available now.
    fn available(&self, now: Instant) -> f64 {
        let refilled = now.saturating_duration_since(self.refilled_at).as_secs_f64() * self.per_second;
        (self.tokens + refilled).min(self.capacity)
    }

    /// Takes one call, or returns the time until one is available.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        (self.tokens, self.refilled_at) = (self.available(now), now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let wait = (1.0 - self.tokens) / self.per_second;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
}

/// Token buckets of all operations.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<Vec<Bucket>>);

impl Budget {
    /// Fills the buckets with the documented quotas. `quotas` overrides them by the name of the operation.
    pub(crate) fn new(quotas: &BTreeMap<String, Quota>) -> Self {
        let now = Instant::now();
        let bucket = |(_, name, burst, per_second)| {
            let quota = quotas.get(name).copied().unwrap_or(Quota { burst, per_second });
            Bucket::full(quota.burst, quota.per_second, now)
        };
        Self(Mutex::new(Operation::ALL.map(bucket).into()))
    }

    /// Returns an error message if the quotas of a config are invalid.
    pub(crate) fn check(quotas: &BTreeMap<String, Quota>) -> Option<String> {
        quotas.iter().find_map(|(name, quota)| {
            let names = Operation::ALL.map(|(_, name, ..)| name);
            if !names.contains(&name.as_str()) {
                return Some(format!(
                    "quotas.{name}: no such operation; the operations are: {}",
                    names.join(", ")
                ));
            }
            let is_valid = quota.burst > 0 && quota.per_second.is_finite() && quota.per_second > 0.0;
            (!is_valid).then(|| format!("quotas.{name}: `burst` and `per_second` must be more than 0"))
        })
    }

    /// Returns the remaining calls and the capacity of each bucket.
    pub(crate) fn remaining(&self) -> Vec<taskbridge_sdk::Budget> {
        let (now, buckets) = (Instant::now(), self.0.lock());
        let rows = Operation::ALL.iter().zip(buckets.iter());
        let budget_of = |((_, name, ..), bucket): (&(Operation, &str, u32, f64), &Bucket)| {
            let (remaining, limit) = (bucket.available(now), bucket.capacity);
            taskbridge_sdk::Budget { name: (*name).to_owned(), remaining, limit }
        };
        rows.map(budget_of).collect()
    }

    /// Takes one call. Returns `Limited` if none is available.
    pub(crate) fn take(&self, operation: Operation) -> Result<(), Error> {
        self.0.lock()[operation as usize].take(Instant::now()).map_err(|wait| {
            let name = operation.name();
            Error::limited(
                Some(wait),
                format!("{name}: not sent, to stay within the rate limit of AWS for an account"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::ErrorKind;

    /// A bucket starts full, refills at its rate and never holds more than its capacity.
    #[test]
    fn token_bucket_refills_up_to_capacity() {
        let start = Instant::now();
        let mut bucket = Bucket::full(3, 2.0, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(start + Duration::from_millis(500)), Ok(()));
        let later = start + Duration::from_secs(3600);
        assert_eq!(
            (0..9).filter(|_| bucket.take(later).is_ok()).count(),
            3,
            "the bucket never exceeds its capacity"
        );
        assert_eq!(Bucket::full(0, 0.0, start).take(later), Err(Duration::MAX));
    }

    #[test]
    fn operations_do_not_share_a_bucket() {
        assert!(Operation::ALL.iter().enumerate().all(|(at, (operation, ..))| *operation as usize == at));
        let budget = Budget::new(&BTreeMap::new());
        let limited = (0..1000).find_map(|_| budget.take(Operation::List).err()).unwrap();
        assert!(
            matches!(limited.kind(), ErrorKind::Limited { after: Some(after) } if after <= Duration::from_secs(1))
        );
        assert!(budget.take(Operation::Describe).is_ok());
    }

    /// A quota of the config replaces the default. An invalid quota is rejected with its field.
    #[test]
    fn configured_quota_overrides_default() {
        let quotas_of =
            |name: &str, burst, per_second| BTreeMap::from([(name.to_owned(), Quota { burst, per_second })]);
        let quotas = quotas_of("ListExecutions", 2, 0.5);
        assert_eq!(Budget::check(&quotas), None);
        let budget = Budget::new(&quotas);
        assert_eq!((0..10).filter(|_| budget.take(Operation::List).is_ok()).count(), 2);
        assert!((0..10).all(|_| budget.take(Operation::Describe).is_ok()));
        for (invalid, part) in [
            (quotas_of("ListExecution", 2, 0.5), "no such operation"),
            (quotas_of("ListExecutions", 0, 0.5), "more than 0"),
            (quotas_of("ListExecutions", 1, 0.0), "more than 0"),
            (quotas_of("ListExecutions", 1, f64::NAN), "more than 0"),
        ] {
            let message = Budget::check(&invalid).unwrap();
            assert!(message.starts_with("quotas.ListExecution") && message.contains(part), "{message}");
        }
    }
}
