//! Cache of the queue and of positions, and rate limit of accounting queries. One request for the queue
//! serves all jobs and all callers. A slow or failing controller is polled less often. All of it may be lost.
//! It must not know keys or folders.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use taskbridge_sdk::{Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::driver::{Driver, JobId, Record, Row};

/// Requests for the queue, and for positions, take at most one part in this many of the time: the interval is
/// at least this many times the duration of the last request.
const SHARE: u32 = 20;

/// Maximum backoff after a failure.
const LONGEST: Duration = Duration::from_secs(60);

/// Minimum interval between two polls for jobs that are missing from the last one.
const SHORTEST: Duration = Duration::from_secs(1);

/// An accounting query about this many jobs never waits.
const MANY: usize = 100;

/// Maximum backoff of accounting queries after a failure. An end that was seen meanwhile waits about as long
/// for its record, so one more query precedes a report without it.
const ACCOUNTING_LONGEST: Duration = Duration::from_secs(10);

/// After this time, a poll sends no further accounting query.
const ASKED_WITHIN: Duration = Duration::from_secs(5);

/// A snapshot of the queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    rows: HashMap<JobId, Vec<Row>>,
    held: Vec<Row>,
}

impl Queue {
    pub(crate) fn of(&self, job: JobId) -> &[Row] {
        self.rows.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Returns the held jobs that can be released.
    pub(crate) fn held(&self) -> &[Row] {
        &self.held
    }
}

impl From<Vec<Row>> for Queue {
    fn from(all: Vec<Row>) -> Self {
        // They are few, and are needed for each polled group of jobs, far more often than the queue is read.
        let held = all.iter().filter(|row| row.is_held_by_user()).cloned().collect();
        let mut rows: HashMap<JobId, Vec<Row>> = HashMap::new();
        for row in all {
            rows.entry(row.job).or_default().push(row);
        }
        Self { rows, held }
    }
}

/// The result of an accounting query for one job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccountingReply {
    /// Its records, possibly none.
    Records(Vec<Record>),
    /// The accounting database did not answer.
    Nothing,
}

/// The required freshness of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The interval from the config.
    Usual,
    /// Some of the jobs have just been changed, such as submitted: a fifth of the interval.
    Young,
    /// Some jobs are missing from the queue that was requested at this time: at most [`SHORTEST`], if the
    /// cached queue is no newer.
    Missing(Instant),
}

pub(crate) struct QueueCache {
    every: Duration,
    position_every: Duration,
    queue: Mutex<QueryCache<Queue>>,
    positions: Mutex<QueryCache<HashMap<JobId, usize>>>,
    /// The backoff of the accounting database; its records are not cached.
    accounting: SyncMutex<QueryCache<()>>,
    /// The jobs of recent accounting queries, with their times.
    asked_accounting: SyncMutex<HashMap<JobId, Instant>>,
    /// Number of partial queries sent. Successive polls start at different parts, so that one that always
    /// fails does not block the others.
    asked_parts: AtomicUsize,
}

struct QueryCache<T> {
    last: Option<(Arc<T>, Instant, Duration)>,
    failures: u32,
    not_before: Option<Instant>,
}

impl<T> Default for QueryCache<T> {
    fn default() -> Self {
        Self { last: None, failures: 0, not_before: None }
    }
}

impl<T> QueryCache<T> {
    /// Returns the cached value, if it is new enough.
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
        self.answered();
        (seen, began)
    }

    fn answered(&mut self) {
        (self.failures, self.not_before) = (0, None);
    }

    fn failed(&mut self, every: Duration, longest: Duration) {
        let wait = every.min(SHORTEST * 2).saturating_mul(1 << self.failures.min(6)).min(longest);
        self.failures += 1;
        self.not_before = Some(Instant::now() + wait);
    }
}

impl QueueCache {
    pub(crate) fn new(every: Duration, position_every: Duration) -> Self {
        Self {
            every,
            position_every,
            queue: Mutex::default(),
            positions: Mutex::default(),
            accounting: SyncMutex::default(),
            asked_accounting: SyncMutex::default(),
            asked_parts: AtomicUsize::default(),
        }
    }

    /// Returns the queue, and when it was requested. Concurrent callers share one request.
    pub(crate) async fn queue(&self, driver: &dyn Driver, need: Freshness) -> Result<(Arc<Queue>, Instant)> {
        let mut seen = self.queue.lock().await;
        let every = match need {
            Freshness::Usual => self.every,
            Freshness::Young => self.every / 5,
            Freshness::Missing(before)
                if seen.last.as_ref().is_some_and(|(_, began, _)| *began <= before) =>
            {
                self.every.min(SHORTEST)
            }
            Freshness::Missing(_) => self.every,
        };
        // After a failure, all callers get the failure. If some polls used the last response, tasks would
        // alternate between two messages.
        if let Some(fresh) = seen.fresh(every).filter(|_| seen.failures == 0) {
            return Ok(fresh);
        }
        seen.patience()?;
        let began = Instant::now();
        match driver.queue().await {
            Ok(rows) => Ok(seen.keep(began, rows.into())),
            Err(error) => {
                seen.failed(self.every, LONGEST);
                Err(error)
            }
        }
    }

