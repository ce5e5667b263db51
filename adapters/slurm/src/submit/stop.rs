//! Cancels a job: checks it before and after, since scancel reports success even if it cancelled nothing. It
//! must not cancel a job that is only followed, or that belongs to another user.

use taskbridge_sdk::{Error, Result};

use crate::core::Slurm;
use crate::driver::Row;
use crate::driver::state::{Phase, State};
use crate::identity::handle::{JobId, SlurmHandle};
use crate::store::folder::{CANCELLED, PLAN, read_error, write_error};
use crate::store::plan::Plan;

impl Slurm {
    pub(crate) async fn stop(&self, handle: &SlurmHandle) -> Result<()> {
        if self.active_rows(handle.job, &handle.key).await?.is_empty() {
            return Ok(());
        }
        let (folder, user) = (self.folder(&handle.key), self.setup.user.clone());
        let is_ours = self
            .disks
            .jobs
            .run(move || {
                let plan = folder.read_json::<Plan>(PLAN).map_err(|e| read_error(&folder, e))?;
                // An attached job is only followed, and left alone.
                if plan.is_some_and(|plan| plan.attached.is_some() || !plan.is_of(user.as_ref())) {
                    return Ok(false);
                }
                // Without accounting, this file is the later proof of the cancellation.
                folder.write(CANCELLED, b"", 0o600).map_err(|e| write_error(&folder, e))?;
                Ok::<_, Error>(true)
            })
            .await??;
        if !is_ours {
            return Ok(());
        }
        self.driver.cancel(handle.job, &handle.key).await?;
        self.job_cache.record_change(&handle.key);
        let remaining = self.active_rows(handle.job, &handle.key).await?;
        // A running job may take a while to end; a pending one ends at once.
        match remaining.iter().find(|row| row.state.phase() == Phase::Waiting && row.state != State::Requeued)
        {
            Some(row) => Err(Error::unavailable(format!(
                "scancel reported success, but the job is still {}",
                row.state.name()
            ))),
            None => Ok(()),
        }
    }

    async fn active_rows(&self, job: JobId, name: &str) -> Result<Vec<Row>> {
        let mut rows = self.driver.job(job).await?;
        rows.retain(|row| row.name == name && !row.state.has_ended());
        Ok(rows)
    }
}
