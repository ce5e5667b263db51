//! Snapshot of one job during a poll: its queue rows and what its folder contains. It sends no request to
//! Slurm.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Error, Observation, Result, Timestamp};
use tokio::time::Instant;

use crate::driver::Row;
use crate::driver::state::{Phase, State};
use crate::identity::handle::SlurmHandle;
use crate::observe::terminal_state::TerminalEvidence;
use crate::result::log;
use crate::store::array_counts::ArrayCounts;
use crate::store::end_marker::Run;
use crate::store::folder::{
    ANSWER, CANCELLED, FINAL_OBSERVATION, Folder, MAY_RELEASE, RELEASED, Stream, read_error,
};
use crate::store::plan::Plan;
use crate::store::runs::{AllRuns, Runs};

/// Maximum number of marker files that one poll reads of an array that is still active. The next poll
/// continues.
const MAX_MARKERS_PER_POLL: usize = 1000;

/// How long after Slurm shows a job as running its script may take to begin. An administrator's prolog takes
/// time, and clocks differ. A longer delay is reported.
const START_GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);

/// The text that slurmstepd writes into the log of a job that it preempts.
const PREEMPTION_TEXT: &str = "DUE TO PREEMPTION";

/// Number of bytes at the end of a log that are searched for that text.
const PREEMPTION_SEARCH_BYTES: usize = 64 * 1024;

/// A job that is being polled, with what the poll has learnt so far.
pub(crate) struct JobSnapshot {
    pub(crate) handle: SlurmHandle,
    /// A client is waiting for progress: the field `watched` of [`taskbridge_sdk::Subject`].
    pub(crate) watched: bool,
    pub(crate) folder: Folder,
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) folder_state: Option<FolderState>,
    pub(crate) log_bytes: Option<u64>,
    /// For an array: how its finished tasks ended.
    pub(crate) array_counts: Arc<Mutex<ArrayCounts>>,
    /// For an array: the end markers read so far.
    pub(crate) runs: Option<Arc<Mutex<Runs>>>,
    /// All scripts of the job have ended, though Slurm shows it as running.
    pub(crate) scripts_ended: bool,
    /// Number of scripts that have not begun, though Slurm has shown them as running for
    /// [`START_GRACE_PERIOD`].
    pub(crate) not_started: usize,
    /// Whether the log of a requeued job shows a preemption, if the log could be read.
    pub(crate) preempted: Option<bool>,
    /// Why the poll fails for this job: its folder cannot be read.
    pub(crate) error: Option<Error>,
}

/// What a job's folder contains in addition to the plan.
#[derive(Default)]
pub(crate) struct FolderState {
    pub(crate) final_observation: Option<Observation>,
    pub(crate) may_release: bool,
    pub(crate) released_at: Option<Timestamp>,
    pub(crate) answered: bool,
    /// Number of runs whose ends have been read, unless all of them have.
    pub(crate) runs_read: Option<usize>,
    pub(crate) evidence: TerminalEvidence,
}

impl JobSnapshot {
    pub(crate) fn new(handle: SlurmHandle, watched: bool, folder: Folder, plan: Option<Arc<Plan>>) -> Self {
        Self {
            handle,
            watched,
            folder,
            plan,
            rows: Vec::new(),
            folder_state: None,
            log_bytes: None,
            array_counts: Arc::default(),
            runs: None,
            scripts_ended: false,
            not_started: 0,
            preempted: None,
            error: None,
        }
    }

    /// Returns the same job without anything that was read from its folder or the queue.
    pub(crate) fn unread_copy(&self) -> Self {
        let (handle, folder) = (self.handle.clone(), self.folder.clone());
        Self::new(handle, self.watched, folder, self.plan.clone())
    }

    /// Reads from the job's folder what a poll needs; for an array, until the deadline. An error affects this
    /// job only.
    pub(crate) fn read_folder(&mut self, deadline: Instant) {
        if self.error.is_some() {
            return;
        }
        // The log of an unwatched job is not read, because the file system may be shared.
        if self.watched && self.is_running() {
            self.log_bytes = log::log_bytes(&self.folder);
        }
        if self.watched && self.preempted.is_none() && self.restarts() > 0 {
            // If the log cannot be read, preemption stays unknown.
            let log = self.folder.log(Stream::Err, None);
            self.preempted =
                log::tail(&log, PREEMPTION_SEARCH_BYTES).ok().map(|tail| tail.text.contains(PREEMPTION_TEXT));
        }
        if let Err(error) = self.read_active(deadline) {
            self.error = Some(error);
        } else if self.needs_folder_state() {
            self.read_folder_state(deadline);
        }
    }

