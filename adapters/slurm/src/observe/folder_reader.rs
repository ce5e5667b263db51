//! Reads the jobs' folders during a poll. On a slow file system this takes several polls. Each one continues
//! where the last one stopped. It must not send a request to Slurm.

use std::time::Duration;

use taskbridge_sdk::{Error, Result};

use crate::core::Slurm;
use crate::identity::handle::SlurmHandle;
use crate::observe::bounded_scan::{ScanOutcome, scan};
use crate::observe::snapshot::JobSnapshot;
use crate::store::folder::{Folder, PLAN, read_error};
use crate::store::jobs_folder::check_mounted;
use crate::store::plan::Plan;

/// How long Slurm may show a job as running whose scripts have all ended. A controller that crashed at such
/// an end can do so until the job's time limit.
pub(crate) const ENDED_GRACE_PERIOD: Duration = Duration::from_secs(45);

impl Slurm {
    /// Returns the jobs with their plans. A plan is read once and then cached.
    pub(crate) async fn load_snapshots(&self, handles: Vec<(SlurmHandle, bool)>) -> Result<Vec<JobSnapshot>> {
        let mut snapshots: Vec<JobSnapshot> = handles
            .into_iter()
            .map(|(handle, watched)| {
                let (folder, plan) = (self.folder(&handle.key), self.plan(&handle.key));
                JobSnapshot::new(handle, watched, folder, plan)
            })
            .collect();
        let unread: Vec<(usize, Folder)> = snapshots
            .iter()
            .enumerate()
            .filter(|(_, snapshot)| snapshot.plan.is_none())
            .map(|(at, snapshot)| (at, snapshot.folder.clone()))
            .collect();
        let jobs = self.jobs_dir.clone();
        let read = move |(at, folder): (usize, Folder), _| {
            let plan = match folder.read_json::<Plan>(PLAN) {
                Ok(None) => check_mounted(&jobs).map(|()| None),
                plan => plan.map_err(|e| read_error(&folder, e)),
            };
            (at, plan)
        };
        let mut hang_error = None;
        for outcome in scan(&self.disks.jobs, unread, self.scan_time(), read).await {
            match outcome {
                // A job of another user is not ours.
                ScanOutcome::Done((at, Ok(plan))) => {
                    let snapshot = &mut snapshots[at];
                    let own_plan = plan.filter(|plan| plan.is_of(self.setup.user.as_ref()));
                    snapshot.plan = own_plan.map(|plan| self.cache_plan(&snapshot.handle.key, plan));
                }
                ScanOutcome::Done((at, Err(error))) => snapshots[at].error = Some(error),
                ScanOutcome::Deferred((at, folder)) => snapshots[at].error = Some(not_reached_error(&folder)),
                ScanOutcome::Hung(error) => hang_error = Some(error),
            }
        }
        // The plans that were read are kept. Nothing else is attempted while the folder hangs.
        hang_error.map_or(Ok(snapshots), Err)
    }

    /// Reads what the folders contain in addition to the plans. Jobs that earlier polls did not reach come
    /// first.
    pub(crate) async fn read_folders(&self, mut snapshots: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
        snapshots.sort_by_cached_key(|snapshot| self.job_cache.queue_order(&snapshot.handle.key));
        for snapshot in snapshots.iter_mut().filter(|snapshot| !snapshot.is_active()) {
            self.resume_reading(snapshot);
        }
        let fallbacks: Vec<JobSnapshot> = snapshots.iter().map(JobSnapshot::unread_copy).collect();
        let read = |mut snapshot: JobSnapshot, deadline| {
            snapshot.read_folder(deadline);
            snapshot
        };
        let outcomes = scan(&self.disks.jobs, snapshots, self.scan_time(), read).await;
        outcomes
            .into_iter()
            .zip(fallbacks)
            .map(|(outcome, fallback)| self.apply_outcome(outcome, fallback))
            .collect()
    }

    /// Treats jobs as ended, whatever Slurm shows, once this process has seen for [`ENDED_GRACE_PERIOD`] that
    /// all their scripts have ended.
    pub(crate) async fn end_by_markers(&self, mut snapshots: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
        for snapshot in &mut snapshots {
            snapshot.scripts_ended = snapshot.scripts_ended
                && self.job_cache.scripts_ended_for(&snapshot.handle.key) >= ENDED_GRACE_PERIOD;
        }
        let (mut ended, mut others): (Vec<JobSnapshot>, Vec<JobSnapshot>) =
            snapshots.into_iter().partition(|snapshot| snapshot.scripts_ended);
        for snapshot in &mut ended {
            snapshot.rows.retain(|row| row.state.has_ended());
            self.resume_reading(snapshot);
        }
        let fallbacks: Vec<JobSnapshot> = ended.iter().map(JobSnapshot::unread_copy).collect();
        let read = |mut snapshot: JobSnapshot, deadline| {
            snapshot.read_folder_state(deadline);
            snapshot
        };
        let outcomes = scan(&self.disks.jobs, ended, self.scan_time(), read).await;
        others.extend(
            outcomes
                .into_iter()
                .zip(fallbacks)
                .map(|(outcome, fallback)| self.apply_outcome(outcome, fallback)),
        );
        others
    }

