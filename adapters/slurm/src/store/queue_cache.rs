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

use crate::driver::{Driver, Record, Row};
use crate::identity::handle::JobId;

/// Requests for the queue, and for positions, take at most one part in this many of the time: the interval is
/// at least this many times the duration of the last request.
const MIN_INTERVAL_FACTOR: u32 = 20;

/// Maximum backoff after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Minimum interval between two polls for jobs that are missing from the last one.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// An accounting query about this many jobs never waits.
const LARGE_QUERY: usize = 100;

/// Maximum backoff of accounting queries after a failure. An end that was seen meanwhile waits about as long
/// for its record, so one more query precedes a report without it.
const MAX_ACCOUNTING_BACKOFF: Duration = Duration::from_secs(10);

/// After this time, a poll sends no further accounting query.
const ACCOUNTING_TIME_LIMIT: Duration = Duration::from_secs(5);

/// A snapshot of the queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    rows: HashMap<JobId, Vec<Row>>,
    held: Vec<Row>,
}

impl Queue {
    pub(crate) fn rows_of(&self, job: JobId) -> &[Row] {
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
    Unavailable,
}

/// The required freshness of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The interval from the config.
    Normal,
    /// Some of the jobs have just been changed, such as submitted: a fifth of the interval.
    Young,
    /// Some jobs are missing from the queue that was requested at this time: at most [`MIN_INTERVAL`], if the
    /// cached queue is no newer.
    Missing(Instant),
}

pub(crate) struct QueueCache {
    interval: Duration,
    position_interval: Duration,
    queue: Mutex<QueryCache<Queue>>,
    positions: Mutex<QueryCache<HashMap<JobId, usize>>>,
    /// The backoff of the accounting database; its records are not cached.
    accounting: SyncMutex<QueryCache<()>>,
    /// The jobs of recent accounting queries, with their times.
    recent_accounting_queries: SyncMutex<HashMap<JobId, Instant>>,
    /// Number of partial queries sent. Successive polls start at different parts, so that one that always
    /// fails does not block the others.
    partial_queries: AtomicUsize,
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
    fn get_fresh(&self, interval: Duration) -> Option<(Arc<T>, Instant)> {
        let (value, requested_at, duration) = self.last.as_ref()?;
        (requested_at.elapsed() < interval.max(*duration * MIN_INTERVAL_FACTOR))
            .then(|| (Arc::clone(value), *requested_at))
    }

    fn check_backoff(&self) -> Result<()> {
        let remaining =
            self.not_before.map(|at| at.saturating_duration_since(Instant::now())).unwrap_or_default();
        if remaining.is_zero() {
            return Ok(());
        }
        Err(Error::limited(Some(remaining), "Slurm did not answer; the next request waits for the backoff"))
    }

    fn store(&mut self, requested_at: Instant, value: T) -> (Arc<T>, Instant) {
        let value = Arc::new(value);
        self.last = Some((Arc::clone(&value), requested_at, requested_at.elapsed()));
        self.record_success();
        (value, requested_at)
    }

    fn record_success(&mut self) {
        (self.failures, self.not_before) = (0, None);
    }

    fn record_failure(&mut self, interval: Duration, max_backoff: Duration) {
        let wait = interval.min(MIN_INTERVAL * 2).saturating_mul(1 << self.failures.min(6)).min(max_backoff);
        self.failures += 1;
        self.not_before = Some(Instant::now() + wait);
    }
}

impl QueueCache {
    pub(crate) fn new(interval: Duration, position_interval: Duration) -> Self {
        Self {
            interval,
            position_interval,
            queue: Mutex::default(),
            positions: Mutex::default(),
            accounting: SyncMutex::default(),
            recent_accounting_queries: SyncMutex::default(),
            partial_queries: AtomicUsize::default(),
        }
    }

