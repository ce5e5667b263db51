//! What a poll does about held jobs. It decides whether to release a held job again: not if its user has held
//! it, but if the controller lost the release in a crash. It also finds and cancels duplicates.

use std::collections::HashSet;
use std::time::Duration;

use taskbridge_sdk::{Result, Timestamp};
use tokio::time::Instant;

use crate::core::{ControllerStart, Slurm};
use crate::identity::handle::{JobId, is_key};
use crate::observe::snapshot::JobSnapshot;
use crate::store::folder::{Folder, ID};
use crate::store::plan::read_id;
use crate::store::queue_cache::Queue;
use crate::store::sweep::is_start_abandoned;

/// Interval between attempts of polls to release a job whose release failed, or to cancel a duplicate.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum difference between the clocks of a controller and a file system.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Maximum time from a release to the start of a controller that lost it in a crash. If the controller
/// started later, a held job counts as held by its user.
pub(crate) const RELEASE_LOSS_WINDOW: Duration = Duration::from_secs(600);

/// How long the controller's start time is cached. It is requested only if a released job is held.
pub(crate) const START_TIME_TTL: Duration = Duration::from_secs(60);

/// The time in which a restarted server resumes its interrupted starts, however long it was down.
const RESUME_WINDOW: Duration = Duration::from_hours(1);

impl Slurm {
    /// Decides whether a held job is to be released. If it was released before, its user has held it since,
    /// perhaps for a reason. The exception: the controller restarted soon after the release and has lost it.
    pub(crate) async fn should_release(&self, released_at: Option<Timestamp>) -> bool {
        let Some(released_at) = released_at else { return true };
        self.controller_start_time().await.is_some_and(|booted| {
            booted + MAX_CLOCK_SKEW > released_at
                && released_at + RELEASE_LOSS_WINDOW + MAX_CLOCK_SKEW > booted
        })
    }

    /// Cancels held jobs whose key belongs to another job, or whose start was given up. A late submission can
    /// leave such a job, and nothing else would ever poll it.
    pub(crate) async fn cancel_duplicates(&self, queue: &Queue, snapshots: &[JobSnapshot]) -> Result<()> {
        if queue.held().is_empty() {
            return Ok(());
        }
        let polled_jobs: HashSet<JobId> = snapshots.iter().map(|snapshot| snapshot.handle.job).collect();
        let held_jobs: Vec<(JobId, String, Folder)> = queue
            .held()
            .iter()
            .filter(|row| is_key(&row.name) && !polled_jobs.contains(&row.job))
            .map(|row| (row.job, row.name.clone(), self.folder(&row.name)))
            .collect();
        if held_jobs.is_empty() {
            return Ok(());
        }
        let jobs = self.jobs_dir.clone();
        let duplicates = self
            .disks
            .jobs
            .run(move || {
                let find_duplicate =
                    |(job, key, folder): (JobId, String, Folder)| match folder.read(ID).ok()? {
                        Some(bytes) => (read_id(&bytes)? != job).then_some((job, key, Duration::ZERO)),
                        // Otherwise the start is in progress, or the job belongs to another server's folder.
                        None => is_start_abandoned(&jobs, &folder).then_some((job, key, RESUME_WINDOW)),
                    };
                held_jobs.into_iter().filter_map(find_duplicate).collect::<Vec<_>>()
            })
            .await?;
        for (job, key, min_age) in duplicates {
            let name = format!("{key}/{job}");
            if self.job_cache.duplicate_for(&name) >= min_age && self.job_cache.is_due(&name, RETRY_INTERVAL)
            {
                // The job is held. If this fails, the next poll tries again.
                drop(self.driver.cancel(job, &key).await);
            }
        }
        Ok(())
    }

    /// Returns when the controller started, if it reports that.
    async fn controller_start_time(&self) -> Option<Timestamp> {
        if !self.driver.reports_boot_time() {
            return None;
        }
        let mut cached = self.controller_start.lock().await;
        if let Some(start) = cached.filter(|start| Instant::now() < start.expires_at) {
            return start.at;
        }
        // After a failure, the next job of the same poll sends no second request.
        let (at, ttl) = match self.driver.cluster().await {
            Ok(cluster) => (cluster.boot_time, START_TIME_TTL),
            Err(_) => (None, RETRY_INTERVAL),
        };
        *cached = Some(ControllerStart { at, expires_at: Instant::now() + ttl });
        at
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, Subject};

    use super::*;
    use crate::driver::tests::fake::{Fake, held_row};
    use crate::store::folder::PLAN;
    use crate::store::plan::Plan;
    use crate::store::sweep::sweep;

    /// A held job whose start was given up a day ago is cancelled, once the server had time to resume starts.
    #[tokio::test(start_paused = true)]
    async fn abandoned_held_job_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let (fake, jobs, day) = (Fake::default(), dir.path(), Duration::from_hours(24));
        let slurm = Slurm::for_test(Box::new(fake.clone()), jobs);
        for key in ["tb-given-up", "tb-begins", "tb-recorded", "tb-of-no-plan"] {
            let folder = slurm.folder(key);
            folder.create(None).unwrap();
            if key != "tb-of-no-plan" {
                folder.write_json(PLAN, &Plan::default()).unwrap();
            }
        }
        slurm.folder("tb-recorded").write_first(ID, b"11").unwrap();
        sweep(jobs, Duration::MAX).unwrap();
        let swept = std::fs::metadata(jobs.join(".swept")).unwrap().modified().unwrap();
        for key in ["tb-given-up", "tb-recorded"] {
            let plan = std::fs::File::open(slurm.folder(key).file(PLAN)).unwrap();
            plan.set_modified(swept - day).unwrap();
        }
        let rows = [
            (9, "tb-given-up"),
            (10, "tb-begins"),
            (11, "tb-recorded"),
            (12, "tb-of-no-plan"),
            (13, "tb-elsewhere"),
        ];
        fake.state().rows = rows.map(|(job, name)| held_row(job, name)).into();
        let handles = [JobHandle::new("lab/7/tb-a")];
        let poll = async || drop(slurm.poll_jobs(&Subject::watched(&handles)).await);
        poll().await;
        assert!(fake.state().cancelled.is_empty(), "a restarted server may resume its starts");
        tokio::time::advance(RESUME_WINDOW).await;
        poll().await;
        assert_eq!(fake.state().cancelled, [9]);
    }
}
