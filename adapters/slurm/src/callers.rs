//! Routes each call to the backend of the Unix user that the job runs as. It must not do anything else. The
//! caller determines the user of `start` and `find`, and the handle that of all other calls about a job. No
//! call for one user's job ever runs as another user or as our own user. Discovery runs as our own user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{
    Answer, ArtifactData, Artifacts, Backend, Checkup, Connect, DiscoveredTool, Discovery, Error, Finding,
    GroupKey, JobHandle, JobSpec, LogRequest, LogText, Logs, Observation, Questions, Result, Started,
    Subject, Taken, ToolTarget, async_trait,
};

use crate::backend::{Slurm, limit, not_named};
use crate::config::{Config, Person};
use crate::disk::Disks;
use crate::handle::SlurmHandle;
use crate::unix::UnixUser;

/// A cluster with one backend per Unix user.
pub(crate) struct Callers {
    /// The backend of our own user. It submits nothing, and follows jobs that were submitted before `run_as`
    /// was configured.
    own: Slurm,
    /// Backends by Unix user name.
    users: BTreeMap<String, Arc<Slurm>>,
    /// Backends by caller.
    people: BTreeMap<String, Arc<Slurm>>,
}

impl Callers {
    pub(crate) async fn connect(
        config: &Config,
        people: &BTreeMap<String, Person>,
        context: &Connect,
    ) -> Result<Self> {
        // All users share one jobs folder.
        let disks = Disks::new(limit(config, context));
        let mut callers = Self {
            own: Slurm::connect(config, context, &disks, None).await?,
            users: BTreeMap::new(),
            people: BTreeMap::new(),
        };
        for (caller, person) in people {
            if let Some((other, _)) =
                people.iter().find(|(_, other)| other.user == person.user && *other != person)
            {
                return Err(Error::config(format!(
                    "`run_as`: `{other}` and `{caller}` are both the Unix user `{}`, with another group or token",
                    person.user
                )));
            }
            let slurm = match callers.users.get(&person.user) {
                Some(slurm) => Arc::clone(slurm),
                None => {
                    let user = UnixUser::find(caller, person)?;
                    Arc::new(Slurm::connect(config, context, &disks, Some((person, user))).await?)
                }
            };
            callers.users.insert(person.user.clone(), Arc::clone(&slurm));
            callers.people.insert(caller.clone(), slurm);
        }
        Ok(callers)
    }

    /// Returns the backend that starts a job, by the job's caller. Denied if `run_as` does not name the
    /// caller.
    fn of_caller(&self, job: &JobSpec) -> Result<&Slurm> {
        let caller = job.on_behalf_of.as_ref().map(|caller| caller.id());
        let refused = || match &caller {
            Some(caller) => Error::denied(format!(
                "no Unix user runs the jobs of `{caller}`: `run_as` names none, so that nothing was submitted"
            )),
            None => Error::denied(
                "nobody in particular asks for this job, and `run_as` says whose Unix user runs whose jobs: nothing was submitted",
            ),
        };
        let slurm = caller.as_ref().and_then(|caller| self.people.get(caller)).ok_or_else(refused)?;
        Ok(slurm)
    }

    /// Returns the backend that observes and changes a started job, by the job's Unix user.
    fn of_user(&self, user: Option<&str>) -> Result<&Slurm> {
        let Some(user) = user else { return Ok(&self.own) };
        let slurm = self.users.get(user).map(Arc::as_ref);
        slurm.ok_or_else(|| not_named(Some(user)))
    }

    fn of_job(&self, handle: &JobHandle) -> Result<&Slurm> {
        // An invalid handle goes to our own backend. All backends report it alike.
        self.of_user(SlurmHandle::parse(handle).and_then(|place| place.user).as_deref())
    }
}

#[async_trait]
impl Backend for Callers {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.of_caller(job)?.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.of_caller(job)?.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.of_job(handle)?.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.of_job(handle)?.cancel(handle).await
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.own.group(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        // All jobs of a group belong to one user.
        match jobs.first().map(|job| self.of_job(&job.handle)) {
            Some(Ok(slurm)) => slurm.observe_all(group, jobs).await,
            Some(Err(error)) => {
                jobs.iter().map(|_| Err(Error::new(error.kind(), error.to_string()))).collect()
            }
            None => Vec::new(),
        }
    }

    fn questions(&self) -> Option<&dyn Questions> {
        Some(self)
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(self)
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        Some(self)
    }

    fn discovery(&self) -> Option<&dyn Discovery> {
        Some(self)
    }

    fn identity(&self) -> Option<String> {
        self.own.identity()
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }
}

#[async_trait]
impl Questions for Callers {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.of_job(handle)?.answer(handle, question, answer).await
    }

    fn list_lag(&self) -> Duration {
        self.own.list_lag()
    }
}

#[async_trait]
impl Logs for Callers {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        self.of_job(handle)?.tail(handle, request).await
    }
}

#[async_trait]
impl Artifacts for Callers {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        self.of_job(handle)?.read(handle, name, max_bytes).await
    }
}

#[async_trait]
impl Discovery for Callers {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        self.own.discover().await
    }
}

#[async_trait]
impl Checkup for Callers {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let users: Vec<&str> = self.users.keys().map(String::as_str).collect();
        let mut found = self.own.look_over(tools, Some(&users)).await;
        for (user, slurm) in &self.users {
            found.push(slurm.may_act(user).await);
        }
        found
    }
}
