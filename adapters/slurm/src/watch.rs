//! The queue as it was seen last: one squeue answers for all jobs, however many ask. A controller that is slow, or does not answer, is
//! asked less often. All of it may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use taskbridge_sdk::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::driver::{Driver, JobId, Record, Row};

/// Of the time, Slurm is busy with us for at most one part in so many.
const SHARE: u32 = 20;

/// The longest that it is left alone after it failed to answer.
const LONGEST: Duration = Duration::from_secs(60);

/// The shortest time between two looks for jobs that are missing from the last.
const SHORTEST: Duration = Duration::from_secs(1);

/// The queue, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    rows: HashMap<JobId, Vec<Row>>,
}

impl Queue {
    pub(crate) fn of(&self, job: JobId) -> &[Row] {
        self.rows.get(&job).map_or(&[], Vec::as_slice)
    }
}

impl From<Vec<Row>> for Queue {
    fn from(all: Vec<Row>) -> Self {
        let mut rows: HashMap<JobId, Vec<Row>> = HashMap::new();
        for row in all {
            rows.entry(row.job).or_default().push(row);
        }
        Self { rows }
    }
}

/// How fresh a look must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// As often as the config allows.
    Usual,
    /// Some of the jobs have just been submitted.
    Young,
    /// Some are missing from the look of this moment.
    Missing(Instant),
}

pub(crate) struct Watch {
    every: Duration,
    position_every: Duration,
    queue: Mutex<Seen<Queue>>,
    positions: Mutex<Seen<HashMap<JobId, usize>>>,
    asked_accounting: SyncMutex<Option<Instant>>,
}

struct Seen<T> {
    last: Option<(Arc<T>, Instant, Duration)>,
    failures: u32,
    not_before: Option<Instant>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { last: None, failures: 0, not_before: None }
    }
}

impl<T> Seen<T> {
    /// What was seen, if it is new enough.
    fn fresh(&self, every: Duration) -> Option<(Arc<T>, Instant)> {
        let (seen, began, took) = self.last.as_ref()?;
        (began.elapsed() < every.max(*took * SHARE)).then(|| (Arc::clone(seen), *began))
    }

    fn patience(&self) -> Result<()> {
        let left = self.not_before.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
        if left.is_zero() {
            return Ok(());
        }
        Err(Error::limited(Some(left), "Slurm did not answer, and is left alone for a moment"))
    }

    fn keep(&mut self, began: Instant, seen: T) -> (Arc<T>, Instant) {
        let seen = Arc::new(seen);
        self.last = Some((Arc::clone(&seen), began, began.elapsed()));
        (self.failures, self.not_before) = (0, None);
        (seen, began)
    }

    fn failed(&mut self, every: Duration) {
        let wait = every.min(SHORTEST * 2).saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures += 1;
        self.not_before = Some(Instant::now() + wait);
    }
}

impl Watch {
    pub(crate) fn new(every: Duration, position_every: Duration) -> Self {
        Self {
            every,
            position_every,
            queue: Mutex::default(),
            positions: Mutex::default(),
            asked_accounting: SyncMutex::default(),
        }
    }

    /// The queue, and when it was looked at. Whoever asks while it is being looked at waits for that look.
    pub(crate) async fn queue(&self, driver: &dyn Driver, need: Need) -> Result<(Arc<Queue>, Instant)> {
        let mut seen = self.queue.lock().await;
        let every = match need {
            Need::Usual => self.every,
            Need::Young => self.every / 5,
            Need::Missing(before) if seen.last.as_ref().is_some_and(|(_, began, _)| *began <= before) => {
                self.every.min(SHORTEST)
            }
            Need::Missing(_) => self.every,
        };
        if let Some(fresh) = seen.fresh(every) {
            return Ok(fresh);
        }
        seen.patience()?;
        let began = Instant::now();
        match driver.queue().await {
            Ok(rows) => Ok(seen.keep(began, rows.into())),
            Err(error) => {
                seen.failed(self.every);
                Err(error)
            }
        }
    }

    /// The places of waiting jobs in their partitions' queues, where they are wanted and can be told.
    pub(crate) async fn positions(&self, driver: &dyn Driver) -> Option<Arc<HashMap<JobId, usize>>> {
        if self.position_every.is_zero() {
            return None;
        }
        let mut seen = self.positions.lock().await;
        if let Some((fresh, _)) = seen.fresh(self.position_every) {
            return Some(fresh);
        }
        seen.patience().ok()?;
        let began = Instant::now();
        match driver.waiting().await {
            Ok(waiting) => Some(seen.keep(began, places(waiting)).0),
            Err(_) => {
                seen.failed(self.position_every);
                None
            }
        }
    }

    /// What the accounting has of these jobs; nothing if it was asked a moment ago, or does not answer.
    pub(crate) async fn accounted(&self, driver: &dyn Driver, jobs: &[JobId]) -> HashMap<JobId, Vec<Record>> {
        let mut found: HashMap<JobId, Vec<Record>> = HashMap::new();
        if jobs.is_empty() || !self.accounting_is_due() {
            return found;
        }
        for record in driver.accounted(jobs).await.unwrap_or_default() {
            found.entry(record.job).or_default().push(record);
        }
        found
    }

    fn accounting_is_due(&self) -> bool {
        let mut asked = self.asked_accounting.lock();
        let due = asked.is_none_or(|at| at.elapsed() >= (self.every / 5).min(SHORTEST * 3));
        if due {
            *asked = Some(Instant::now());
        }
        due
    }
}

/// Each job's place among those that wait for its partition, the first being 1.
fn places(mut waiting: Vec<crate::driver::Waiting>) -> HashMap<JobId, usize> {
    waiting.sort_by(|a, b| b.priority.total_cmp(&a.priority).then(a.job.cmp(&b.job)));
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut places = HashMap::new();
    for job in waiting {
        let count = counts.entry(job.partition).or_default();
        *count += 1;
        places.entry(job.job).or_insert(*count);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Waiting;

    #[test]
    fn a_place_is_told_by_priority_within_a_partition() {
        let job = |job, partition: &str, priority| Waiting { job, partition: partition.to_owned(), priority };
        let places = places(vec![
            job(1, "a", 1.0),
            job(2, "a", 9.0),
            job(3, "b", 1.0),
            job(4, "a", 1.0),
            job(2, "a", 9.0),
        ]);
        assert_eq!((places[&2], places[&1], places[&4], places[&3]), (1, 3, 4, 1));
    }
}
