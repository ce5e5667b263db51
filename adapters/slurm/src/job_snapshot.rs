//! Snapshot of one job during a poll: its queue rows and what its folder contains. It sends no request to
//! Slurm.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Error, Observation, Result, Timestamp};
use tokio::time::Instant;

use crate::array_counts::ArrayCounts;
use crate::driver::Row;
use crate::end::Run;
use crate::folder::{ANSWER, CANCELLED, Folder, GO, OBSERVED, RELEASED, Stream};
use crate::handle::SlurmHandle;
use crate::log;
use crate::plan::Plan;
use crate::runs::{AllRuns, Runs};
use crate::start::unreadable;
use crate::state::{Phase, State};
use crate::terminal_state::TerminalEvidence;

/// Maximum number of marker files that one poll reads of an array that is still active. The next poll
/// continues.
const READ_AT_ONCE: usize = 1000;

/// How long after Slurm shows a job as running its script may take to begin. An administrator's prolog takes
/// time, and clocks differ. A longer delay is reported.
const BEGINS_WITHIN: Duration = Duration::from_secs(5 * 60);

/// The text that slurmstepd writes into the log of a job that it preempts.
const PREEMPTION: &str = "DUE TO PREEMPTION";

/// Number of bytes at the end of a log that are searched for that text.
const PREEMPTION_WITHIN: usize = 64 * 1024;

/// A job that is being polled, with what the poll has learnt so far.
pub(crate) struct JobSnapshot {
    pub(crate) place: SlurmHandle,
    /// A client is waiting for progress: the field `watched` of [`taskbridge_sdk::Subject`].
    pub(crate) watched: bool,
    pub(crate) folder: Folder,
    pub(crate) plan: Option<Arc<Plan>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) marks: Option<FolderState>,
    pub(crate) printed: Option<u64>,
    /// For an array: how its finished tasks ended.
    pub(crate) tally: Arc<Mutex<ArrayCounts>>,
    /// For an array: the end markers read so far.
    pub(crate) runs: Option<Arc<Mutex<Runs>>>,
    /// All scripts of the job have ended, though Slurm shows it as running.
    pub(crate) scripts_ended: bool,
    /// Number of scripts that have not begun, though Slurm has shown them as running for [`BEGINS_WITHIN`].
    pub(crate) not_begun: usize,
    /// Whether the log of a requeued job shows a preemption, if the log could be read.
    pub(crate) preempted: Option<bool>,
    /// Why the poll fails for this job: its folder cannot be read.
    pub(crate) wrong: Option<Error>,
}

/// What a job's folder contains in addition to the plan.
#[derive(Default)]
pub(crate) struct FolderState {
    pub(crate) observed: Option<Observation>,
    pub(crate) may_go: bool,
    pub(crate) released: Option<Timestamp>,
    pub(crate) answered: bool,
    /// Number of runs whose ends have been read, unless all of them have.
    pub(crate) unread_after: Option<usize>,
    pub(crate) facts: TerminalEvidence,
}

impl JobSnapshot {
    pub(crate) fn new(place: SlurmHandle, watched: bool, folder: Folder, plan: Option<Arc<Plan>>) -> Self {
        Self {
            place,
            watched,
            folder,
            plan,
            rows: Vec::new(),
            marks: None,
            printed: None,
            tally: Arc::default(),
            runs: None,
            scripts_ended: false,
            not_begun: 0,
            preempted: None,
            wrong: None,
        }
    }

    /// Returns the same job without anything that was read from its folder or the queue.
    pub(crate) fn unread(&self) -> Self {
        let (place, folder) = (self.place.clone(), self.folder.clone());
        Self::new(place, self.watched, folder, self.plan.clone())
    }

