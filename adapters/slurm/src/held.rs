//! What a look does about jobs that are held: whether one is to be released once more, since its user may hold it, or the controller may
//! have forgotten a release as it crashed; and which one is one too many.

use std::collections::HashSet;
use std::time::Duration;

use taskbridge_sdk::{Result, Timestamp};
use tokio::time::Instant;

use crate::backend::Slurm;
use crate::case::Case;
use crate::driver::JobId;
use crate::folder::{Folder, ID};
use crate::handle::is_key;
use crate::start::read_id;
use crate::sweep::is_given_up;
use crate::watch::Queue;

/// How often a look tries to release a job whose release failed, or to cancel one that is one too many.
pub(crate) const TRY_EVERY: Duration = Duration::from_secs(10);

/// By how much the clocks of a controller and a file system may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// For how long a controller that crashed may have been away. What is held after one of a longer time was held by its user since.
pub(crate) const AWAY_FOR: Duration = Duration::from_secs(600);

/// For how long it is believed when the controller began. It is asked for only where a job is held that was released.
pub(crate) const BOOTED_FOR: Duration = Duration::from_secs(60);

/// Within this, a server that begins anew has gone on with the starts that it was at, however long it was away.
const RESUMED_WITHIN: Duration = Duration::from_hours(1);

/// When the controller began, where it said so, and until when that is believed.
#[derive(Clone, Copy)]
pub(crate) struct Booted {
    at: Option<Timestamp>,
    until: Instant,
}

impl Slurm {
    /// A job that is held although it was released has been held by its user since, who may have reasons; unless the controller
    /// began anew soon after it was released, and has forgotten that.
    pub(crate) async fn is_to_be_released(&self, released: Option<Timestamp>) -> bool {
        let Some(released) = released else { return true };
        self.booted().await.is_some_and(|booted| {
            booted + CLOCKS_DIFFER > released && released + AWAY_FOR + CLOCKS_DIFFER > booted
        })
    }

    /// Cancels jobs that are held under a key which has another job, or of whose start nothing can come any more. A submission can leave
    /// one long after it was given up, and nobody else would ever look at it.
    pub(crate) async fn cancel_duplicates(&self, queue: &Queue, cases: &[Case]) -> Result<()> {
        if queue.held().is_empty() {
            return Ok(());
        }
        let own: HashSet<JobId> = cases.iter().map(|case| case.place.job).collect();
        let held: Vec<(JobId, String, Folder)> = queue
            .held()
            .iter()
            .filter(|row| is_key(&row.name) && !own.contains(&row.job))
            .map(|row| (row.job, row.name.clone(), self.folder(&row.name)))
            .collect();
        if held.is_empty() {
            return Ok(());
        }
        let jobs = self.jobs.clone();
        let too_many = self
            .disks
            .jobs
            .run(move || {
                let judged = |(job, key, folder): (JobId, String, Folder)| match folder.read(ID).ok()? {
                    Some(bytes) => (read_id(&bytes)? != job).then_some((job, key, Duration::ZERO)),
                    // Otherwise it is a start under way, or a job of somebody else's folder.
                    None => is_given_up(&jobs, &folder).then_some((job, key, RESUMED_WITHIN)),
                };
                held.into_iter().filter_map(judged).collect::<Vec<_>>()
            })
            .await?;
        for (job, key, after) in too_many {
            let name = format!("{key}/{job}");
            if self.known.too_many_for(&name) >= after && self.known.is_due(&name, TRY_EVERY) {
                // It is held: if this fails, the next look tries again.
                drop(self.driver.cancel(job, &key).await);
            }
        }
        Ok(())
    }

    /// When the controller began, where it says so.
    async fn booted(&self) -> Option<Timestamp> {
        if !self.driver.tells_when_it_began() {
            return None;
        }
        let mut known = self.booted.lock().await;
        if let Some(booted) = known.filter(|booted| Instant::now() < booted.until) {
            return booted.at;
        }
        // One that does not answer is not asked again by the next job of the same look.
        let (at, keep) = match self.driver.cluster().await {
            Ok(cluster) => (cluster.booted, BOOTED_FOR),
            Err(_) => (None, TRY_EVERY),
        };
        *known = Some(Booted { at, until: Instant::now() + keep });
        at
    }
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, Subject};

    use super::*;
    use crate::fake::{Fake, held};
    use crate::folder::PLAN;
    use crate::plan::Plan;
    use crate::sweep::sweep;

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_start_was_given_up_a_day_ago_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let (fake, jobs, day) = (Fake::default(), dir.path(), Duration::from_hours(24));
        let slurm = Slurm::with(Box::new(fake.clone()), jobs);
        for key in ["tb-given-up", "tb-begins", "tb-recorded", "tb-of-no-plan"] {
            let folder = slurm.folder(key);
            folder.make(None).unwrap();
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
        fake.knows().rows = rows.map(|(job, name)| held(job, name)).into();
        let handles = [JobHandle::new("lab/7/tb-a")];
        let look = async || drop(slurm.look(&Subject::watched(&handles)).await);
        look().await;
        assert!(fake.knows().cancelled.is_empty(), "a server that was away goes on with its starts");
        tokio::time::advance(RESUMED_WITHIN).await;
        look().await;
        assert_eq!(fake.knows().cancelled, [9]);
    }
}