    /// Returns the positions of pending jobs in their partitions' queues, if they are enabled and available.
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
                seen.failed(self.position_every, LONGEST);
                None
            }
        }
    }

    /// Returns the accounting records of these jobs, as far as they are queried now. Recently queried jobs
    /// are not queried again, and queries of fewer than [`MANY`] jobs are rate-limited. A job that was not
    /// queried is missing from the result. If a query fails, its jobs get [`AccountingReply::Nothing`], and
    /// no further query follows. During a backoff, every job gets [`AccountingReply::Nothing`].
    pub(crate) async fn accounted(
        &self,
        driver: &dyn Driver,
        jobs: &[JobId],
    ) -> HashMap<JobId, AccountingReply> {
        let mut found: HashMap<JobId, AccountingReply> = HashMap::new();
        if self.accounting.lock().patience().is_err() {
            found.extend(jobs.iter().map(|job| (*job, AccountingReply::Nothing)));
            return found;
        }
        let due = self.due_at_accounting(jobs);
        if due.is_empty() {
            return found;
        }
        let mut parts: Vec<&[JobId]> = due.chunks(driver.accounted_at_once()).collect();
        let first = self.asked_parts.load(Ordering::Relaxed) % parts.len();
        parts.rotate_left(first);
        let began = Instant::now();
        for part in parts {
            self.asked_parts.fetch_add(1, Ordering::Relaxed);
            let asked = Instant::now();
            let answer = driver.accounting_records(part).await;
            self.asked_accounting.lock().extend(part.iter().map(|job| (*job, asked)));
            let Ok(records) = answer else {
                self.accounting.lock().failed(self.every, ACCOUNTING_LONGEST);
                found.extend(part.iter().map(|job| (*job, AccountingReply::Nothing)));
                break;
            };
            self.accounting.lock().answered();
            found.extend(part.iter().map(|job| (*job, AccountingReply::Records(Vec::new()))));
            for record in records {
                if let Some(AccountingReply::Records(known)) = found.get_mut(&record.job) {
                    known.push(record);
                }
            }
            if began.elapsed() > ASKED_WITHIN {
                break;
            }
        }
        found
    }

    /// Returns the jobs that can be queried now. A query about many jobs does not wait: it replaces as many
    /// queries about single jobs, and its caller is slow to return.
    fn due_at_accounting(&self, jobs: &[JobId]) -> Vec<JobId> {
        let pause = (self.every / 5).min(SHORTEST * 3);
        let mut asked = self.asked_accounting.lock();
        asked.retain(|_, at| at.elapsed() < pause);
        let due: Vec<JobId> = jobs.iter().copied().filter(|job| !asked.contains_key(job)).collect();
        if asked.is_empty() || due.len() >= MANY { due } else { Vec::new() }
    }
}

