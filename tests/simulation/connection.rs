//! One process's connection to one engine: a point before and after every call, the engine's faults, and the
//! effects of planted bugs on its responses. Every action is checked against the leases of the process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::reconciler::Crash;
use taskbridge_core::tasks::store::Holder;
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, Backend, Error, ErrorKind, GroupKey, JobHandle, JobSpec, JobState,
    Observation, Output, Questions, Result, Started, Subject, Wakeups,
};

use super::bugs::Bug;
use super::engines::{DECLARED_KEY_LIFETIME, EngineFaults, LIST_LAG, START_LAG};
use super::leases::Leases;
use super::points::Points;

/// Number of groups in which the engine's jobs are watched.
const GROUPS: u64 = 3;

/// The arguments by which a job shows that it got the referenced handle.
pub(super) const REFERENCE_ARG: &str = "of";
pub(super) const REFERENCED_KEY_ARG: &str = "of_key";
/// The text of a job whose polls crash the adapter.
pub(super) const POISON: &str = "poison";

/// A backend with a point before and after every call. Its jobs are in several groups.
pub(super) struct Connection {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) identity: Option<&'static str>,
    /// See [`Questions::needs_token`].
    pub(super) needs_token: bool,
    pub(super) faults: Arc<EngineFaults>,
    pub(super) points: Arc<Points>,
    pub(super) holder: Holder,
    pub(super) leases: Arc<Leases>,
    pub(super) world_clock: Arc<dyn Clock>,
    pub(super) bug: Option<Bug>,
    /// True while the network path from the machine to the engine is cut.
    pub(super) is_cut: Arc<AtomicBool>,
    /// Jobs of the hints so far, for [`Bug::HintTakenForEnd`] and [`Bug::NoHintTakenForRunning`].
    pub(super) hinted_jobs: Mutex<HashSet<JobHandle>>,
    /// Questions that were answered, for [`Bug::RelistedIsOld`], and the answers, for
    /// [`Bug::FirstAnswerStands`].
    pub(super) first_answers: Mutex<HashMap<JobHandle, Answer>>,
}

impl Connection {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Checks an action, at the moment of its decision, against the leases of this process.
    fn check_lease(&self, key: &str, action: &str) {
        self.leases.check_holder(key, &self.holder, self.world_clock.now(), action);
    }

