//! A controller in memory, for tests of what is made of its answers: it shows the jobs that it is told to show, and writes down what
//! it is asked to do about them. It must not decide anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use taskbridge_sdk::{Error, ErrorKind, Result, Timestamp, async_trait};

use crate::driver::site::{Partition, Rights};
use crate::driver::{Cluster, Driver, JobId, Record, Row, Signal, Submission, Tasks, Waiting};
use crate::state::State;

/// One controller, in as many hands as want it.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Known>>);

type Happens = Box<dyn FnOnce(&mut Known) + Send>;

/// What it shows, and what it was asked to do.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) rows: Vec<Row>,
    /// How long it takes to show them, and whether it fails to.
    pub(crate) queue_takes: Duration,
    pub(crate) queue_fails: bool,
    /// How often it was asked for all of them.
    pub(crate) queues: usize,
    pub(crate) booted: Option<Timestamp>,
    /// How it answers a submission and a signal; without this, by the number 7, and by sending it.
    pub(crate) refusal: Option<ErrorKind>,
    /// What it says of a job that no node could run, how long it takes to say so, and how often it was asked.
    pub(crate) never_fits: Option<String>,
    pub(crate) test_takes: Duration,
    pub(crate) tests: usize,
    /// How many jobs were submitted.
    pub(crate) submitted: usize,
    /// What happens as it is asked for one.
    at_submission: Option<Happens>,
    /// How often it was asked what it is.
    pub(crate) asked: usize,
    /// What its accounting has; without this, it does not answer.
    pub(crate) records: Option<Vec<Record>>,
    /// How often that was asked, and about which jobs.
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

    /// Does this at the next submission.
    pub(crate) fn at_submission(&self, happens: impl FnOnce(&mut Known) + Send + 'static) {
        self.knows().at_submission = Some(Box::new(happens));
    }

    fn rows(&self, wanted: impl Fn(&Row) -> bool) -> Vec<Row> {
        self.knows().rows.iter().filter(|row| wanted(row)).cloned().collect()
    }
}

/// A job that is no array.
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

/// One that is held, by whoever submitted it or by its user since.
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

    async fn waiting(&self) -> Result<Vec<Waiting>> {
        not_asked()
    }

    async fn accounted(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
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
