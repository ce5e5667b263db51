//! The only question of a job: whether it may begin. The job is held until it is answered. The first answer
//! is stored in the job's folder.

use std::time::Duration;

use taskbridge_sdk::{Answer, AnswerOutcome, Error, JobHandle, Questions, Result, async_trait};

use crate::core::Slurm;
use crate::identity::handle::SlurmHandle;
use crate::observe::active_job::APPROVAL;
use crate::store::folder::{ANSWER, CANCELLED, PLAN, read_error, write_error};
use crate::store::plan::Plan;

const YES: &[u8] = b"yes";
const NO: &[u8] = b"no";

#[async_trait]
impl Questions for Slurm {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let Some(slurm_handle) = self.parse(handle)?.filter(|_| question == APPROVAL) else {
            return Ok(AnswerOutcome::TooLate);
        };
        let decision = if is_yes(answer) { YES } else { NO };
        let (stored_answer, is_waiting) =
            (self.read_answer(&slurm_handle).await?, self.waits_for_approval(&slurm_handle).await?);
        if let Some(stored_answer) = stored_answer {
            if stored_answer != decision {
                return Ok(AnswerOutcome::TooLate);
            }
        } else {
            if !is_waiting {
                return Ok(AnswerOutcome::TooLate);
            }
            let folder = self.folder(&slurm_handle.key);
            let first_answer = self
                .disks
                .jobs
                .run(move || folder.write_first(ANSWER, decision).map_err(|e| write_error(&folder, e)))
                .await??;
            if first_answer != decision {
                return Ok(AnswerOutcome::TooLate);
            }
        }
        // The answer is stored, and acting on it again is harmless. But a release uses only the job's number,
        // which can belong to another job after a crash of the controller. So only a job that was just seen
        // held under our key is released.
        match (decision == YES, is_waiting) {
            (true, true) => self.release_job(&slurm_handle.key, slurm_handle.job).await?,
            (true, false) => {}
            (false, _) => self.stop(&slurm_handle).await?,
        }
        Ok(AnswerOutcome::Accepted)
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
    async fn read_answer(&self, handle: &SlurmHandle) -> Result<Option<Vec<u8>>> {
        let folder = self.folder(&handle.key);
        self.disks.jobs.run(move || folder.read(ANSWER).map_err(|e| read_error(&folder, e))).await?
    }

    /// Returns true if the job is held and waits for an approval.
    async fn waits_for_approval(&self, handle: &SlurmHandle) -> Result<bool> {
        let folder = self.folder(&handle.key);
        let needs_approval = self
            .disks
            .jobs
            .run(move || {
                let plan = folder.read_json::<Plan>(PLAN).map_err(|e| read_error(&folder, e))?;
                let cancelled = folder.has(CANCELLED).map_err(|e| read_error(&folder, e))?;
                Ok::<_, Error>(plan.is_some_and(|plan| plan.approval.is_some()) && !cancelled)
            })
            .await??;
        if !needs_approval {
            return Ok(false);
        }
        let rows = self.driver.job(handle.job).await?;
        Ok(rows.iter().any(|row| row.name == handle.key && row.is_held_by_user()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::driver::tests::fake::{Fake, held_row};

    /// The number was reused for another held job after the first approval.
    #[tokio::test]
    async fn repeated_approval_releases_own_job_only() {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::default();
        fake.state().rows = vec![held_row(7, "tb-a")];
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        let folder = slurm.folder("tb-a");
        folder.create(None).unwrap();
        let plan = Plan { approval: Some("May it begin?".to_owned()), ..Plan::default() };
        folder.write_json(PLAN, &plan).unwrap();
        let yes = || Answer::Accept(json!({"approve": true}).as_object().unwrap().clone());
        let handle = JobHandle::new("lab/7/tb-a");
        let approve = async || slurm.answer(&handle, APPROVAL, &yes()).await.unwrap();
        assert_eq!(approve().await, AnswerOutcome::Accepted);
        assert_eq!(std::mem::take(&mut fake.state().released), [7]);
        // The release was lost, and is repeated.
        assert_eq!(approve().await, AnswerOutcome::Accepted);
        assert_eq!(std::mem::take(&mut fake.state().released), [7]);
        fake.state().rows = vec![held_row(7, "tb-other")];
        assert_eq!(approve().await, AnswerOutcome::Accepted);
        assert!(fake.state().released.is_empty());
    }
}
