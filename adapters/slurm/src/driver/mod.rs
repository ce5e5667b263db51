//! [`Driver`]: the interface to one cluster, in terms of the adapter. A method makes one attempt. Some
//! methods send several requests, each with its own timeout. A driver must not decide anything: it does not
//! know folders or tasks, and a job key is only a job's name to it.

pub(crate) mod accounting_text;
pub(crate) mod command;
pub(crate) mod error;
pub(crate) mod nodes;
pub(crate) mod process;
pub(crate) mod queue_text;
pub(crate) mod rest;
pub(crate) mod site;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use taskbridge_sdk::{Result, Timestamp, async_trait};

use self::site::{Partition, Rights};
use crate::driver::state::State;
use crate::identity::handle::JobId;
use crate::notation::directives::Options;

/// Whether a node could ever run a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Feasibility {
    /// A node could run it.
    #[default]
    Feasible,
    /// It is unknown for now, since nodes are unavailable.
    Unknown,
    /// No node could run it, with Slurm's message.
    Infeasible(String),
}

/// The interface to a cluster. An unreachable or slow controller is `Unavailable`. A submission or a signal
/// that may have arrived is `Uncertain`.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// Returns the cluster's description.
    async fn cluster(&self) -> Result<Cluster>;

    /// Returns whether [`Cluster::boot_time`] can be known at all.
    fn reports_boot_time(&self) -> bool {
        true
    }

    /// Submits a held job: it does not begin before it is released. A refusal is `Rejected`, with Slurm's
    /// message.
    async fn submit(&self, submission: &Submission) -> Result<JobId>;

    /// Tests whether a node of the cluster could ever run the job, with all nodes up and idle. Submits
    /// nothing.
    async fn feasibility(&self, submission: &Submission) -> Result<Feasibility>;

    /// Releases a held job. A job that is not held or has ended is success; an unknown job is `Rejected`.
    async fn release(&self, job: JobId) -> Result<()>;

    /// Returns all jobs of our user that the controller still knows, including ended ones.
    async fn queue(&self) -> Result<Vec<Row>>;

    /// Returns the jobs of our user with this name that the controller still knows, including ended ones.
    async fn jobs_by_name(&self, name: &str) -> Result<Vec<Row>>;

    /// Returns the queue rows of one job of any user: several for an array, none if the controller does not
    /// know the job.
    async fn job(&self, job: JobId) -> Result<Vec<Row>>;

    /// Returns the pending jobs of all users, as far as we may see them.
    async fn pending_jobs(&self) -> Result<Vec<PendingJob>>;

    /// Returns the maximum number of jobs per accounting query. Linux accepts no argument above 128 KiB, and
    /// a query must end within its timeout.
    fn accounting_batch_size(&self) -> usize {
        500
    }

    /// Returns the accounting records of these jobs. Unknown jobs are missing.
    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>>;

    /// Cancels a job, with all tasks of an array, if it still has this name. An ended or unknown job is
    /// success.
    async fn cancel(&self, job: JobId, name: &str) -> Result<()>;

    /// Sends a signal to the processes of a running job.
    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()>;

    /// Fails unless Slurm answers this driver's user: every command can be run, or slurmrestd accepts a
    /// request. It changes nothing, and does not check whether each request is permitted.
    async fn check_ready(&self) -> Result<()>;

    /// Returns the cluster's partitions.
    async fn partitions(&self) -> Result<Vec<Partition>>;

    /// Returns the accounting rights of this user, or of our own user.
    async fn rights(&self, user: Option<&str>) -> Result<Rights>;
}

/// A cluster's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether the cluster has an accounting database (slurmdbd).
    pub(crate) accounting: bool,
    /// When the controller started, if known. It may have lost requests that it accepted shortly before.
    pub(crate) boot_time: Option<Timestamp>,
    /// The uid with which the node daemons (slurmd) cancel a job, if known.
    pub(crate) slurmd_user: Option<u32>,
    /// Maximum number of tasks of an array, if known.
    pub(crate) max_array: Option<u32>,
}

