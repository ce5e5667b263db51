//! [`Backend`]: one configured connection to an engine. Each bullet on a method is part of the contract.
//! [`crate::suite`] tests most of them; `forget`, `identity`, `budgets` and the methods `.._for` have no
//! test.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Abilities, Budget, GroupKey, JobHandle, JobSpec, Observation, OnBehalfOf, Result, Started, Subject,
};

/// One configured connection to an engine.
///
/// Each method makes one attempt and reports the result. A backend never retries and never sleeps. It keeps
/// only state that it can afford to lose at any time, such as a connection, a token or an ETag. Its futures
/// may be dropped at any await point.
///
/// The server runs each call on the backend's own threads. A panic fails only that call, but is still a bug.
/// Methods that are not async must not block.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Starts the job, or finds the job that an earlier call under the same key started.
    ///
    /// - Returns when the engine has accepted the job, without waiting for its end.
    /// - When called again with the same key and `may_exist`, it returns the same job. A second job never
    ///   starts, even when the two calls run at the same time.
    /// - If the engine cannot guarantee that (it has neither a key nor a fence), a call with `may_exist` only
    ///   searches for the job. It returns [`crate::ErrorKind::Uncertain`] if it does not find the job.
    /// - If the reply to a first request is lost, the error is `Uncertain`. With `may_exist` it is
    ///   `Unavailable`, because it remains unknown whether the job exists. In all other cases `Unavailable`
    ///   and `Limited` mean that nothing started.
    /// - If the engine refuses the job, the error is `Rejected` and contains the engine's message.
    /// - After `Uncertain`, the server searches for the job for a while. If no search can find it, mark the
    ///   error with [`crate::Error::into_final`].
    async fn start(&self, job: &JobSpec) -> Result<Started>;

    /// Searches for the job that an earlier `start` under this key may have started. It starts nothing.
    ///
    /// - Finds a job with this key in any state, for as long as the engine remembers it.
    /// - `None` means that the engine does not know the job now. A request in flight may still arrive later.
    /// - If the engine has no way to find a running job, returns `Uncertain` with
    ///   [`crate::Error::into_final`]. After `None`, the server reports that the job was never started.
    async fn find(&self, job: &JobSpec) -> Result<Option<Started>>;

    /// Polls a job once.
    ///
    /// - If the engine does not know the job, the state is [`crate::JobState::Gone`], not an error. The
    ///   server treats the job as lost after five polls in a row without it, each at least a quarter of
    ///   [`Backend::start_lag`] after the one before.
    /// - If the engine has renamed the job, the observation contains the new name
    ///   ([`Observation::renamed_to`]) in each poll by the old one.
    /// - An ended job gives the same observation every time, for as long as the engine keeps it.
    /// - A fault of the network or of the engine is an error, never a state of the job.
    /// - A note has the same number in every observation. The last observation of an ended job contains its
    ///   last notes.
    async fn observe(&self, handle: &JobHandle) -> Result<Observation>;

    /// Asks the engine to stop a job.
    ///
    /// - Success means that the engine accepted the request. The job may end later, and may still succeed.
    /// - If the job has already ended or is unknown, the result is success. The server repeats the request
    ///   while the job is younger than [`Backend::start_lag`] and has not ended.
    /// - Repeated requests are harmless.
    /// - If the engine has no way to stop this job, the error is [`crate::ErrorKind::Unsupported`]. The server
    ///   does not ask again, and reports that the job continues.
    async fn cancel(&self, handle: &JobHandle) -> Result<()>;

    /// Asks the engine to stop a job on behalf of a person: the person who cancels it or, otherwise, the
    /// person who requested it.
    ///
    /// - The default calls [`Backend::cancel`]: the backend acts with its own credentials for every person. A
    ///   backend that acts with each person's credentials must use theirs, and returns `Denied` if it has
    ///   none for this person.
    async fn cancel_for(&self, handle: &JobHandle, _by: Option<&OnBehalfOf>) -> Result<()> {
        self.cancel(handle).await
    }

    /// Deletes what the backend keeps of a job whose task was deleted, unless the job still runs. No caller
    /// can read the job's log or files any more.
    ///
    /// This call is best effort. The server makes it at most once, and not at all if the process that deletes
    /// the task has not connected this backend. The backend must therefore also limit what it keeps. The
    /// default does nothing.
    async fn forget(&self, _handle: &JobHandle) -> Result<()> {
        Ok(())
    }

    /// Returns how long after its start a job may be unknown to the engine, because reads lag behind starts.
    /// The default is zero: the engine knows a job immediately.
    fn start_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns how long the engine refuses a second job under a key, if that time is limited. `None`, the
    /// default, means for ever.
    ///
    /// - Once the first attempt ([`JobSpec::first_attempt_at`]) is that old, the server does not call `start`
    ///   with `may_exist` any more, because a second job might start. It only calls `find`.
    /// - Return less than the engine promises, by the possible difference between the clocks.
    fn key_lifetime(&self) -> Option<Duration> {
        None
    }

    /// Returns the group of a job: one engine call can report on several jobs of a group. The group of a
    /// handle never changes. The default is one group for the whole backend.
    fn group(&self, _handle: &JobHandle) -> GroupKey {
        GroupKey::new("")
    }

    /// Polls several jobs of one group, not always all of them. Returns the results in the order of `jobs`.
    ///
    /// - Each result equals that of [`Backend::observe`]. For an unwatched job that still runs, it may omit
    ///   the progress, the message and the notes. It always contains the state and the questions.
    /// - The default polls the jobs one after the other. Override it if the engine can report on many jobs in
    ///   one call.
    async fn observe_all(&self, _group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let mut observations = Vec::with_capacity(jobs.len());
        for job in jobs {
            observations.push(self.observe(&job.handle).await);
        }
        observations
    }

    /// Returns the optional abilities of this backend. The default has none.
    ///
    /// - The server may call it before each use. It is answered from memory.
    fn abilities(&self) -> Abilities<'_> {
        Abilities::default()
    }

    /// Returns what this backend is connected to: its kind, and the account, cluster, server or folder that
    /// owns its jobs, such as `slurm lab`. The server stores it with every task. A backend with another
    /// identity does not touch the task.
    ///
    /// - `None` while it is unknown. Once known, it never changes. It is read from memory, without a call to
    ///   the engine.
    /// - It stays the same after a restart, with other credentials, on another pod, and after a repository or
    ///   host was renamed. If in doubt, leave a part out: two engines with the same identity do less harm
    ///   than an identity that changes.
    /// - It contains no credentials.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns how many calls the engine still allows, if known without a call to the engine.
    ///
    /// - There are few budgets, and each keeps its name. A budget that is not known yet is missing.
    fn budgets(&self) -> Vec<Budget> {
        Vec::new()
    }
}