    /// Returns the queue, and when it was requested. Concurrent callers share one request.
    pub(crate) async fn queue(&self, driver: &dyn Driver, need: Freshness) -> Result<(Arc<Queue>, Instant)> {
        let mut cache = self.queue.lock().await;
        let interval = match need {
            Freshness::Normal => self.interval,
            Freshness::Young => self.interval / 5,
            Freshness::Missing(missing_at)
                if cache.last.as_ref().is_some_and(|(_, requested_at, _)| *requested_at <= missing_at) =>
            {
                self.interval.min(MIN_INTERVAL)
            }
            Freshness::Missing(_) => self.interval,
        };
        // After a failure, all callers get the failure. If some polls used the last response, tasks would
        // alternate between two messages.
        if let Some(fresh) = cache.get_fresh(interval).filter(|_| cache.failures == 0) {
            return Ok(fresh);
        }
        cache.check_backoff()?;
        let requested_at = Instant::now();
        match driver.queue().await {
            Ok(rows) => Ok(cache.store(requested_at, rows.into())),
            Err(error) => {
                cache.record_failure(self.interval, MAX_BACKOFF);
                Err(error)
            }
        }
    }

    /// Returns the positions of pending jobs in their partitions' queues, if they are enabled and available.
    pub(crate) async fn positions(&self, driver: &dyn Driver) -> Option<Arc<HashMap<JobId, usize>>> {
        if self.position_interval.is_zero() {
            return None;
        }
        let mut cache = self.positions.lock().await;
        if let Some((fresh, _)) = cache.get_fresh(self.position_interval) {
            return Some(fresh);
        }
        cache.check_backoff().ok()?;
        let requested_at = Instant::now();
        match driver.pending_jobs().await {
            Ok(pending_jobs) => Some(cache.store(requested_at, rank_by_partition(pending_jobs)).0),
            Err(_) => {
                cache.record_failure(self.position_interval, MAX_BACKOFF);
                None
            }
        }
    }

    /// Returns the accounting records of these jobs, as far as they are queried now. Recently queried jobs
    /// are not queried again, and queries of fewer than [`LARGE_QUERY`] jobs are rate-limited. A job that was
    /// not queried is missing from the result. If a query fails, its jobs get
    /// [`AccountingReply::Unavailable`], and no further query follows. During a backoff, every job gets
    /// [`AccountingReply::Unavailable`].
    pub(crate) async fn query_accounting(
        &self,
        driver: &dyn Driver,
        jobs: &[JobId],
    ) -> HashMap<JobId, AccountingReply> {
        let mut replies: HashMap<JobId, AccountingReply> = HashMap::new();
        if self.accounting.lock().check_backoff().is_err() {
            replies.extend(jobs.iter().map(|job| (*job, AccountingReply::Unavailable)));
            return replies;
        }
        let due = self.due_for_query(jobs);
        if due.is_empty() {
            return replies;
        }
        let mut parts: Vec<&[JobId]> = due.chunks(driver.accounting_batch_size()).collect();
        let first = self.partial_queries.load(Ordering::Relaxed) % parts.len();
        parts.rotate_left(first);
        let started_at = Instant::now();
        for part in parts {
            self.partial_queries.fetch_add(1, Ordering::Relaxed);
            let queried_at = Instant::now();
            let result = driver.accounting_records(part).await;
            self.recent_accounting_queries.lock().extend(part.iter().map(|job| (*job, queried_at)));
            let Ok(records) = result else {
                self.accounting.lock().record_failure(self.interval, MAX_ACCOUNTING_BACKOFF);
                replies.extend(part.iter().map(|job| (*job, AccountingReply::Unavailable)));
                break;
            };
            self.accounting.lock().record_success();
            replies.extend(part.iter().map(|job| (*job, AccountingReply::Records(Vec::new()))));
            for record in records {
                if let Some(AccountingReply::Records(job_records)) = replies.get_mut(&record.job) {
                    job_records.push(record);
                }
            }
            if started_at.elapsed() > ACCOUNTING_TIME_LIMIT {
                break;
            }
        }
        replies
    }