    /// Reads from the job's folder what a poll needs; for an array, until the deadline. An error affects this
    /// job only.
    pub(crate) fn read(&mut self, until: Instant) {
        if self.wrong.is_some() {
            return;
        }
        // The log of an unwatched job is not read, because the file system may be shared.
        if self.watched && self.is_running() {
            self.printed = log::printed(&self.folder);
        }
        if self.watched && self.preempted.is_none() && self.restarts() > 0 {
            // If the log cannot be read, preemption stays unknown.
            let log = self.folder.log(Stream::Err, None);
            self.preempted =
                log::tail(&log, PREEMPTION_WITHIN).ok().map(|tail| tail.text.contains(PREEMPTION));
        }
        if let Err(error) = self.read_while_alive(until) {
            self.wrong = Some(error);
        } else if self.needs_marks() {
            self.read_marks(until);
        }
    }

    /// Reads what is useful only while the job is pending or running; nothing for an ended one.
    fn read_while_alive(&mut self, until: Instant) -> Result<()> {
        self.count(until)?;
        if !self.needs_marks() {
            self.scripts_ended = self.scripts_have_ended()?;
            self.not_begun = self.scripts_not_begun(now())?;
        }
        Ok(())
    }

    /// Counts how tasks of an array ended while other tasks are still active.
    fn count(&self, until: Instant) -> Result<()> {
        let Some(tasks) = self.tasks_that_go_on() else { return Ok(()) };
        let unread = {
            let mut tally = self.tally.lock();
            tally.add_rows(&self.rows);
            tally.unread(&tasks, &self.rows)
        };
        if !self.watched || unread.is_empty() {
            return Ok(());
        }
        let is_unread = |run: Run| run.task.is_some_and(|task| unread.contains(&task));
        let ends =
            self.folder.ends_of(READ_AT_ONCE, until, is_unread).map_err(|e| unreadable(&self.folder, e))?;
        self.tally.lock().mark(&ends);
        Ok(())
    }

    /// Returns all tasks of an array, if some of them are pending or running.
    pub(crate) fn tasks_that_go_on(&self) -> Option<Vec<u32>> {
        self.plan.as_ref().filter(|_| self.is_alive()).and_then(|plan| plan.tasks())
    }

    /// Returns true if only the accounting database may know how some tasks ended, and a client waits for
    /// progress.
    pub(crate) fn needs_records(&self) -> bool {
        let tasks = self.tasks_that_go_on().filter(|_| self.watched && self.wrong.is_none());
        tasks.is_some_and(|tasks| self.tally.lock().needs_accounting(&tasks, &self.rows))
    }

    /// Reads what the folder contains in addition to the plan; for a job that is over, everything about its
    /// end.
    pub(crate) fn read_marks(&mut self, until: Instant) {
        let (folder, over) = (&self.folder, !self.is_alive());
        let read = || -> std::io::Result<FolderState> {
            let observed = if over { folder.read_json(OBSERVED)? } else { None };
            let (mut facts, mut unread_after) = (TerminalEvidence::default(), None);
            if over && observed.is_none() {
                let all = match &self.runs {
                    Some(runs) => {
                        let mut runs = runs.lock();
                        let all = runs.read(folder, Some(until))?;
                        unread_after = all.is_none().then(|| runs.count());
                        all
                    }
                    None => Runs::default().read(folder, None)?,
                };
                let AllRuns { ran, ends } = all.unwrap_or_default();
                (facts.ran, facts.ends) = (ran, ends);
            }
            Ok(FolderState {
                observed,
                may_go: folder.has(GO)?,
                released: folder.written(RELEASED),
                answered: folder.has(ANSWER)?,
                unread_after,
                facts: TerminalEvidence { cancelled: folder.has(CANCELLED)?, ..facts },
            })
        };
        match read() {
            Ok(marks) => self.marks = Some(marks),
            Err(error) => self.wrong = Some(unreadable(folder, error)),
        }
    }

    /// Returns the name that the job must have.
    pub(crate) fn name(&self) -> &str {
        match self.plan.as_ref().and_then(|plan| plan.attached.as_ref()) {
            Some(attached) => &attached.name,
            None => &self.place.key,
        }
    }

    /// Returns whether a queue row with this number belongs to this job. Slurm reuses numbers. A requeued job
    /// counts as submitted anew.
    pub(crate) fn is_of(&self, row: &Row) -> bool {
        let attached = self.plan.as_ref().and_then(|plan| plan.attached.as_ref());
        let is_same =
            |submitted| row.submitted == submitted || (row.restarts > 0 && row.submitted > submitted);
        row.name == self.name() && attached.is_none_or(|attached| is_same(attached.submitted))
    }