/// Returns each job's position among the pending jobs of its partition, starting at 1.
fn places(mut waiting: Vec<crate::driver::PendingJob>) -> HashMap<JobId, usize> {
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
    use crate::driver::PendingJob;
    use crate::driver::command::Commands;
    use crate::fake::Fake;

    /// A failed query of some jobs differs from an answer without records. Long queries are split.
    #[tokio::test]
    async fn failed_accounting_query_means_unknown() {
        let dir = tempfile::tempdir().unwrap();
        // A replacement for sacct: it knows job 1, and fails for job 600.
        let says = format!(
            "echo \"$@\" >>{}; case \"$*\" in *=1,*) echo '1|COMPLETED|0:0|1|1|2|1|60||00:00:01|1|1M|n1|tb-a' ;; *,600,*) exit 1 ;; esac",
            dir.path().join("asked").display()
        );
        let config = serde_json::from_value(serde_json::json!({"sudo": ["sh", "-c", says]})).unwrap();
        let driver = Commands::new(&config, Duration::from_secs(20), Some("lab")).unwrap();
        let watch = QueueCache::new(Duration::ZERO, Duration::ZERO);
        let jobs: Vec<JobId> = (1..=1200).collect();
        let found = watch.accounted(&driver, &jobs).await;
        let count = |job| match found.get(&job) {
            Some(AccountingReply::Records(records)) => Some(records.len()),
            _ => None,
        };
        assert_eq!((found.len(), count(1), count(500)), (1000, Some(1), Some(0)));
        assert_eq!(found[&600], AccountingReply::Nothing, "it was not answered");
        assert!(!found.contains_key(&1001), "it was not asked about");
        // The parts after the failing one are queried as well.
        let found = watch.accounted(&driver, &jobs).await;
        assert_eq!((found.len(), &found[&1200]), (1200, &AccountingReply::Records(Vec::new())));
        assert_eq!(found[&600], AccountingReply::Nothing);
        let asked = std::fs::read_to_string(dir.path().join("asked")).unwrap();
        assert!(asked.lines().all(|line| line.len() < 8192), "an argument has a largest length");
    }

    /// Up to 500 jobs are queried at once, and a few jobs not more often than the interval.
    #[tokio::test(start_paused = true)]
    async fn accounting_queries_are_batched() {
        let fake = Fake::default();
        fake.knows().records = Some(Vec::new());
        let watch = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let ask = async |jobs: std::ops::Range<JobId>| {
            let jobs: Vec<JobId> = jobs.collect();
            let found = watch.accounted(&fake, &jobs).await;
            // It has no records of them, which is known only for the queried ones.
            assert!(found.values().all(|heard| *heard == AccountingReply::Records(Vec::new())));
            found.len()
        };
        assert_eq!(ask(1..2).await, 1);
        assert_eq!(ask(2..3).await, 0, "it was asked just now");
        assert_eq!(ask(1..501).await, 499, "all but the one");
        assert_eq!(ask(501..1001).await, 500);
        assert_eq!(ask(1..501).await, 0, "about all of them just now");
        tokio::time::advance(SHORTEST * 3).await;
        assert_eq!(ask(2..3).await, 1);
    }

    /// Calls `ask` continuously for a while. Returns the times of the requests to the cluster, in seconds.
    async fn asked(times: impl Fn() -> usize, for_seconds: u64, ask: impl AsyncFn()) -> Vec<u64> {
        let (began, mut asked) = (Instant::now(), Vec::new());
        while began.elapsed() < Duration::from_secs(for_seconds) {
            let (at, before) = (began.elapsed().as_secs(), times());
            ask().await;
            asked.extend((before < times()).then_some(at));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        asked
    }

    /// A slow controller is polled for a twentieth of the time at most, and a failing one with backoff.
    #[tokio::test(start_paused = true)]
    async fn slow_controller_is_polled_less() {
        let fake = Fake::default();
        let watch = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let ask = async || drop(watch.queue(&fake, Freshness::Young).await);
        let queues = || fake.knows().queues;
        assert_eq!(asked(queues, 10, ask).await, [0, 3, 6, 9]);
        fake.knows().queue_takes = Duration::from_secs(2);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(asked(queues, 90, ask).await, [0, 40, 80], "for a twentieth of the time at most");
        fake.knows().queue_takes = Duration::ZERO;
        fake.knows().queue_fails = true;
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(asked(queues, 200, ask).await, [0, 2, 6, 14, 30, 62, 122, 182]);
        fake.knows().queue_fails = false;
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(asked(queues, 10, ask).await, [0, 3, 6, 9], "it is back");
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_same_for_every_poll() {
        let fake = Fake::default();
        let watch = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        watch.queue(&fake, Freshness::Usual).await.unwrap();
        fake.knows().queue_fails = true;
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(watch.queue(&fake, Freshness::Usual).await.is_ok(), "nobody knows yet");
        assert!(watch.queue(&fake, Freshness::Young).await.is_err());
        assert!(
            watch.queue(&fake, Freshness::Usual).await.is_err(),
            "by the failure, and not by the last answer"
        );
        fake.knows().queue_fails = false;
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(watch.queue(&fake, Freshness::Usual).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn failing_accounting_is_backed_off() {
        let fake = Fake::default();
        let watch = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let ask = async || {
            let found = watch.accounted(&fake, &[7]).await;
            assert!(found.values().all(|heard| *heard == AccountingReply::Nothing), "{found:?}");
        };
        let questions = || fake.knows().questions;
        assert_eq!(asked(questions, 60, ask).await, [0, 3, 7, 15, 25, 35, 45, 55]);
        fake.knows().records = Some(Vec::new());
        tokio::time::advance(ACCOUNTING_LONGEST).await;
        assert_eq!(
            watch.accounted(&fake, &[7]).await[&7],
            AccountingReply::Records(Vec::new()),
            "it is back"
        );
        assert!(watch.accounting.lock().patience().is_ok());
    }

    /// Jobs of equal priority have the same order as their numbers.
    #[test]
    fn queue_position_follows_partition_priority() {
        let job =
            |job, partition: &str, priority| PendingJob { job, partition: partition.to_owned(), priority };
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