/// A job to submit and hold. Its processes must not see the server's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// The job key.
    pub(crate) name: String,
    pub(crate) comment: String,
    /// The complete batch script, without `#SBATCH` lines.
    pub(crate) script: String,
    /// An absolute path, in Slurm's notation: `%a` is the array task's number. Slurm appends to the file.
    pub(crate) output: String,
    pub(crate) error: String,
    /// An absolute path.
    pub(crate) working_dir: String,
    /// Whether Slurm may requeue the job.
    pub(crate) requeue: bool,
    /// The other options of sbatch, including `array`.
    pub(crate) options: Options,
}

/// A signal to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    /// The name without `SIG`: `USR1`.
    pub(crate) name: String,
    /// Send it to the batch script only, as `scancel --batch` does. Otherwise to the job's steps, without the
    /// batch script. slurmrestd has no such choice: it always signals both.
    pub(crate) batch: bool,
}

/// The array tasks that a queue row or an accounting record covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// Not an array. For an array: a record of all tasks that never began, or a queue row of pending tasks
    /// without a list of them.
    #[default]
    Single,
    /// One task.
    One(u32),
    /// Tasks that are pending or never began, and share one entry.
    Many(Vec<u32>),
}

impl Tasks {
    /// Returns the task, if the entry covers exactly one task of an array.
    pub(crate) fn single_task(&self) -> Option<u32> {
        match self {
            Tasks::One(task) => Some(*task),
            Tasks::Single | Tasks::Many(_) => None,
        }
    }
}

/// A job, or some tasks of one, as the controller reports it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The job's number; for array tasks, that of the whole array.
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
    pub(crate) name: String,
    pub(crate) state: State,
    /// Slurm's reason code.
    pub(crate) reason: String,
    /// The exit status, if the job has ended and it is known.
    pub(crate) exit: Option<Exit>,
    pub(crate) submitted: Option<Timestamp>,
    /// The actual or expected start time.
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) restarts: u32,
    pub(crate) partition: String,
    pub(crate) nodes: String,
    pub(crate) comment: Option<String>,
}

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u32,
    pub(crate) signal: u32,
}

/// A pending job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingJob {
    pub(crate) job: JobId,
    pub(crate) partition: String,
    pub(crate) priority: f64,
}

/// The user who cancelled a job, according to the accounting database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CancelledBy {
    /// The database does not record the user.
    #[default]
    Unknown,
    /// No user: the controller cancelled the job.
    Controller,
    /// A uid.
    User(u32),
}

/// A job or an array task, as the accounting database reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The job's number; for array tasks, that of the whole array.
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
    pub(crate) name: String,
    pub(crate) state: Option<State>,
    pub(crate) cancelled_by: CancelledBy,
    pub(crate) exit: Option<Exit>,
    pub(crate) submitted: Option<Timestamp>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) elapsed: Option<Duration>,
    pub(crate) time_limit: Option<Duration>,
    /// Maximum memory that a task of one of its steps used, in bytes.
    pub(crate) max_memory: Option<u64>,
    /// The requested memory: `4G`.
    pub(crate) requested_memory: Option<String>,
    /// CPU time used.
    pub(crate) cpu_time: Option<Duration>,
    pub(crate) cpus: Option<u32>,
    pub(crate) nodes: String,
}

impl Record {
    pub(crate) fn has_ended(&self) -> bool {
        self.state.is_some_and(State::has_ended)
    }
}

impl Row {
    /// Returns the number of tasks that the row covers.
    pub(crate) fn count(&self) -> usize {
        match &self.tasks {
            Tasks::Single | Tasks::One(_) => 1,
            Tasks::Many(tasks) => tasks.len(),
        }
    }

    pub(crate) fn is_held_by_user(&self) -> bool {
        self.state == State::Pending && self.reason == "JobHeldUser"
    }
}

impl Exit {
    /// Converts a wait status, as the controller stores it.
    pub(crate) fn from_status(status: u32) -> Self {
        Self { code: (status >> 8) & 0xff, signal: status & 0x7f }
    }
}