    /// Passes a call to the engine. Fails with this kind of error if the adapter crashes.
    async fn pass_call(&self, crash_kind: ErrorKind) -> Result<()> {
        self.points.pass().await;
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(Error::unavailable("connection refused"));
        }
        if self.faults.pass().await {
            return Ok(());
        }
        Err(self.crash_error(crash_kind))
    }

    /// Records the job state that a start or a search returned.
    fn record_state(&self, job: &JobSpec, started: &Started) {
        if let Some(first) = &started.first {
            self.faults.record_observation(job.key.as_str(), self.world_clock.now(), first);
        }
    }

    /// Returns the error into which the server turns a panic of an adapter.
    fn crash_error(&self, kind: ErrorKind) -> Error {
        if self.has(Bug::CrashEndsProcess) {
            self.points.crash();
        }
        Error::new(kind, "the adapter crashed").caused_by(Crash)
    }

    /// Passes a response back. The adapter may crash on it.
    async fn pass_response<T>(&self, response: Result<T>, crash_kind: ErrorKind) -> Result<T> {
        self.points.pass().await;
        let adapter_crashes = !self.faults.pass().await;
        if adapter_crashes { Err(self.crash_error(crash_kind)) } else { response }
    }

    async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let is_hinted = |handle: &JobHandle| self.hinted_jobs.lock().contains(handle);
        let end = || Observation::new(JobState::Succeeded(Output::text("a hint said so")));
        match self.bug {
            Some(Bug::HintTakenForEnd) if jobs.iter().any(|job| is_hinted(&job.handle)) => {
                let observation_of =
                    |handle| if is_hinted(handle) { end() } else { Observation::new(JobState::Running) };
                jobs.iter().map(|job| Ok(observation_of(&job.handle))).collect()
            }
            Some(Bug::NoHintTakenForRunning) if !jobs.iter().any(|job| is_hinted(&job.handle)) => {
                jobs.iter().map(|_| Ok(Observation::new(JobState::Running))).collect()
            }
            _ => self.backend.observe_all(group, jobs).await,
        }
    }

    /// Returns what a poll shows of a job.
    fn poll_result(&self, handle: &JobHandle, observation: Observation) -> Observation {
        let mut observation = self.faults.poll_result(key_in(handle), self.world_clock.now(), observation);
        if self.has(Bug::RelistedIsOld) && self.first_answers.lock().contains_key(handle) {
            observation.questions.clear();
        }
        let is_gone = self.has(Bug::GoneIsSuccess) && observation.state == JobState::Gone;
        if is_gone || self.has(Bug::CancelledIsSuccess) && matches!(observation.state, JobState::Cancelled(_))
        {
            observation.state = JobState::Succeeded(Output::text("it is over"));
        }
        observation
    }

    /// Checks that a call got the handles of the tasks that it refers to.
    fn check_references(&self, job: &JobSpec) {
        let text = |name: &str| job.arguments.get(name).and_then(|value| value.as_str());
        if let (handle, Some(key)) = (text(REFERENCE_ARG), text(REFERENCED_KEY_ARG))
            && handle.is_none_or(|handle| key_in(&JobHandle::new(handle)) != key)
        {
            self.leases.report(format!("a job got {handle:?}, and its call refers to the task of {key}"));
        }
        if text("text").is_some_and(|text| text.starts_with(POISON)) {
            self.faults.poison(&job.key);
        }
    }
}

/// What the engine adds to the handle of a renamed job.
const NEW_NAME: &str = ".run";

/// Returns the idempotency key that a job's handle contains.
fn key_in(handle: &JobHandle) -> &str {
    let (_, key) = handle.as_str().split_once('.').unwrap_or_default();
    key.strip_suffix(NEW_NAME).unwrap_or(key)
}

/// Returns the group of a job. A renamed job changes its group.
fn group_of(handle: &JobHandle) -> GroupKey {
    let number = handle.as_str().split_once('.').and_then(|(number, _)| number.parse::<u64>().ok());
    let shift = u64::from(handle.as_str().ends_with(NEW_NAME));
    GroupKey::new(format!("g{}", (number.unwrap_or_default() + shift) % GROUPS))
}

#[async_trait]
impl Backend for Connection {
    fn identity(&self) -> Option<String> {
        self.identity.filter(|_| !self.has(Bug::IdentityIgnored)).map(str::to_owned)
    }

    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.check_lease(job.key.as_str(), "start");
        self.check_references(job);
        let mut job = job.clone();
        if self.has(Bug::RepeatNotReported) {
            job.may_exist = false;
        }
        let crash_kind = if job.may_exist { ErrorKind::Unavailable } else { ErrorKind::Uncertain };
        self.pass_call(crash_kind).await?;
        let started = self.backend.start(&job).await;
        match (self.pass_response(started, crash_kind).await, self.bug) {
            (Err(error), Some(Bug::LostReplyIsNotStarted)) => Err(Error::unavailable(error.to_string())),
            (Err(error), Some(Bug::LimitIsRefusal)) if matches!(error.kind(), ErrorKind::Limited { .. }) => {
                Err(Error::rejected(error.to_string()))
            }
            (Err(error), Some(Bug::LostReplyIsRefusal)) if error.kind() == ErrorKind::Uncertain => {
                Err(Error::rejected(error.to_string()))
            }
            (started, _) => started.inspect(|started| self.record_state(&job, started)),
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.check_lease(job.key.as_str(), "find");
        self.pass_call(ErrorKind::Unavailable).await?;
        let result = self.backend.find(job).await;
        let result = self.pass_response(result, ErrorKind::Unavailable).await?;
        Ok(result.inspect(|started| self.record_state(job, started)))
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.pass_call(ErrorKind::Unavailable).await?;
        if self.faults.is_poison(key_in(handle)) {
            return Err(self.crash_error(ErrorKind::Unavailable));
        }
        let observation =
            self.backend.observe(handle).await.map(|observation| self.poll_result(handle, observation));
        self.pass_response(observation, ErrorKind::Unavailable).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.check_lease(key_in(handle), "cancel");
        self.pass_call(ErrorKind::Unavailable).await?;
        if self.has(Bug::CancelForgetsTheEngine) {
            return Ok(());
        }
        let result = self.backend.cancel(handle).await;
        self.pass_response(result, ErrorKind::Unavailable).await
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        match handle.as_str().strip_suffix(NEW_NAME) {
            Some(old_name) if self.has(Bug::RenamedInOldGroup) => group_of(&JobHandle::new(old_name)),
            _ => group_of(handle),
        }
    }