    /// Reuses what earlier polls have read of an ended array.
    fn resume_reading(&self, snapshot: &mut JobSnapshot) {
        if snapshot.plan.as_ref().is_some_and(|plan| plan.array.is_some()) {
            snapshot.runs = Some(self.job_cache.runs(&snapshot.handle.key));
        }
    }

    fn apply_outcome(
        &self,
        outcome: ScanOutcome<JobSnapshot, JobSnapshot>,
        mut fallback: JobSnapshot,
    ) -> JobSnapshot {
        match outcome {
            ScanOutcome::Done(snapshot) => {
                self.job_cache.dequeue(&snapshot.handle.key);
                snapshot
            }
            ScanOutcome::Deferred(mut snapshot) => {
                self.job_cache.enqueue(&snapshot.handle.key);
                // A running job can be reported without its markers.
                if snapshot.needs_folder_state() && snapshot.error.is_none() {
                    snapshot.error = Some(not_reached_error(&snapshot.folder));
                }
                snapshot
            }
            ScanOutcome::Hung(error) => {
                fallback.error = Some(error);
                fallback
            }
        }
    }

    /// Returns the maximum time of one scan of the folders. A poll makes up to three: plans, folders, and
    /// markers of jobs that Slurm still shows as running.
    fn scan_time(&self) -> Duration {
        self.disks.jobs.stall_timeout() / 2
    }
}

fn not_reached_error(folder: &Folder) -> Error {
    Error::unavailable(format!(
        "the file system of the jobs folder is slow; {} is read in the next poll",
        folder.path().display()
    ))
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, JobState, Observation, Subject};

    use super::*;
    use crate::driver::tests::fake::Fake;
    use crate::store::disk::tests::hanging;

    /// Creates a job without pending or running parts: an array of this many tasks, or a single job.
    fn ended_job(slurm: &Slurm, job: u32, tasks: Option<u32>) -> JobHandle {
        let key = format!("tb-{job}");
        let folder = slurm.folder(&key);
        folder.create(None).unwrap();
        let array = tasks.map(|tasks| format!("0-{}", tasks - 1));
        let plan = Plan { array, root: folder.work(), ..Plan::default() };
        std::fs::write(folder.file(PLAN), serde_json::to_vec(&plan).unwrap()).unwrap();
        let runs = match tasks {
            Some(tasks) => (0..tasks).map(|task| format!("{task}.0")).collect(),
            None => vec!["job.0".to_owned()],
        };
        for run in runs {
            std::fs::create_dir(folder.file("ran").join(&run)).unwrap();
            std::fs::write(folder.file("ends").join(&run), "code=0\n").unwrap();
        }
        JobHandle::new(format!("lab/{job}/{key}"))
    }

    async fn poll(slurm: &Slurm, handles: &[JobHandle]) -> Vec<Result<Observation>> {
        slurm.poll_jobs(&Subject::watched(handles)).await
    }

    /// The ends of a large array on a slow file system are read over several polls, which delay no other job.
    #[tokio::test]
    async fn large_array_is_read_over_polls() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::for_test(Box::new(Fake::default()), dir.path());
        let handles = [ended_job(&slurm, 7, Some(150)), ended_job(&slurm, 8, None)];
        let _slow = hanging::slow_down(&slurm.folder("tb-7").file("ends"), Duration::from_millis(8));
        let mut progress = Vec::new();
        loop {
            let mut observations = poll(&slurm, &handles).await;
            let (other, array) = (observations.remove(1).unwrap(), observations.remove(0).unwrap());
            assert!(matches!(other.state, JobState::Succeeded(_)), "{other:?}");
            if matches!(array.state, JobState::Succeeded(_)) {
                break;
            }
            let message = array.message.unwrap();
            let so_far = message.strip_prefix("the job has ended; reading the ends of its tasks, ").unwrap();
            progress.push(so_far.split(' ').next().unwrap().parse::<usize>().unwrap());
        }
        assert!(
            progress.len() > 2 && progress.is_sorted_by(|a, b| a < b),
            "each poll continues: {progress:?}"
        );
        assert_eq!(slurm.job_cache.runs("tb-7").lock().count(), 0, "the end markers are dropped");
    }

    /// Each of many jobs on a slow file system is read in turn.
    #[tokio::test]
    async fn slow_folder_reads_are_fair() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::for_test(Box::new(Fake::default()), dir.path());
        let mut pending: Vec<JobHandle> = (1..=60).map(|job| ended_job(&slurm, job, None)).collect();
        let _slow = hanging::slow_down(dir.path(), Duration::from_millis(15));
        let mut polls = 0;
        while !pending.is_empty() {
            polls += 1;
            assert!(polls < 30, "{pending:?}");
            let results = poll(&slurm, &pending).await;
            let mut results = results.iter();
            pending.retain(|_| match results.next().unwrap() {
                Ok(observation) => !matches!(observation.state, JobState::Succeeded(_)),
                Err(error) => {
                    assert!(error.to_string().contains("is read in the next poll"), "{error}");
                    true
                }
            });
        }
        assert!(polls > 1, "one poll cannot read all folders");
    }
}