    /// Returns the jobs that can be queried now. A query about many jobs does not wait: it replaces as many
    /// queries about single jobs, and its caller is slow to return.
    fn due_for_query(&self, jobs: &[JobId]) -> Vec<JobId> {
        let pause = (self.interval / 5).min(MIN_INTERVAL * 3);
        let mut recent = self.recent_accounting_queries.lock();
        recent.retain(|_, at| at.elapsed() < pause);
        let due: Vec<JobId> = jobs.iter().copied().filter(|job| !recent.contains_key(job)).collect();
        if recent.is_empty() || due.len() >= LARGE_QUERY { due } else { Vec::new() }
    }
}

/// Returns each job's position among the pending jobs of its partition, starting at 1.
fn rank_by_partition(mut pending_jobs: Vec<crate::driver::PendingJob>) -> HashMap<JobId, usize> {
    pending_jobs.sort_by(|a, b| b.priority.total_cmp(&a.priority).then(a.job.cmp(&b.job)));
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut positions = HashMap::new();
    for job in pending_jobs {
        let count = counts.entry(job.partition).or_default();
        *count += 1;
        positions.entry(job.job).or_insert(*count);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::PendingJob;
    use crate::driver::command::Commands;
    use crate::driver::tests::fake::Fake;

    /// A failed query of some jobs differs from an answer without records. Long queries are split.
    #[tokio::test]
    async fn failed_accounting_query_means_unknown() {
        let dir = tempfile::tempdir().unwrap();
        // A replacement for sacct: it knows job 1, and fails for job 600.
        let command = format!(
            "echo \"$@\" >>{}; case \"$*\" in *=1,*) echo '1|COMPLETED|0:0|1|1|2|1|60||00:00:01|1|1M|n1|tb-a' ;; *,600,*) exit 1 ;; esac",
            dir.path().join("asked").display()
        );
        let config = serde_json::from_value(serde_json::json!({"sudo": ["sh", "-c", command]})).unwrap();
        let driver = Commands::new(&config, Duration::from_secs(20), Some("lab")).unwrap();
        let cache = QueueCache::new(Duration::ZERO, Duration::ZERO);
        let jobs: Vec<JobId> = (1..=1200).collect();
        let replies = cache.query_accounting(&driver, &jobs).await;
        let count = |job| match replies.get(&job) {
            Some(AccountingReply::Records(records)) => Some(records.len()),
            _ => None,
        };
        assert_eq!((replies.len(), count(1), count(500)), (1000, Some(1), Some(0)));
        assert_eq!(replies[&600], AccountingReply::Unavailable, "the query failed");
        assert!(!replies.contains_key(&1001), "the job was not queried");
        // The parts after the failing one are queried as well.
        let replies = cache.query_accounting(&driver, &jobs).await;
        assert_eq!((replies.len(), &replies[&1200]), (1200, &AccountingReply::Records(Vec::new())));
        assert_eq!(replies[&600], AccountingReply::Unavailable);
        let queries = std::fs::read_to_string(dir.path().join("asked")).unwrap();
        assert!(queries.lines().all(|line| line.len() < 8192), "an argument has a maximum length");
    }

    /// Up to 500 jobs are queried at once, and a few jobs not more often than the interval.
    #[tokio::test(start_paused = true)]
    async fn accounting_queries_are_batched() {
        let fake = Fake::default();
        fake.state().records = Some(Vec::new());
        let cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let query = async |jobs: std::ops::Range<JobId>| {
            let jobs: Vec<JobId> = jobs.collect();
            let replies = cache.query_accounting(&fake, &jobs).await;
            // It has no records of them, which is known only for the queried ones.
            assert!(replies.values().all(|reply| *reply == AccountingReply::Records(Vec::new())));
            replies.len()
        };
        assert_eq!(query(1..2).await, 1);
        assert_eq!(query(2..3).await, 0, "the interval has not passed");
        assert_eq!(query(1..501).await, 499, "all but the queried one");
        assert_eq!(query(501..1001).await, 500);
        assert_eq!(query(1..501).await, 0, "all were queried just now");
        tokio::time::advance(MIN_INTERVAL * 3).await;
        assert_eq!(query(2..3).await, 1);
    }

    /// Calls `poll` continuously for a while. Returns the times of the requests to the cluster, in seconds.
    async fn request_times(
        request_count: impl Fn() -> usize,
        for_seconds: u64,
        poll: impl AsyncFn(),
    ) -> Vec<u64> {
        let (started_at, mut seconds) = (Instant::now(), Vec::new());
        while started_at.elapsed() < Duration::from_secs(for_seconds) {
            let (at, before) = (started_at.elapsed().as_secs(), request_count());
            poll().await;
            seconds.extend((before < request_count()).then_some(at));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        seconds
    }

    /// A slow controller is polled for a twentieth of the time at most, and a failing one with backoff.
    #[tokio::test(start_paused = true)]
    async fn slow_controller_is_polled_less() {
        let fake = Fake::default();
        let cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let poll = async || drop(cache.queue(&fake, Freshness::Young).await);
        let request_count = || fake.state().queue_requests;
        assert_eq!(request_times(request_count, 10, poll).await, [0, 3, 6, 9]);
        fake.state().queue_delay = Duration::from_secs(2);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(
            request_times(request_count, 90, poll).await,
            [0, 40, 80],
            "at most a twentieth of the time"
        );
        fake.state().queue_delay = Duration::ZERO;
        fake.state().queue_fails = true;
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(request_times(request_count, 200, poll).await, [0, 2, 6, 14, 30, 62, 122, 182]);
        fake.state().queue_fails = false;
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(request_times(request_count, 10, poll).await, [0, 3, 6, 9], "the controller is back");
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_same_for_every_poll() {
        let fake = Fake::default();
        let cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        cache.queue(&fake, Freshness::Normal).await.unwrap();
        fake.state().queue_fails = true;
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(cache.queue(&fake, Freshness::Normal).await.is_ok(), "the cached queue is new enough");
        assert!(cache.queue(&fake, Freshness::Young).await.is_err());
        assert!(
            cache.queue(&fake, Freshness::Normal).await.is_err(),
            "the failure replaces the cached queue"
        );
        fake.state().queue_fails = false;
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(cache.queue(&fake, Freshness::Normal).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn failing_accounting_is_backed_off() {
        let fake = Fake::default();
        let cache = QueueCache::new(Duration::from_secs(15), Duration::ZERO);
        let poll = async || {
            let replies = cache.query_accounting(&fake, &[7]).await;
            assert!(replies.values().all(|reply| *reply == AccountingReply::Unavailable), "{replies:?}");
        };
        let request_count = || fake.state().accounting_queries;
        assert_eq!(request_times(request_count, 60, poll).await, [0, 3, 7, 15, 25, 35, 45, 55]);
        fake.state().records = Some(Vec::new());
        tokio::time::advance(MAX_ACCOUNTING_BACKOFF).await;
        assert_eq!(
            cache.query_accounting(&fake, &[7]).await[&7],
            AccountingReply::Records(Vec::new()),
            "the database is back"
        );
        assert!(cache.accounting.lock().check_backoff().is_ok());
    }

    /// Jobs of equal priority have the same order as their numbers.
    #[test]
    fn queue_position_follows_partition_priority() {
        let job =
            |job, partition: &str, priority| PendingJob { job, partition: partition.to_owned(), priority };
        let positions = rank_by_partition(vec![
            job(1, "a", 1.0),
            job(2, "a", 9.0),
            job(3, "b", 1.0),
            job(4, "a", 1.0),
            job(2, "a", 9.0),
        ]);
        assert_eq!((positions[&2], positions[&1], positions[&4], positions[&3]), (1, 3, 4, 1));
    }
}
