//! What the server calls: [`Backend`], and the abilities to answer questions and to read logs and artifacts.
//! It must not keep data of jobs, which exist only in their folders.

use std::fs;
use std::time::Duration;

use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Error, GroupKey, JobHandle, JobKey,
    JobSpec, JobState, LogRequest, LogText, Logs, Observation, Questions, Result, Started, Subject,
    async_trait,
};

use crate::core::{Local, run_blocking};
use crate::identity::handle;
use crate::observe::poll;
use crate::questions;
use crate::result::{artifacts, tail};
use crate::store::job_dir::{JobDir, SupervisorState};
use crate::submit::request::LaunchRequest;
use crate::submit::start;

impl Local {
    /// Returns the job and its current state, if a supervisor ever claimed it.
    async fn find_claimed(&self, key: &JobKey) -> Result<Option<Started>> {
        let (dir, this_machine) = (self.dir(key.as_str()), self.this_machine.clone());
        let poll = move || {
            let unreadable = |e| dir.read_error(e);
            let Some(claim) = dir.read_claim().map_err(unreadable)? else { return Ok(None) };
            let first = poll::observe(&dir, &claim.machine, &this_machine)?;
            Ok(Some(Started { handle: claim.machine.handle(dir.key()), first: Some(first) }))
        };
        run_blocking(poll).await?
    }
}

#[async_trait]
impl Backend for Local {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        if let Some(started) = self.find_claimed(&job.key).await? {
            return Ok(started);
        }
        let dir = self.dir(job.key.as_str());
        let request = LaunchRequest::new(job, &self.setup, &dir)?;
        let files = job.files.clone();
        run_blocking(move || LaunchRequest::check_sources(&files)).await??;
        let launched = start::launch(&self.program, &dir, &request).await;
        self.sweep_if_due();
        // A supervisor that could not reply may still have claimed the job. If it is unclaimed now, it stays
        // so, because the only supervisor that could claim it has ended.
        match (self.find_claimed(&job.key).await?, launched) {
            (Some(started), _) => Ok(started),
            (None, Err(e)) => Err(e),
            (None, Ok(())) => Err(Error::unavailable("the job's folder was removed during the start")),
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_claimed(&job.key).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let subject = Subject::watched(std::slice::from_ref(handle));
        let observations = self.observe_all(&self.group(handle), &subject).await;
        observations.into_iter().next().expect("one handle gives one observation")
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.with_job_dir(handle, |dir| match dir.supervisor_state()? {
            SupervisorState::Supervised { .. } => dir.request_cancel(),
            SupervisorState::Ended | SupervisorState::Unclaimed => Ok(()),
        })
        .await
        .map(drop)
    }

    /// Deletes the folder of a job whose supervisor has ended. The sweep deletes the others later.
    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        self.with_job_dir(handle, |dir| match dir.supervisor_state()? {
            SupervisorState::Ended => fs::remove_dir_all(dir.path()),
            SupervisorState::Supervised { .. } | SupervisorState::Unclaimed => Ok(()),
        })
        .await
        .map(drop)
    }

    /// Groups jobs by machine, because all jobs of another machine become unreachable together.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        GroupKey::new(handle::parse(handle).map(|(machine, _)| machine.host).unwrap_or_default())
    }

    async fn observe_all(&self, _: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let make_poll = |handle: &JobHandle| {
            let parsed = handle::parse(handle).map(|(machine, key)| (machine, self.dir(key)));
            let this_machine = self.this_machine.clone();
            move || match parsed {
                Some((machine, dir)) => poll::observe(&dir, &machine, &this_machine),
                None => {
                    Ok(Observation::new(JobState::Gone).with_message("the handle is not that of a local job"))
                }
            }
        };
        let polls: Vec<_> = jobs.iter().map(|job| make_poll(&job.handle)).collect();
        match run_blocking(move || polls.into_iter().map(|poll| poll()).collect()).await {
            Ok(observations) => observations,
            Err(error) => vec![Err(error); jobs.len()],
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: Some(self),
            artifacts: Some(self),
            wakeups: Some(&self.wakeups),
            checkup: Some(self),
            ..Abilities::default()
        }
    }

    fn identity(&self) -> Option<String> {
        Some(format!("local {}", self.identity))
    }
}

#[async_trait]
impl Questions for Local {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let (question, answer) = (question.to_owned(), answer.clone());
        let write_answer = move |dir: &JobDir| questions::answer(dir, &question, &answer);
        Ok(self.with_job_dir(handle, write_answer).await?.unwrap_or(AnswerOutcome::TooLate))
    }

    fn list_lag(&self) -> Duration {
        questions::LIST_LAG
    }
}

#[async_trait]
impl Logs for Local {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let (request, max_bytes) = (request.clone(), self.setup.config.max_output_bytes.get());
        Ok(self
            .with_job_dir(handle, move |dir| tail::tail(dir, &request, max_bytes))
            .await?
            .unwrap_or_default())
    }
}

#[async_trait]
impl Artifacts for Local {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let name = name.to_owned();
        let read = move |dir: &JobDir| Ok(artifacts::read(&dir.provided_path("artifacts"), &name, max_bytes));
        self.with_job_dir(handle, read).await?.unwrap_or(Ok(None))
    }
}
