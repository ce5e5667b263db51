//! Reads the jobs' folders during a poll. On a slow file system this takes several polls. Each one continues
//! where the last one stopped. It must not send a request to Slurm.

use std::time::Duration;

use taskbridge_sdk::{Error, Result};

use crate::backend::Slurm;
use crate::bounded_scan::{ScanOutcome, each};
use crate::folder::{Folder, PLAN};
use crate::handle::SlurmHandle;
use crate::job_snapshot::JobSnapshot;
use crate::jobs_folder::is_mounted;
use crate::plan::Plan;
use crate::start::unreadable;

/// How long Slurm may show a job as running whose scripts have all ended. A controller that crashed at such
/// an end can do so until the job's time limit.
pub(crate) const SHOWN_WITHIN: Duration = Duration::from_secs(45);

impl Slurm {
    /// Returns the jobs with their plans. A plan is read once and then cached.
    pub(crate) async fn cases(&self, places: Vec<(SlurmHandle, bool)>) -> Result<Vec<JobSnapshot>> {
        let mut cases: Vec<JobSnapshot> = places
            .into_iter()
            .map(|(place, watched)| {
                let (folder, plan) = (self.folder(&place.key), self.plan(&place.key));
                JobSnapshot::new(place, watched, folder, plan)
            })
            .collect();
        let unread: Vec<(usize, Folder)> = cases
            .iter()
            .enumerate()
            .filter(|(_, case)| case.plan.is_none())
            .map(|(at, case)| (at, case.folder.clone()))
            .collect();
        let jobs = self.jobs.clone();
        let read = move |(at, folder): (usize, Folder), _| {
            let plan = match folder.read_json::<Plan>(PLAN) {
                Ok(None) => is_mounted(&jobs).map(|()| None),
                plan => plan.map_err(|e| unreadable(&folder, e)),
            };
            (at, plan)
        };
        let mut hangs = None;
        for turn in each(&self.disks.jobs, unread, self.reading_time(), read).await {
            match turn {
                // A job of another user is not ours.
                ScanOutcome::Done((at, Ok(plan))) => {
                    let case = &mut cases[at];
                    let ours = plan.filter(|plan| plan.is_of(self.setup.user.as_ref()));
                    case.plan = ours.map(|plan| self.keep_plan(&case.place.key, plan));
                }
                ScanOutcome::Done((at, Err(error))) => cases[at].wrong = Some(error),
                ScanOutcome::Later((at, folder)) => cases[at].wrong = Some(not_reached(&folder)),
                ScanOutcome::Hangs(error) => hangs = Some(error),
            }
        }
        // The plans that were read are kept. Nothing else is attempted while the folder hangs.
        hangs.map_or(Ok(cases), Err)
    }

    /// Reads what the folders contain in addition to the plans. Jobs that earlier polls did not reach come
    /// first.
    pub(crate) async fn read_folders(&self, mut cases: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
        cases.sort_by_cached_key(|case| self.known.queue_order(&case.place.key));
        for case in cases.iter_mut().filter(|case| !case.is_alive()) {
            self.go_on_with(case);
        }
        let bare: Vec<JobSnapshot> = cases.iter().map(JobSnapshot::unread).collect();
        let read = |mut case: JobSnapshot, until| {
            case.read(until);
            case
        };
        let turns = each(&self.disks.jobs, cases, self.reading_time(), read).await;
        turns.into_iter().zip(bare).map(|(turn, bare)| self.taken(turn, bare)).collect()
    }

    /// Treats jobs as ended, whatever Slurm shows, once this process has seen for [`SHOWN_WITHIN`] that all
    /// their scripts have ended.
    pub(crate) async fn believe_markers(&self, mut cases: Vec<JobSnapshot>) -> Vec<JobSnapshot> {
        for case in &mut cases {
            case.scripts_ended =
                case.scripts_ended && self.known.scripts_ended_for(&case.place.key) >= SHOWN_WITHIN;
        }
        let (mut believed, mut others): (Vec<JobSnapshot>, Vec<JobSnapshot>) =
            cases.into_iter().partition(|case| case.scripts_ended);
        for case in &mut believed {
            case.rows.retain(|row| row.state.has_ended());
            self.go_on_with(case);
        }
        let bare: Vec<JobSnapshot> = believed.iter().map(JobSnapshot::unread).collect();
        let read = |mut case: JobSnapshot, until| {
            case.read_marks(until);
            case
        };
        let turns = each(&self.disks.jobs, believed, self.reading_time(), read).await;
        others.extend(turns.into_iter().zip(bare).map(|(turn, bare)| self.taken(turn, bare)));
        others
    }

