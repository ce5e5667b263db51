//! [`Backend`]: one configured, connected engine. The contract stands as bullets on each method, and
//! [`crate::suite`] has one test per bullet.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Artifacts, Budget, Checkup, Discovery, GroupKey, Hooks, JobHandle, JobSpec, Logs, Observation,
    OnBehalfOf, Questions, Result, Started, Subject, Wakeups,
};

/// One configured, connected engine.
///
/// A backend makes one attempt and says how it went. It never retries and never sleeps, and it keeps only what it
/// may lose at any time (a connection, a token, an ETag). Its futures may be dropped at any await point.
///
/// The server runs each call on a thread of the backend's own. A panic fails that call, and is still a bug. Methods that are not
/// async must not block.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Starts the job, or finds the one that an earlier call under the same key started.
    ///
    /// - Returns when the engine has accepted the job, without waiting for its end.
    /// - Called again with the same key and `may_exist`, it returns the same job; a second one never starts, also
    ///   when the two calls run at the same time.
    /// - Where the engine cannot promise that (no key, no fence), a call with `may_exist` only looks for the job,
    ///   and answers [`crate::ErrorKind::Uncertain`] when it does not find it.
    /// - A first request whose reply was lost is `Uncertain`; one with `may_exist` is `Unavailable`, since whether the
    ///   job exists is as unknown as before. Otherwise `Unavailable` and `Limited` mean that nothing started.
    /// - What the engine refuses is `Rejected`, with the engine's words.
    /// - `Uncertain` has the server look for the job for a while; where no look can find it, [`crate::Error::for_good`] says so.
    async fn start(&self, job: &JobSpec) -> Result<Started>;

    /// Looks for the job that an earlier `start` under this key may have started. It starts nothing.
    ///
    /// - Finds a job of this key in any state, for as long as the engine remembers it.
    /// - `None` means that the engine does not know it now; a request that is still on its way may yet arrive.
    /// - If the engine has no way to find a running job, returns `Uncertain` with [`crate::Error::for_good`]. After `None` the
    ///   server reports that the job was never started.
    async fn find(&self, job: &JobSpec) -> Result<Option<Started>>;

    /// Looks once at a job.
    ///
    /// - A job that the engine does not know is [`crate::JobState::Gone`], not an error. The server takes it for lost once the
    ///   job is older than [`Backend::start_lag`].
    /// - An ended job is seen the same every time, for as long as the engine keeps it.
    /// - A fault of the network or the engine is an error, never a state of the job.
    /// - A note has the same number in every look, and the last look at a job that ended has its last notes.
    async fn observe(&self, handle: &JobHandle) -> Result<Observation>;

    /// Asks the engine to stop a job.
    ///
    /// - Success means that the engine took the request; the job may end a while later, and may still succeed.
    /// - A job that has already ended, or is unknown, is success. The server repeats the request while the job is younger than
    ///   [`Backend::start_lag`] and has not ended.
    /// - Asking twice is harmless.
    async fn cancel(&self, handle: &JobHandle) -> Result<()>;

    /// Asks the engine to stop a job on somebody's behalf: on that of whoever it was started for, unless somebody else wants it
    /// stopped.
    ///
    /// - The default is [`Backend::cancel`]: the backend acts in its own name for everybody. One that acts with each
    ///   person's credentials takes theirs, and refuses (`Denied`) where it has none of theirs.
    async fn cancel_for(&self, handle: &JobHandle, _whom: Option<&OnBehalfOf>) -> Result<()> {
        self.cancel(handle).await
    }

    /// The task of this job was deleted: no caller can read its log or its files any more. A backend that keeps them deletes them,
    /// unless the job still runs.
    ///
    /// The call is best effort: it is made once, and not at all where the process that deletes the task has not connected this engine. So
    /// what is kept has a limit of its own as well. The default does nothing.
    async fn forget(&self, _handle: &JobHandle) -> Result<()> {
        Ok(())
    }

    /// How long after its start a job may be unknown to the engine, because reads lag behind starts. The default is zero: the
    /// engine knows a job from its start on.
    fn start_lag(&self) -> Duration {
        Duration::ZERO
    }

    /// The group whose one engine call answers for this job too. The default is one group for the whole backend.
    fn group(&self, _handle: &JobHandle) -> GroupKey {
        GroupKey::new("")
    }

    /// Looks at many jobs of one group; the answers come in the order of `jobs`.
    ///
    /// - Each answer is what [`Backend::observe`] would have said; that of a job which nobody watches may lack the
    ///   progress, the message and the notes of one that runs on. Its state and its questions are always told.
    /// - The default looks at one after the other; override it where the engine answers for many in one call.
    async fn observe_all(&self, _group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let mut seen = Vec::with_capacity(jobs.len());
        for job in jobs {
            seen.push(self.observe(&job.handle).await);
        }
        seen
    }

    /// How to answer what jobs ask, where the engine's jobs can ask.
    fn questions(&self) -> Option<&dyn Questions> {
        None
    }

    /// How to read what jobs print, where the engine keeps it.
    fn logs(&self) -> Option<&dyn Logs> {
        None
    }

    /// How to read the files that jobs leave, where the engine keeps them.
    fn artifacts(&self) -> Option<&dyn Artifacts> {
        None
    }

    /// Where hints about changed jobs come from, where the engine gives any.
    fn wakeups(&self) -> Option<&dyn Wakeups> {
        None
    }

    /// How to learn what the engine could run, where it can say so.
    fn discovery(&self) -> Option<&dyn Discovery> {
        None
    }

    /// How to look the backend over, where it can say more than that it is connected.
    fn checkup(&self) -> Option<&dyn Checkup> {
        None
    }

    /// What this backend is connected to: its kind and the account, cluster, server or folder that its jobs belong to, such as
    /// `slurm lab`. It is stored with every task, and a task is left alone by a backend with another identity.
    ///
    /// - `None` while it is not known; once known it never changes. It is read from memory, without a call to the engine.
    /// - The same after a restart, with other credentials, on another pod, and after a repository or host was renamed. Where in
    ///   doubt it leaves a part out: two engines that share an identity cost less than one that changes it.
    /// - It contains no credentials.
    fn identity(&self) -> Option<String> {
        None
    }

    /// How many calls the engine still allows, where that is known without asking it.
    ///
    /// - The same names every time, as far as they are known yet, and few of them.
    fn budgets(&self) -> Vec<Budget> {
        Vec::new()
    }

    /// How to read what is posted to `/hooks/NAME`, where that is configured.
    fn hooks(&self) -> Option<&dyn Hooks> {
        None
    }
}
