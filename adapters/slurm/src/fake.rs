//! An in-memory controller for tests. It returns the jobs that a test sets, and records the requests. It must
//! not decide anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use taskbridge_sdk::{Error, ErrorKind, Result, Timestamp, async_trait};

use crate::driver::site::{Partition, Rights};
use crate::driver::{Cluster, Driver, JobId, PendingJob, Record, Row, Signal, Submission, Tasks};
use crate::state::State;

/// One controller. Its clones share their state.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Known>>);

type Happens = Box<dyn FnOnce(&mut Known) + Send>;

/// What the controller returns, and the requests that it received.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) rows: Vec<Row>,
    /// How long a queue request takes, and whether it fails.
    pub(crate) queue_takes: Duration,
    pub(crate) queue_fails: bool,
    /// Number of requests for the whole queue.
    pub(crate) queues: usize,
    pub(crate) booted: Option<Timestamp>,
    /// The error for a submission or a signal. Without it, a submission returns the number 7 and a signal
    /// succeeds.
    pub(crate) refusal: Option<ErrorKind>,
    /// The result of a feasibility test, its duration, and the number of tests.
    pub(crate) never_fits: Option<String>,
    pub(crate) test_takes: Duration,
    pub(crate) tests: usize,
    /// Number of submissions.
    pub(crate) submitted: usize,
    /// Runs at the next submission.
    at_submission: Option<Happens>,
    /// Number of requests for the cluster's description.
    pub(crate) asked: usize,
    /// The records of the accounting database. Without them, it is unavailable.
    pub(crate) records: Option<Vec<Record>>,
    /// Number of accounting queries, and the jobs in them.
    pub(crate) questions: usize,
    pub(crate) asked_about: Vec<JobId>,
    pub(crate) released: Vec<JobId>,
    pub(crate) cancelled: Vec<JobId>,
    pub(crate) signals: Vec<JobId>,
}

impl Fake {
    pub(crate) fn knows(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }

    /// Sets what happens at the next submission.
    pub(crate) fn at_submission(&self, happens: impl FnOnce(&mut Known) + Send + 'static) {
        self.knows().at_submission = Some(Box::new(happens));
    }

    fn rows(&self, wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
        self.knows().rows.iter().filter(|row| wanted(row)).cloned().collect()
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
        limit: None,
        restarts: 0,
        partition: "main".to_owned(),
        nodes: "n1".to_owned(),
        comment: None,
    }
}

/// Returns the queue row of a held job. It shows a hold by the submission and one by the user alike.
pub(crate) fn held(job: JobId, name: &str) -> Row {
    Row { reason: "JobHeldUser".to_owned(), nodes: String::new(), ..row(job, name, State::Pending) }
}

fn not_asked<T>() -> Result<T> {
    Err(Error::unavailable("the test does not ask for this"))
}

#[async_trait]
impl Driver for Fake {
    async fn cluster(&self) -> Result<Cluster> {
        let mut known = self.knows();
        known.asked += 1;
        Ok(Cluster { name: "lab".to_owned(), booted: known.booted, ..Cluster::default() })
    }

    async fn submit(&self, _: &Submission) -> Result<JobId> {
        let mut known = self.knows();
        if let Some(happens) = known.at_submission.take() {
            happens(&mut known);
        }
        known.submitted += 1;
        known.refusal.map_or(Ok(7), |kind| Err(Error::new(kind, "sbatch: error: refused")))
    }

    async fn never_fits(&self, _: &Submission) -> Result<Option<String>> {
        let takes = {
            let mut known = self.knows();
            known.tests += 1;
            known.test_takes
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        Ok(self.knows().never_fits.clone())
    }

    async fn release(&self, job: JobId) -> Result<()> {
        self.knows().released.push(job);
        Ok(())
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        let (takes, fails) = {
            let mut known = self.knows();
            known.queues += 1;
            (known.queue_takes, known.queue_fails)
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if fails { not_asked() } else { Ok(self.rows(|_| true)) }
    }

    async fn named(&self, name: &str) -> Result<Vec<Row>> {
        Ok(self.rows(|row| row.name == name))
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        Ok(self.rows(|row| row.job == job))
    }

    async fn waiting(&self) -> Result<Vec<PendingJob>> {
        not_asked()
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        let mut known = self.knows();
        known.questions += 1;
        known.asked_about.extend(jobs);
        let Some(records) = &known.records else { return not_asked() };
        Ok(records.iter().filter(|record| jobs.contains(&record.job)).cloned().collect())
    }

    async fn cancel(&self, job: JobId, _: &str) -> Result<()> {
        self.knows().cancelled.push(job);
        Ok(())
    }

    async fn signal(&self, job: JobId, _: &Signal) -> Result<()> {
        let mut known = self.knows();
        if let Some(kind) = known.refusal {
            return Err(Error::new(kind, "scancel: error: refused"));
        }
        known.signals.push(job);
        Ok(())
    }

    async fn readiness(&self) -> Result<()> {
        not_asked()
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        not_asked()
    }

    async fn rights(&self, _: Option<&str>) -> Result<Rights> {
        not_asked()
    }
}