    /// Reuses what earlier polls have read of an ended array.
    fn go_on_with(&self, case: &mut JobSnapshot) {
        if case.plan.as_ref().is_some_and(|plan| plan.array.is_some()) {
            case.runs = Some(self.known.runs(&case.place.key));
        }
    }

    fn taken(&self, turn: ScanOutcome<JobSnapshot, JobSnapshot>, mut bare: JobSnapshot) -> JobSnapshot {
        match turn {
            ScanOutcome::Done(case) => {
                self.known.reached(&case.place.key);
                case
            }
            ScanOutcome::Later(mut case) => {
                self.known.enqueue(&case.place.key);
                // A running job can be reported without its markers.
                if case.needs_marks() && case.wrong.is_none() {
                    case.wrong = Some(not_reached(&case.folder));
                }
                case
            }
            ScanOutcome::Hangs(error) => {
                bare.wrong = Some(error);
                bare
            }
        }
    }

    /// Returns the maximum time of one scan of the folders. A poll makes up to three: plans, folders, and
    /// markers of jobs that Slurm still shows as running.
    fn reading_time(&self) -> Duration {
        self.disks.jobs.limit() / 2
    }
}

fn not_reached(folder: &Folder) -> Error {
    Error::unavailable(format!(
        "the file system of the jobs' folders is slow, and {} has its turn at the next look",
        folder.path().display()
    ))
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, JobState, Observation, Subject};

    use super::*;
    use crate::fake::Fake;
    use crate::hanging;

    /// Creates a job without pending or running parts: an array of this many tasks, or a single job.
    fn ended(slurm: &Slurm, job: u32, tasks: Option<u32>) -> JobHandle {
        let key = format!("tb-{job}");
        let folder = slurm.folder(&key);
        folder.make(None).unwrap();
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

    async fn look(slurm: &Slurm, handles: &[JobHandle]) -> Vec<Result<Observation>> {
        slurm.poll_jobs(&Subject::watched(handles)).await
    }

    /// The ends of a large array on a slow file system are read over several polls, which delay no other job.
    #[tokio::test]
    async fn large_array_is_read_over_polls() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::with(Box::new(Fake::default()), dir.path());
        let handles = [ended(&slurm, 7, Some(150)), ended(&slurm, 8, None)];
        let _slow = hanging::slow(&slurm.folder("tb-7").file("ends"), Duration::from_millis(8));
        let mut read = Vec::new();
        loop {
            let mut seen = look(&slurm, &handles).await;
            let (other, array) = (seen.remove(1).unwrap(), seen.remove(0).unwrap());
            assert!(matches!(other.state, JobState::Succeeded(_)), "{other:?}");
            if matches!(array.state, JobState::Succeeded(_)) {
                break;
            }
            let message = array.message.unwrap();
            let so_far = message.strip_prefix("it has ended; how its tasks ended is being read, ").unwrap();
            read.push(so_far.split(' ').next().unwrap().parse::<usize>().unwrap());
        }
        assert!(read.len() > 2 && read.is_sorted_by(|a, b| a < b), "each look reads on: {read:?}");
        assert_eq!(slurm.known.runs("tb-7").lock().count(), 0, "it is forgotten");
    }

    /// Each of many jobs on a slow file system is read in turn.
    #[tokio::test]
    async fn slow_folder_reads_are_fair() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::with(Box::new(Fake::default()), dir.path());
        let mut open: Vec<JobHandle> = (1..=60).map(|job| ended(&slurm, job, None)).collect();
        let _slow = hanging::slow(dir.path(), Duration::from_millis(15));
        let mut looks = 0;
        while !open.is_empty() {
            looks += 1;
            assert!(looks < 30, "{open:?}");
            let seen = look(&slurm, &open).await;
            let mut seen = seen.iter();
            open.retain(|_| match seen.next().unwrap() {
                Ok(seen) => !matches!(seen.state, JobState::Succeeded(_)),
                Err(error) => {
                    assert!(error.to_string().contains("has its turn at the next look"), "{error}");
                    true
                }
            });
        }
        assert!(looks > 1, "none goes on for longer than whoever waits for it");
    }
}