    /// Reads what is useful only while the job is pending or running; nothing for an ended one.
    fn read_active(&mut self, deadline: Instant) -> Result<()> {
        self.count_array_tasks(deadline)?;
        if !self.needs_folder_state() {
            self.scripts_ended = self.scripts_have_ended()?;
            self.not_started = self.scripts_not_started(now())?;
        }
        Ok(())
    }

    /// Counts how tasks of an array ended while other tasks are still active.
    fn count_array_tasks(&self, deadline: Instant) -> Result<()> {
        let Some(tasks) = self.active_array_tasks() else { return Ok(()) };
        let unread = {
            let mut counts = self.array_counts.lock();
            counts.add_rows(&self.rows);
            counts.unread_tasks(&tasks, &self.rows)
        };
        if !self.watched || unread.is_empty() {
            return Ok(());
        }
        let is_unread = |run: Run| run.task.is_some_and(|task| unread.contains(&task));
        let ends = self
            .folder
            .read_ends(MAX_MARKERS_PER_POLL, deadline, is_unread)
            .map_err(|e| read_error(&self.folder, e))?;
        self.array_counts.lock().add_markers(&ends);
        Ok(())
    }

    /// Returns all tasks of an array, if some of them are pending or running.
    pub(crate) fn active_array_tasks(&self) -> Option<Vec<u32>> {
        self.plan.as_ref().filter(|_| self.is_active()).and_then(|plan| plan.tasks())
    }

    /// Returns true if only the accounting database may know how some tasks ended, and a client waits for
    /// progress.
    pub(crate) fn needs_records(&self) -> bool {
        let tasks = self.active_array_tasks().filter(|_| self.watched && self.error.is_none());
        tasks.is_some_and(|tasks| self.array_counts.lock().needs_accounting(&tasks, &self.rows))
    }

    /// Reads what the folder contains in addition to the plan; for a job that is over, everything about its
    /// end.
    pub(crate) fn read_folder_state(&mut self, deadline: Instant) {
        let (folder, is_ended) = (&self.folder, !self.is_active());
        let read = || -> std::io::Result<FolderState> {
            let final_observation = if is_ended { folder.read_json(FINAL_OBSERVATION)? } else { None };
            let (mut evidence, mut runs_read) = (TerminalEvidence::default(), None);
            if is_ended && final_observation.is_none() {
                let all_runs = match &self.runs {
                    Some(runs) => {
                        let mut runs = runs.lock();
                        let all_runs = runs.read(folder, Some(deadline))?;
                        runs_read = all_runs.is_none().then(|| runs.count());
                        all_runs
                    }
                    None => Runs::default().read(folder, None)?,
                };
                let AllRuns { started_runs, end_markers } = all_runs.unwrap_or_default();
                (evidence.started_runs, evidence.end_markers) = (started_runs, end_markers);
            }
            Ok(FolderState {
                final_observation,
                may_release: folder.has(MAY_RELEASE)?,
                released_at: folder.modified_at(RELEASED),
                answered: folder.has(ANSWER)?,
                runs_read,
                evidence: TerminalEvidence { cancel_requested: folder.has(CANCELLED)?, ..evidence },
            })
        };
        match read() {
            Ok(state) => self.folder_state = Some(state),
            Err(error) => self.error = Some(read_error(folder, error)),
        }
    }

    /// Returns the name that the job must have.
    pub(crate) fn name(&self) -> &str {
        match self.plan.as_ref().and_then(|plan| plan.attached.as_ref()) {
            Some(attached) => &attached.name,
            None => &self.handle.key,
        }
    }

    /// Returns whether a queue row with this number belongs to this job. Slurm reuses numbers. A requeued job
    /// counts as submitted anew.
    pub(crate) fn owns_row(&self, row: &Row) -> bool {
        let attached = self.plan.as_ref().and_then(|plan| plan.attached.as_ref());
        let is_same =
            |submitted| row.submitted == submitted || (row.restarts > 0 && row.submitted > submitted);
        row.name == self.name() && attached.is_none_or(|attached| is_same(attached.submitted))
    }

    pub(crate) fn is_active(&self) -> bool {
        self.rows.iter().any(|row| !row.state.has_ended())
    }

    /// Returns how often one of our non-array jobs was requeued.
    pub(crate) fn restarts(&self) -> u32 {
        let is_single = |plan: &&Arc<Plan>| plan.array.is_none() && plan.attached.is_none();
        let rows = self.plan.as_ref().filter(is_single).map_or(&[][..], |_| &self.rows[..]);
        rows.iter().map(|row| row.restarts).max().unwrap_or(0)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.rows.iter().any(|row| row.state.phase() == Phase::Running)
    }

