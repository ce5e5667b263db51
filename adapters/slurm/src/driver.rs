//! [`Driver`]: how the adapter talks to one cluster, in words of the adapter. A driver makes one attempt at one thing, within a
//! time limit of its own, and decides nothing: it does not know keys, folders or tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use taskbridge_sdk::{Result, Timestamp, async_trait};

use self::site::{Partition, Rights};
use crate::state::State;

pub(crate) mod accounting_text;
pub(crate) mod command;
pub(crate) mod nodes;
pub(crate) mod process;
pub(crate) mod queue_text;
pub(crate) mod refusal;
pub(crate) mod rest;
pub(crate) mod site;

/// The number of a job. Each task of an array has one of its own beside that of the array. Slurm may give it to another job
/// after a crash, so it is never believed without the name.
pub(crate) type JobId = u32;

/// How to talk to a cluster. A controller that cannot be reached or does not answer in time is `Unavailable`, but for a submission
/// and a signal that may have arrived, which are `Uncertain`.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// What the cluster says of itself.
    async fn cluster(&self) -> Result<Cluster>;

    /// Whether that says when the controller began, at any time.
    fn tells_when_it_began(&self) -> bool {
        true
    }

    /// Submits a job and holds it: it does not begin before it is released. What Slurm refuses is `Rejected`, in its words.
    async fn submit(&self, order: &Submission) -> Result<JobId>;

    /// What Slurm says of a job that no node of the cluster could ever run, not even with all nodes up and idle. Nothing is
    /// submitted. `None` if one could, or if that is not known.
    async fn never_fits(&self, order: &Submission) -> Result<Option<String>>;

    /// Lets a held job begin. One that is not held or has ended is success; one that is unknown is `Rejected`.
    async fn release(&self, job: JobId) -> Result<()>;

    /// All jobs of our user that the controller still knows, ended ones included.
    async fn queue(&self) -> Result<Vec<Row>>;

    /// The jobs of our user that have this name and that the controller still knows, ended ones included.
    async fn named(&self, name: &str) -> Result<Vec<Row>>;

    /// One job that the controller still knows, whoever's it is: a row for each of its tasks, none if it is unknown.
    async fn job(&self, job: JobId) -> Result<Vec<Row>>;

    /// The jobs of all users that wait, as far as we may see them.
    async fn waiting(&self) -> Result<Vec<Waiting>>;

    /// About how many jobs the accounting is to be asked at a time. A system takes no argument above 128 KB, and a time limit is for each
    /// question.
    fn accounted_at_once(&self) -> usize {
        500
    }

    /// What the accounting has of these jobs. An unknown one is missing.
    async fn accounted(&self, jobs: &[JobId]) -> Result<Vec<Record>>;

    /// Cancels a job, with all tasks of an array, if it still has this name. One that has ended or is unknown is success.
    async fn cancel(&self, job: JobId, name: &str) -> Result<()>;

    /// Sends a signal to the processes of a running job.
    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()>;

    /// Fails unless all that jobs need can be asked for as the user that this one acts as. It changes nothing.
    async fn readiness(&self) -> Result<()>;

    /// The partitions that there are.
    async fn partitions(&self) -> Result<Vec<Partition>>;

    /// What the accounting lets this user use, or ours.
    async fn rights(&self, user: Option<&str>) -> Result<Rights>;
}

/// What a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether there is an accounting to ask (slurmdbd).
    pub(crate) accounting: bool,
    /// When its controller began, where it says so: what it was told shortly before, it may have forgotten.
    pub(crate) booted: Option<Timestamp>,
    /// By which user's number the nodes' own servers (slurmd) cancel a job, where it says so.
    pub(crate) slurmd_user: Option<u32>,
    /// The most tasks of an array, where it says so.
    pub(crate) max_array: Option<u32>,
}

/// Options of sbatch by their long names; `None` for one that takes no value.
pub(crate) type Options = BTreeMap<String, Option<String>>;

/// A job to be submitted and held. Its processes must see nothing of the server's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// Our key.
    pub(crate) name: String,
    pub(crate) comment: String,
    /// The whole batch script, without `#SBATCH` lines.
    pub(crate) script: String,
    /// Absolute, as Slurm takes them: `%a` is the task's number. They are appended to.
    pub(crate) output: String,
    pub(crate) error: String,
    /// Absolute.
    pub(crate) working_dir: String,
    /// Whether Slurm may put it back into the queue.
    pub(crate) requeue: bool,
    /// What else sbatch is told, `array` included.
    pub(crate) options: Options,
}

/// A signal to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Without `SIG`: `USR1`.
    pub(crate) name: String,
    /// To the batch script alone, as `sbatch --signal=B:` does; otherwise to the job's steps, the batch script left out.
    pub(crate) batch: bool,
}

/// Which tasks of an array a row or a record stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tasks {
    /// It is no array; of an array, a record of all that never began, or a row of those that wait and are not named.
    #[default]
    Single,
    /// One of them.
    One(u32),
    /// Those that wait, or never began, and have none of their own.
    Many(Vec<u32>),
}

impl Tasks {
    /// The one task, unless it is no array or stands for several.
    pub(crate) fn only(&self) -> Option<u32> {
        match self {
            Tasks::One(task) => Some(*task),
            Tasks::Single | Tasks::Many(_) => None,
        }
    }
}

/// A job, or some tasks of one, as the controller knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The job's number; for tasks, that of the whole array.
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
    pub(crate) name: String,
    pub(crate) state: State,
    /// Slurm's reason code.
    pub(crate) reason: String,
    /// How it ended, where it has and that is told.
    pub(crate) exit: Option<Exit>,
    pub(crate) submitted: Option<Timestamp>,
    /// When it began, or is expected to.
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) limit: Option<Duration>,
    pub(crate) restarts: u32,
    pub(crate) partition: String,
    pub(crate) nodes: String,
    pub(crate) comment: Option<String>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u32,
    pub(crate) signal: u32,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) job: JobId,
    pub(crate) partition: String,
    pub(crate) priority: f64,
}

/// Who cancelled a job, by what the accounting says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum By {
    /// It does not say so of any job.
    #[default]
    Unsaid,
    /// No user: the controller itself.
    Nobody,
    /// The number of a user.
    User(u32),
}

/// A job or a task of an array, as the accounting knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The job's number; for tasks, that of the whole array.
    pub(crate) job: JobId,
    pub(crate) tasks: Tasks,
    pub(crate) name: String,
    pub(crate) state: Option<State>,
    pub(crate) cancelled_by: By,
    pub(crate) exit: Option<Exit>,
    pub(crate) submitted: Option<Timestamp>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) end: Option<Timestamp>,
    pub(crate) elapsed: Option<Duration>,
    pub(crate) limit: Option<Duration>,
    /// The most memory that a task of one of its steps used, in bytes.
    pub(crate) max_memory: Option<u64>,
    /// What was asked for: `4G`.
    pub(crate) asked_memory: Option<String>,
    /// The time that processors spent on it.
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
    /// How many tasks it stands for.
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
    /// From a wait status, as the controller keeps it.
    pub(crate) fn from_status(status: u32) -> Self {
        Self { code: (status >> 8) & 0xff, signal: status & 0x7f }
    }
}
