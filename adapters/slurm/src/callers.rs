//! Routes each call to the backend of the Unix user that the job runs as. It must not do anything else. The
//! caller determines the user of `start` and `find`, and the handle that of all other calls about a job. No
//! call for one user's job ever runs as another user or as our own user. Discovery runs as our own user.

// A wrapper delegates every method. Otherwise the default would run.
#![deny(clippy::missing_trait_methods)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Budget, Checkup, ConnectContext,
    DiscoveredTool, Discovery, Error, Finding, GroupKey, JobHandle, JobSpec, LogRequest, LogText, Logs,
    Observation, OnBehalfOf, Questions, Result, Started, Subject, ToolTarget, async_trait,
};

use crate::config::{Config, Person};
use crate::core::{Slurm, step_timeout, unlisted_user_error};
use crate::identity::handle::SlurmHandle;
use crate::identity::unix::UnixUser;
use crate::store::disk::Disks;

/// A cluster with one backend per Unix user.
pub(crate) struct UserRouter {
    /// The backend of our own user. It submits nothing, and follows jobs that were submitted before `run_as`
    /// was configured.
    own_backend: Slurm,
    /// Backends by Unix user name.
    by_user: BTreeMap<String, Arc<Slurm>>,
    /// Backends by caller.
    by_caller: BTreeMap<String, Arc<Slurm>>,
}

impl UserRouter {
    pub(crate) async fn connect(
        config: &Config,
        run_as: &BTreeMap<String, Person>,
        context: &ConnectContext,
    ) -> Result<Self> {
        // All users share one jobs folder.
        let disks = Disks::new(step_timeout(config, context));
        let mut router = Self {
            own_backend: Slurm::connect(config, context, &disks, None).await?,
            by_user: BTreeMap::new(),
            by_caller: BTreeMap::new(),
        };
        for (caller, person) in run_as {
            if let Some((other, _)) =
                run_as.iter().find(|(_, other)| other.user == person.user && *other != person)
            {
                return Err(Error::config(format!(
                    "`run_as`: `{other}` and `{caller}` have the same Unix user `{}`, but different groups or tokens",
                    person.user
                )));
            }
            let slurm = match router.by_user.get(&person.user) {
                Some(slurm) => Arc::clone(slurm),
                None => {
                    let user = UnixUser::find(caller, person)?;
                    Arc::new(Slurm::connect(config, context, &disks, Some((person, user))).await?)
                }
            };
            router.by_user.insert(person.user.clone(), Arc::clone(&slurm));
            router.by_caller.insert(caller.clone(), slurm);
        }
        Ok(router)
    }

    /// Returns the backend that starts a job, by the job's caller. Denied if `run_as` does not name the
    /// caller.
    fn backend_for_caller(&self, job: &JobSpec) -> Result<&Slurm> {
        let caller = job.on_behalf_of.as_ref().map(|caller| caller.id());
        let denial = || match &caller {
            Some(caller) => Error::denied(format!(
                "nothing was submitted: `run_as` has no Unix user for the caller `{caller}`"
            )),
            None => Error::denied(
                "nothing was submitted: `run_as` selects the Unix user by the caller, and this call has no authenticated caller",
            ),
        };
        let slurm = caller.as_ref().and_then(|caller| self.by_caller.get(caller)).ok_or_else(denial)?;
        Ok(slurm)
    }

    /// Returns the backend that observes and changes a started job, by the job's Unix user.
    fn backend_for_user(&self, user: Option<&str>) -> Result<&Slurm> {
        let Some(user) = user else { return Ok(&self.own_backend) };
        let slurm = self.by_user.get(user).map(Arc::as_ref);
        slurm.ok_or_else(|| unlisted_user_error(Some(user)))
    }

    fn backend_for_job(&self, handle: &JobHandle) -> Result<&Slurm> {
        // An invalid handle goes to our own backend. All backends report it alike.
        self.backend_for_user(
            SlurmHandle::parse(handle).and_then(|slurm_handle| slurm_handle.user).as_deref(),
        )
    }
}

#[async_trait]
impl Backend for UserRouter {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.backend_for_caller(job)?.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.backend_for_caller(job)?.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.backend_for_job(handle)?.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.backend_for_job(handle)?.cancel(handle).await
    }

    async fn cancel_for(&self, handle: &JobHandle, on_behalf_of: Option<&OnBehalfOf>) -> Result<()> {
        self.backend_for_job(handle)?.cancel_for(handle, on_behalf_of).await
    }

    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        self.backend_for_job(handle)?.forget(handle).await
    }

    fn start_lag(&self) -> Duration {
        self.own_backend.start_lag()
    }

    fn key_lifetime(&self) -> Option<Duration> {
        self.own_backend.key_lifetime()
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.own_backend.group(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        // All jobs of a group belong to one user.
        match jobs.first().map(|job| self.backend_for_job(&job.handle)) {
            Some(Ok(slurm)) => slurm.observe_all(group, jobs).await,
            Some(Err(error)) => vec![Err(error); jobs.len()],
            None => Vec::new(),
        }
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

    fn identity(&self) -> Option<String> {
        self.own_backend.identity()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.own_backend.budgets()
    }
}

#[async_trait]
impl Questions for UserRouter {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        on_behalf_of: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        self.backend_for_job(handle)?.answer_for(handle, question, answer, on_behalf_of).await
    }

    fn list_lag(&self) -> Duration {
        self.own_backend.list_lag()
    }

    fn needs_token(&self) -> bool {
        self.own_backend.needs_token()
    }
}

#[async_trait]
impl Logs for UserRouter {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        self.backend_for_job(handle)?.tail(handle, request).await
    }
}

#[async_trait]
impl Artifacts for UserRouter {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        self.backend_for_job(handle)?.read(handle, name, max_bytes).await
    }
}

#[async_trait]
impl Discovery for UserRouter {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        self.own_backend.discover().await
    }
}

#[async_trait]
impl Checkup for UserRouter {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let users: Vec<&str> = self.by_user.keys().map(String::as_str).collect();
        let mut findings = self.own_backend.run_checks(tools, Some(&users)).await;
        for (user, slurm) in &self.by_user {
            findings.push(slurm.check_user(user).await);
        }
        findings
    }
}