    /// Returns true if Slurm shows each script as running or ended, and all have recorded their ends. False
    /// for a job that may be requeued, since another run can follow. False for a completing job, since Slurm
    /// reports the reason of its end next.
    fn scripts_have_ended(&self) -> Result<bool> {
        let Some(plan) = self.plan.as_ref().filter(|plan| !plan.requeue && plan.attached.is_none()) else {
            return Ok(false);
        };
        let runs = plan.tasks().map_or(1, |tasks| tasks.len());
        let has_started = |row: &Row| {
            let is_executing = row.state.phase() == Phase::Running && row.state != State::Completing;
            row.state.has_ended() || is_executing
        };
        if !self.rows.iter().all(has_started) {
            return Ok(false);
        }
        let end_count = self.folder.count_ends().map_err(|e| read_error(&self.folder, e))?;
        Ok(end_count >= runs)
    }

    /// Returns how many scripts Slurm has shown as running for at least [`START_GRACE_PERIOD`] that have not
    /// created their fence. The fence of an earlier run counts. Zero for an unwatched or attached job.
    fn scripts_not_started(&self, now: Timestamp) -> Result<usize> {
        let is_submitted_here = self.plan.as_ref().is_some_and(|plan| plan.attached.is_none());
        let is_late = |row: &&Row| {
            row.state == State::Running && row.start.is_some_and(|start| start + START_GRACE_PERIOD <= now)
        };
        let late_rows: Vec<&Row> = self.rows.iter().filter(is_late).collect();
        if late_rows.is_empty() || !is_submitted_here || !self.watched {
            return Ok(0);
        }
        let fences = self.folder.fences().map_err(|e| read_error(&self.folder, e))?;
        let started: HashSet<Option<u32>> = fences.iter().map(|(run, _)| run.task).collect();
        Ok(late_rows.iter().filter(|row| !started.contains(&row.tasks.single_task())).count())
    }

    pub(crate) fn needs_folder_state(&self) -> bool {
        !self.is_active() || self.rows.iter().any(Row::is_held_by_user)
    }

    /// Returns true if the job is over and the accounting database must be queried for its end.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_active()
            && self.plan.is_some()
            && self
                .folder_state
                .as_ref()
                .is_some_and(|state| state.final_observation.is_none() && state.runs_read.is_none())
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::JobState;

    use super::*;
    use crate::driver::Tasks;
    use crate::driver::tests::fake::row;
    use crate::observe::active_job;

    /// Slurm shows the job as running, and its script has not begun after `START_GRACE_PERIOD`.
    #[test]
    fn running_job_without_script_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        let handle = SlurmHandle { cluster: "lab".to_owned(), job: 7, key: "tb-a".to_owned(), user: None };
        let array = Plan { array: Some("0-3".to_owned()), ..Plan::default() };
        let start = Timestamp::from_millis(1_795_339_753_000);
        let mut snapshot = JobSnapshot::new(handle, true, folder, Some(Arc::new(array.clone())));
        let task = |task, state| Row { tasks: Tasks::One(task), start: Some(start), ..row(7, "tb-a", state) };
        snapshot.rows = vec![task(0, State::Running), task(1, State::Running), task(2, State::Configuring)];
        std::fs::create_dir(snapshot.folder.file("ran/1.0")).unwrap();
        let late_scripts = |snapshot: &JobSnapshot, time| snapshot.scripts_not_started(start + time).unwrap();
        assert_eq!(
            late_scripts(&snapshot, START_GRACE_PERIOD - Duration::from_secs(1)),
            0,
            "the grace period has not passed"
        );
        assert_eq!(late_scripts(&snapshot, START_GRACE_PERIOD), 1);
        let observation = || Observation::new(JobState::Running).with_message("job 7: running");
        let message_of =
            |plan, count| active_job::with_not_started(observation(), plan, count).message.unwrap();
        assert_eq!(message_of(&array, 1), "job 7: running; shown as running but not begun: 1");

        let single = Plan::default();
        snapshot.plan = Some(Arc::new(single.clone()));
        snapshot.rows = vec![Row { start: Some(start), ..row(7, "tb-a", State::Running) }];
        assert_eq!(late_scripts(&snapshot, START_GRACE_PERIOD), 1);
        assert_eq!(message_of(&single, 1), "job 7: running; its script has not begun");
        std::fs::create_dir(snapshot.folder.file("ran/job.0")).unwrap();
        assert_eq!(late_scripts(&snapshot, START_GRACE_PERIOD), 0);
        assert_eq!(message_of(&single, 0), "job 7: running");
    }
}
