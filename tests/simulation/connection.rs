//! One process's connection to one engine: a point before and after every call, the engine's faults, and the
//! effects of planted bugs on its responses. Every action is checked against the leases of the process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge::clock::Clock;
use taskbridge::tasks::reconciler::Crash;
use taskbridge::tasks::store::Holder;
use taskbridge_sdk::{
    Answer, Backend, Error, ErrorKind, GroupKey, JobHandle, JobSpec, JobState, Observation, Output,
    Questions, Result, Started, Subject, Taken, Wakeups,
};

use super::bugs::Bug;
use super::engines::{EngineFaults, LIST_LAG, START_LAG};
use super::leases::Leases;
use super::points::Points;

/// Number of groups in which the engine's jobs are watched.
const GROUPS: u64 = 3;

/// The arguments by which a job shows that it got the referenced handle.
pub(super) const REFERS: &str = "of";
pub(super) const REFERS_TO_KEY: &str = "of_key";
/// The text of a job whose polls crash the adapter.
pub(super) const POISON: &str = "poison";

/// A backend with a point before and after every call. Its jobs are in several groups.
pub(super) struct Connection {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) identity: Option<&'static str>,
    pub(super) faults: Arc<EngineFaults>,
    pub(super) points: Arc<Points>,
    pub(super) holder: Holder,
    pub(super) leases: Arc<Leases>,
    pub(super) world: Arc<dyn Clock>,
    pub(super) bug: Option<Bug>,
    /// True while the network path from the machine to the engine is cut.
    pub(super) is_cut: Arc<AtomicBool>,
    /// Jobs of the hints so far, for [`Bug::HintTakenForEnd`] and [`Bug::NoHintTakenForRunning`].
    pub(super) hinted: Mutex<HashSet<JobHandle>>,
    /// Questions that were answered, for [`Bug::RelistedIsOld`], and the answers, for
    /// [`Bug::FirstAnswerStands`].
    pub(super) answered: Mutex<HashMap<JobHandle, Answer>>,
}

impl Connection {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Checks an action, at the moment of its decision, against the leases of this process.
    fn acts(&self, key: &str, what: &str) {
        self.leases.act(key, &self.holder, self.world.now(), what);
    }

    /// Passes a call to the engine. Fails with this kind of error if the adapter crashes.
    async fn passes(&self, crashed: ErrorKind) -> Result<()> {
        self.points.pass().await;
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(Error::unavailable("connection refused"));
        }
        if self.faults.pass().await {
            return Ok(());
        }
        Err(self.crashes(crashed))
    }

    /// Records the job state that a start or a search returned.
    fn found(&self, job: &JobSpec, started: &Started) {
        if let Some(first) = &started.first {
            self.faults.found(job.key.as_str(), self.world.now(), first);
        }
    }

    /// Returns the error into which the server turns a panic of an adapter.
    fn crashes(&self, kind: ErrorKind) -> Error {
        if self.has(Bug::CrashEndsProcess) {
            self.points.die_unasked();
        }
        Error::new(kind, "the adapter crashed").caused_by(Crash)
    }

    /// Passes a response back. The adapter may crash on it.
    async fn returns<T>(&self, answer: Result<T>, crashed: ErrorKind) -> Result<T> {
        self.points.pass().await;
        let crashes = !self.faults.pass().await;
        if crashes { Err(self.crashes(crashed)) } else { answer }
    }

    async fn look(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let hinted = |handle: &JobHandle| self.hinted.lock().contains(handle);
        let end = || Observation::new(JobState::Succeeded(Output::text("a hint said so")));
        match self.bug {
            Some(Bug::HintTakenForEnd) if jobs.iter().any(|job| hinted(&job.handle)) => {
                let seen = |handle| if hinted(handle) { end() } else { Observation::new(JobState::Running) };
                jobs.iter().map(|job| Ok(seen(&job.handle))).collect()
            }
            Some(Bug::NoHintTakenForRunning) if !jobs.iter().any(|job| hinted(&job.handle)) => {
                jobs.iter().map(|_| Ok(Observation::new(JobState::Running))).collect()
            }
            _ => self.backend.observe_all(group, jobs).await,
        }
    }

    /// Returns what a poll shows of a job.
    fn shows(&self, handle: &JobHandle, seen: Observation) -> Observation {
        let mut seen = self.faults.show(key_in(handle), self.world.now(), seen);
        if self.has(Bug::RelistedIsOld) && self.answered.lock().contains_key(handle) {
            seen.questions.clear();
        }
        let is_gone = self.has(Bug::GoneIsSuccess) && seen.state == JobState::Gone;
        if is_gone || self.has(Bug::CancelledIsSuccess) && matches!(seen.state, JobState::Cancelled(_)) {
            seen.state = JobState::Succeeded(Output::text("it is over"));
        }
        seen
    }

    /// Checks that a call got the handles of the tasks that it refers to.
    fn refers(&self, job: &JobSpec) {
        let text = |name: &str| job.arguments.get(name).and_then(|value| value.as_str());
        if let (handle, Some(key)) = (text(REFERS), text(REFERS_TO_KEY))
            && handle.is_none_or(|handle| key_in(&JobHandle::new(handle)) != key)
        {
            self.leases.report(format!("a job got {handle:?}, and its call refers to the task of {key}"));
        }
        if text("text").is_some_and(|text| text.starts_with(POISON)) {
            self.faults.poison(&job.key);
        }
    }
}

