//! An in-memory controller for tests. It returns the jobs that a test sets, and records the requests. It must
//! not decide anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use taskbridge_sdk::{Error, ErrorKind, Result, Timestamp, async_trait};

use crate::driver::site::{Partition, Rights};
use crate::driver::state::State;
use crate::driver::{Cluster, Driver, Feasibility, PendingJob, Record, Row, Signal, Submission, Tasks};
use crate::identity::handle::JobId;

/// One controller. Its clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<FakeState>>);

type SubmissionHook = Box<dyn FnOnce(&mut FakeState) + Send>;

/// What the controller returns, and the requests that it received.
#[derive(Default)]
pub(crate) struct FakeState {
    pub(crate) rows: Vec<Row>,
    /// How long a queue request takes, and whether it fails.
    pub(crate) queue_delay: Duration,
    pub(crate) queue_fails: bool,
    /// Number of requests for the whole queue.
    pub(crate) queue_requests: usize,
    pub(crate) boot_time: Option<Timestamp>,
    /// The error for a submission or a signal. Without it, a submission returns the number 7 and a signal
    /// succeeds.
    pub(crate) refusal: Option<ErrorKind>,
    /// The result of a feasibility test, its duration, and the number of tests.
    pub(crate) feasibility: Feasibility,
    pub(crate) test_delay: Duration,
    pub(crate) tests: usize,
    /// Number of submissions.
    pub(crate) submitted: usize,
    /// Runs at the next submission.
    on_submission: Option<SubmissionHook>,
    /// Number of requests for the cluster's description.
    pub(crate) cluster_requests: usize,
    /// The records of the accounting database. Without them, it is unavailable.
    pub(crate) records: Option<Vec<Record>>,
    /// Number of accounting queries, and the jobs in them.
    pub(crate) accounting_queries: usize,
    pub(crate) accounting_jobs: Vec<JobId>,
    pub(crate) released: Vec<JobId>,
    pub(crate) cancelled: Vec<JobId>,
    pub(crate) signals: Vec<JobId>,
}

impl Fake {
    pub(crate) fn state(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock()
    }

    /// Sets what happens at the next submission.
    pub(crate) fn on_submission(&self, hook: impl FnOnce(&mut FakeState) + Send + 'static) {
        self.state().on_submission = Some(Box::new(hook));
    }

    fn rows(&self, predicate: impl Fn(&Row) -> bool) -> Vec<Row> {
        self.state().rows.iter().filter(|row| predicate(row)).cloned().collect()
    }
}

/// Returns the queue row of a job that is no array.
pub(crate) fn row(job: JobId, name: &str, state: State) -> Row {
    Row {
        job,
        tasks: Tasks::Single,
        name: name.to_owned(),
        state,
        reason: "None".to_owned(),
        exit: None,
        submitted: None,
        start: None,
        end: None,
        time_limit: None,
        restarts: 0,
        partition: "main".to_owned(),
        nodes: "n1".to_owned(),
        comment: None,
    }
}

/// Returns the queue row of a held job. It shows a hold by the submission and one by the user alike.
pub(crate) fn held_row(job: JobId, name: &str) -> Row {
    Row { reason: "JobHeldUser".to_owned(), nodes: String::new(), ..row(job, name, State::Pending) }
}

fn unexpected_request<T>() -> Result<T> {
    Err(Error::unavailable("the test expects no such request"))
}

#[async_trait]
impl Driver for Fake {
    async fn cluster(&self) -> Result<Cluster> {
        let mut state = self.state();
        state.cluster_requests += 1;
        Ok(Cluster { name: "lab".to_owned(), boot_time: state.boot_time, ..Cluster::default() })
    }

    async fn submit(&self, _: &Submission) -> Result<JobId> {
        let mut state = self.state();
        if let Some(hook) = state.on_submission.take() {
            hook(&mut state);
        }
        state.submitted += 1;
        state.refusal.map_or(Ok(7), |kind| Err(Error::new(kind, "sbatch: error: refused")))
    }

    async fn feasibility(&self, _: &Submission) -> Result<Feasibility> {
        let delay = {
            let mut state = self.state();
            state.tests += 1;
            state.test_delay
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok(self.state().feasibility.clone())
    }

    async fn release(&self, job: JobId) -> Result<()> {
        self.state().released.push(job);
        Ok(())
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        let (delay, fails) = {
            let mut state = self.state();
            state.queue_requests += 1;
            (state.queue_delay, state.queue_fails)
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if fails { unexpected_request() } else { Ok(self.rows(|_| true)) }
    }

    async fn jobs_by_name(&self, name: &str) -> Result<Vec<Row>> {
        Ok(self.rows(|row| row.name == name))
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        Ok(self.rows(|row| row.job == job))
    }

    async fn pending_jobs(&self) -> Result<Vec<PendingJob>> {
        unexpected_request()
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        let mut state = self.state();
        state.accounting_queries += 1;
        state.accounting_jobs.extend(jobs);
        let Some(records) = &state.records else { return unexpected_request() };
        Ok(records.iter().filter(|record| jobs.contains(&record.job)).cloned().collect())
    }

    async fn cancel(&self, job: JobId, _: &str) -> Result<()> {
        self.state().cancelled.push(job);
        Ok(())
    }

    async fn signal(&self, job: JobId, _: &Signal) -> Result<()> {
        let mut state = self.state();
        if let Some(kind) = state.refusal {
            return Err(Error::new(kind, "scancel: error: refused"));
        }
        state.signals.push(job);
        Ok(())
    }

    async fn check_ready(&self) -> Result<()> {
        unexpected_request()
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        unexpected_request()
    }

    async fn rights(&self, _: Option<&str>) -> Result<Rights> {
        unexpected_request()
    }
}
