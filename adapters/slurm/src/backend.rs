//! What the server calls. It must not keep anything: [`crate::core`] does.

use taskbridge_sdk::{
    Abilities, Backend, Error, ErrorKind, GroupKey, JobHandle, JobSpec, Observation, Result, Started,
    Subject, async_trait,
};

use crate::config::Target;
use crate::core::Slurm;
use crate::identity::handle::SlurmHandle;

/// Returns true unless the job attaches to an existing job or sends a signal to one.
fn is_submission(job: &JobSpec) -> bool {
    job.parse_target::<Target>().is_ok_and(|target| target.attach.is_none() && target.signal.is_none())
}

/// Returns true if the error leaves open whether an earlier attempt submitted the job.
fn is_inconclusive(error: &Error) -> bool {
    error.kind().is_transient() || error.kind() == ErrorKind::Uncertain
}

/// Adds to an error what an administrator can do if the outcome of an earlier attempt stays unknown.
fn with_cleanup_hint(job: &JobSpec, error: &Error) -> Error {
    let key = job.key.as_str();
    Error::new(
        error.kind(),
        format!(
            "{error}; an earlier attempt may have left a job in the queue: `scancel --name={key}` cancels it"
        ),
    )
}

#[async_trait]
impl Backend for Slurm {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.sweep_if_due();
        self.begin(job).await.map_err(|error| {
            match job.may_exist && is_inconclusive(&error) && is_submission(job) {
                true => with_cleanup_hint(job, &error),
                false => error,
            }
        })
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let observations = self.poll_jobs(&Subject::watched(std::slice::from_ref(handle))).await;
        observations.into_iter().next().expect("poll_jobs returns one result per handle")
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        match self.parse(handle)? {
            Some(slurm_handle) => self.stop(&slurm_handle).await,
            None => Ok(()),
        }
    }

    /// Returns the group. One squeue call returns all jobs of a user on a cluster.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        SlurmHandle::parse(handle).map_or_else(|| GroupKey::new(""), |slurm_handle| slurm_handle.group())
    }

    async fn observe_all(&self, _: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll_jobs(jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: Some(self),
            artifacts: Some(self),
            discovery: Some(self),
            checkup: Some(self),
            ..Abilities::default()
        }
    }

    /// Returns the cluster's name, once the controller has reported it. Slurm does not allow a cluster to be
    /// renamed.
    fn identity(&self) -> Option<String> {
        self.cluster.get().map(|cluster| format!("slurm {}", cluster.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::fake::Fake;

    #[tokio::test]
    async fn identity_is_cluster_name() {
        let dir = tempfile::tempdir().unwrap();
        let slurm = Slurm::for_test(Box::new(Fake::default()), dir.path());
        assert_eq!(slurm.identity(), None, "the controller has not been queried");
        slurm.cluster().await.unwrap();
        assert_eq!(slurm.identity().as_deref(), Some("slurm lab"));
    }
}