/// Returns the idempotency key that a job's handle contains.
fn key_in(handle: &JobHandle) -> &str {
    handle.as_str().split_once('.').map_or("", |(_, key)| key)
}

fn group_of(handle: &JobHandle) -> GroupKey {
    let number = handle.as_str().split_once('.').and_then(|(number, _)| number.parse::<u64>().ok());
    GroupKey::new(format!("g{}", number.unwrap_or_default() % GROUPS))
}

#[async_trait]
impl Backend for Connection {
    fn identity(&self) -> Option<String> {
        self.identity.filter(|_| !self.has(Bug::IdentityIgnored)).map(str::to_owned)
    }

    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.acts(job.key.as_str(), "start");
        self.refers(job);
        let mut job = job.clone();
        if self.has(Bug::RepeatIsNotSaid) {
            job.may_exist = false;
        }
        let crashed = if job.may_exist { ErrorKind::Unavailable } else { ErrorKind::Uncertain };
        self.passes(crashed).await?;
        let started = self.backend.start(&job).await;
        match (self.returns(started, crashed).await, self.bug) {
            (Err(error), Some(Bug::LostReplyIsNotStarted)) => Err(Error::unavailable(error.to_string())),
            (Err(error), Some(Bug::LimitIsRefusal)) if matches!(error.kind(), ErrorKind::Limited { .. }) => {
                Err(Error::rejected(error.to_string()))
            }
            (started, _) => started.inspect(|started| self.found(&job, started)),
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.acts(job.key.as_str(), "find");
        self.passes(ErrorKind::Unavailable).await?;
        let found = self.backend.find(job).await;
        let found = self.returns(found, ErrorKind::Unavailable).await?;
        Ok(found.inspect(|started| self.found(job, started)))
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.passes(ErrorKind::Unavailable).await?;
        if self.faults.is_poison(key_in(handle)) {
            return Err(self.crashes(ErrorKind::Unavailable));
        }
        let seen = self.backend.observe(handle).await.map(|seen| self.shows(handle, seen));
        self.returns(seen, ErrorKind::Unavailable).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.acts(key_in(handle), "cancel");
        self.passes(ErrorKind::Unavailable).await?;
        if self.has(Bug::CancelForgetsTheEngine) {
            return Ok(());
        }
        let taken = self.backend.cancel(handle).await;
        self.returns(taken, ErrorKind::Unavailable).await
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        group_of(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let handles = jobs.iter().map(|job| &job.handle);
        let strangers: Vec<_> = handles.filter(|handle| group_of(handle) != *group).collect();
        self.leases.report_strangers(&strangers);
        let fails = |error: &Error| {
            let again = Error::new(error.kind(), error.to_string());
            if Crash::caused(error) { again.caused_by(Crash) } else { again }
        };
        let all = |error: &Error| jobs.iter().map(|_| Err(fails(error))).collect();
        if let Err(error) = self.passes(ErrorKind::Unavailable).await {
            return all(&error);
        }
        if jobs.iter().any(|job| self.faults.is_poison(key_in(&job.handle))) {
            return all(&self.crashes(ErrorKind::Unavailable));
        }
        let seen = self.look(group, jobs).await;
        if let Err(error) = self.returns(Ok(()), ErrorKind::Unavailable).await {
            return all(&error);
        }
        let gone = |error| match self.has(Bug::OutageIsGone) {
            true => Ok(Observation::new(JobState::Gone)),
            false => Err(error),
        };
        let seen = jobs.iter().zip(seen);
        seen.map(|(job, seen)| seen.or_else(gone).map(|seen| self.shows(&job.handle, seen))).collect()
    }

    fn start_lag(&self) -> Duration {
        if self.faults.lags && !self.has(Bug::NewIsGone) { START_LAG } else { Duration::ZERO }
    }

    fn questions(&self) -> Option<&dyn Questions> {
        Some(self)
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        Some(self)
    }
}

#[async_trait]
impl Wakeups for Connection {
    async fn next(&self) -> JobHandle {
        let wakeups = self.backend.wakeups().expect("the simulated engine of this process gives hints");
        let handle = wakeups.next().await;
        self.hinted.lock().insert(handle.clone());
        handle
    }
}

#[async_trait]
impl Questions for Connection {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.acts(key_in(handle), "answer");
        self.passes(ErrorKind::Unavailable).await?;
        let questions = self.backend.questions().expect("the simulated engine's jobs can be answered");
        if self.has(Bug::AnswerForgetsTheEngine) {
            return Ok(Taken::Accepted);
        }
        let first = self.answered.lock().entry(handle.clone()).or_insert_with(|| answer.clone()).clone();
        let answer = if self.has(Bug::FirstAnswerStands) { &first } else { answer };
        let taken = questions.answer(handle, question, answer).await;
        self.returns(taken, ErrorKind::Unavailable).await
    }

    fn list_lag(&self) -> Duration {
        LIST_LAG
    }
}
