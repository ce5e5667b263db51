//! The only question of a job: whether it may begin. The job is held until it is answered. The first answer
//! is stored in the job's folder.

use std::time::Duration;

use taskbridge_sdk::{Answer, Error, JobHandle, Questions, Result, Taken, async_trait};

use crate::active_job::APPROVAL;
use crate::backend::Slurm;
use crate::folder::{ANSWER, CANCELLED, PLAN};
use crate::handle::SlurmHandle;
use crate::plan::Plan;
use crate::start::{unreadable, unwritable};

const YES: &[u8] = b"yes";
const NO: &[u8] = b"no";

#[async_trait]
impl Questions for Slurm {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        let Some(place) = self.parse(handle)?.filter(|_| question == APPROVAL) else {
            return Ok(Taken::TooLate);
        };
        let word = if is_yes(answer) { YES } else { NO };
        let (stood, asks) = (self.answered(&place).await?, self.asks(&place).await?);
        if let Some(stood) = stood {
            if stood != word {
                return Ok(Taken::TooLate);
            }
        } else {
            if !asks {
                return Ok(Taken::TooLate);
            }
            let folder = self.folder(&place.key);
            let stands = self
                .disks
                .jobs
                .run(move || folder.write_first(ANSWER, word).map_err(|e| unwritable(&folder, e)))
                .await??;
            if stands != word {
                return Ok(Taken::TooLate);
            }
        }
        // The answer is stored, and acting on it again is harmless. But a release uses only the job's number,
        // which can belong to another job after a crash of the controller. So only a job that was just seen
        // held under our key is released.
        match (word == YES, asks) {
            (true, true) => self.release_job(&place.key, place.job).await?,
            (true, false) => {}
            (false, _) => self.stop(&place).await?,
        }
        Ok(Taken::Accepted)
    }

    /// Returns the maximum, since a job has only one question, even if it is held again later.
    fn list_lag(&self) -> Duration {
        Duration::MAX
    }
}

fn is_yes(answer: &Answer) -> bool {
    matches!(answer, Answer::Accept(form) if form.get("approve").is_some_and(|approve| *approve == true))
}

impl Slurm {
    async fn answered(&self, place: &SlurmHandle) -> Result<Option<Vec<u8>>> {
        let folder = self.folder(&place.key);
        self.disks.jobs.run(move || folder.read(ANSWER).map_err(|e| unreadable(&folder, e))).await?
    }

    /// Returns true if the job is held and waits for an approval.
    async fn asks(&self, place: &SlurmHandle) -> Result<bool> {
        let folder = self.folder(&place.key);
        let waits = self
            .disks
            .jobs
            .run(move || {
                let plan = folder.read_json::<Plan>(PLAN).map_err(|e| unreadable(&folder, e))?;
                let cancelled = folder.has(CANCELLED).map_err(|e| unreadable(&folder, e))?;
                Ok::<_, Error>(plan.is_some_and(|plan| plan.approval.is_some()) && !cancelled)
            })
            .await??;
        if !waits {
            return Ok(false);
        }
        let rows = self.driver.job(place.job).await?;
        Ok(rows.iter().any(|row| row.name == place.key && row.is_held_by_user()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::{Fake, held};

    /// The number was reused for another held job after the first approval.
    #[tokio::test]
    async fn repeated_approval_releases_own_job_only() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        fake.knows().rows = vec![held(7, "tb-a")];
        let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
        let folder = slurm.folder("tb-a");
        folder.make(None).unwrap();
        let plan = Plan { approval: Some("May it begin?".to_owned()), ..Plan::default() };
        folder.write_json(PLAN, &plan).unwrap();
        let yes = || Answer::Accept(json!({"approve": true}).as_object().unwrap().clone());
        let handle = JobHandle::new("lab/7/tb-a");
        let taken = async || slurm.answer(&handle, APPROVAL, &yes()).await.unwrap();
        assert_eq!(taken().await, Taken::Accepted);
        assert_eq!(std::mem::take(&mut fake.knows().released), [7]);
        // The release was lost, and is repeated.
        assert_eq!(taken().await, Taken::Accepted);
        assert_eq!(std::mem::take(&mut fake.knows().released), [7]);
        fake.knows().rows = vec![held(7, "tb-other")];
        assert_eq!(taken().await, Taken::Accepted);
        assert!(fake.knows().released.is_empty());
    }
}