    fn key_lifetime(&self) -> Option<Duration> {
        let declared = self.faults.short_keys.then_some(DECLARED_KEY_LIFETIME);
        declared.or_else(|| self.backend.key_lifetime())
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let handles = jobs.iter().map(|job| &job.handle);
        let foreign_jobs: Vec<_> = handles.filter(|handle| group_of(handle) != *group).collect();
        self.leases.report_foreign_jobs(&foreign_jobs);
        let clone_error = |error: &Error| {
            let copy = Error::new(error.kind(), error.to_string());
            if Crash::caused(error) { copy.caused_by(Crash) } else { copy }
        };
        let fail_all = |error: &Error| jobs.iter().map(|_| Err(clone_error(error))).collect();
        if let Err(error) = self.pass_call(ErrorKind::Unavailable).await {
            return fail_all(&error);
        }
        if jobs.iter().any(|job| self.faults.is_poison(key_in(&job.handle))) {
            return fail_all(&self.crash_error(ErrorKind::Unavailable));
        }
        let results = self.poll_group(group, jobs).await;
        if let Err(error) = self.pass_response(Ok(()), ErrorKind::Unavailable).await {
            return fail_all(&error);
        }
        let gone_or_error = |error| match self.has(Bug::OutageIsGone) {
            true => Ok(Observation::new(JobState::Gone)),
            false => Err(error),
        };
        let results = jobs.iter().zip(results);
        results
            .map(|(job, result)| {
                result.or_else(gone_or_error).map(|observation| self.poll_result(&job.handle, observation))
            })
            .collect()
    }

    fn start_lag(&self) -> Duration {
        let declared = if self.faults.lags { START_LAG } else { self.backend.start_lag() };
        if self.has(Bug::NewIsGone) { Duration::ZERO } else { declared }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { questions: Some(self), wakeups: Some(self), ..Abilities::default() }
    }
}

#[async_trait]
impl Wakeups for Connection {
    async fn next(&self) -> JobHandle {
        let wakeups =
            self.backend.abilities().wakeups.expect("the simulated engine of this process gives hints");
        let handle = wakeups.next().await;
        self.hinted_jobs.lock().insert(handle.clone());
        handle
    }
}

#[async_trait]
impl Questions for Connection {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.check_lease(key_in(handle), "answer");
        self.pass_call(ErrorKind::Unavailable).await?;
        let questions =
            self.backend.abilities().questions.expect("the simulated engine's jobs can be answered");
        if self.has(Bug::AnswerForgetsTheEngine) {
            return Ok(AnswerOutcome::Accepted);
        }
        let first = self.first_answers.lock().entry(handle.clone()).or_insert_with(|| answer.clone()).clone();
        let answer = if self.has(Bug::FirstAnswerStands) { &first } else { answer };
        let result = questions.answer(handle, question, answer).await;
        self.pass_response(result, ErrorKind::Unavailable).await
    }

    fn list_lag(&self) -> Duration {
        LIST_LAG
    }

    fn needs_token(&self) -> bool {
        self.needs_token
    }
}