    pub(crate) fn is_alive(&self) -> bool {
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
        let is_running = |row: &Row| {
            let goes_on = row.state.phase() == Phase::Running && row.state != State::Completing;
            row.state.has_ended() || goes_on
        };
        if !self.rows.iter().all(is_running) {
            return Ok(false);
        }
        let ended = self.folder.count_ends().map_err(|e| unreadable(&self.folder, e))?;
        Ok(ended >= runs)
    }

    /// Returns how many scripts Slurm has shown as running for at least [`BEGINS_WITHIN`] that have not
    /// created their fence. The fence of an earlier run counts. Zero for an unwatched or attached job.
    fn scripts_not_begun(&self, now: Timestamp) -> Result<usize> {
        let is_ours = self.plan.as_ref().is_some_and(|plan| plan.attached.is_none());
        let is_late = |row: &&Row| {
            row.state == State::Running && row.start.is_some_and(|start| start + BEGINS_WITHIN <= now)
        };
        let late: Vec<&Row> = self.rows.iter().filter(is_late).collect();
        if late.is_empty() || !is_ours || !self.watched {
            return Ok(0);
        }
        let fences = self.folder.fences().map_err(|e| unreadable(&self.folder, e))?;
        let begun: HashSet<Option<u32>> = fences.iter().map(|(run, _)| run.task).collect();
        Ok(late.iter().filter(|row| !begun.contains(&row.tasks.only())).count())
    }

    pub(crate) fn needs_marks(&self) -> bool {
        !self.is_alive() || self.rows.iter().any(Row::is_held_by_user)
    }

    /// Returns true if the job is over and the accounting database must be queried for its end.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_alive()
            && self.plan.is_some()
            && self
                .marks
                .as_ref()
                .is_some_and(|marks| marks.observed.is_none() && marks.unread_after.is_none())
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::JobState;

    use super::*;
    use crate::active_job;
    use crate::driver::Tasks;
    use crate::fake::row;

    /// Slurm shows the job as running, and its script has not begun after `BEGINS_WITHIN`.
    #[test]
    fn running_job_without_script_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.make(None).unwrap();
        let place = SlurmHandle { cluster: "lab".to_owned(), job: 7, key: "tb-a".to_owned(), user: None };
        let array = Plan { array: Some("0-3".to_owned()), ..Plan::default() };
        let began = Timestamp::from_millis(1_795_339_753_000);
        let mut case = JobSnapshot::new(place, true, folder, Some(Arc::new(array.clone())));
        let task = |task, state| Row { tasks: Tasks::One(task), start: Some(began), ..row(7, "tb-a", state) };
        case.rows = vec![task(0, State::Running), task(1, State::Running), task(2, State::Configuring)];
        std::fs::create_dir(case.folder.file("ran/1.0")).unwrap();
        let after = |case: &JobSnapshot, time| case.scripts_not_begun(began + time).unwrap();
        assert_eq!(after(&case, BEGINS_WITHIN - Duration::from_secs(1)), 0, "a node may take its time");
        assert_eq!(after(&case, BEGINS_WITHIN), 1);
        let seen = || Observation::new(JobState::Running).with_message("job 7: as told");
        let told = |plan, count| active_job::with_not_begun(seen(), plan, count).message.unwrap();
        assert_eq!(told(&array, 1), "job 7: as told; 1 shown as running without having begun");

        let single = Plan::default();
        case.plan = Some(Arc::new(single.clone()));
        case.rows = vec![Row { start: Some(began), ..row(7, "tb-a", State::Running) }];
        assert_eq!(after(&case, BEGINS_WITHIN), 1);
        assert_eq!(told(&single, 1), "job 7: as told; its script has not begun");
        std::fs::create_dir(case.folder.file("ran/job.0")).unwrap();
        assert_eq!(after(&case, BEGINS_WITHIN), 0);
        assert_eq!(told(&single, 0), "job 7: as told");
    }
}
