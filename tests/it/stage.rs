//! A backend whose jobs do what a test scripts. A job runs until the test ends it, unless its arguments
//! contain how it ended: `{"end": <JobState>}`, with an optional `"message"`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use taskbridge_sdk::{
    Abilities, Adapter, Answer, AnswerOutcome, ArtifactData, Artifacts, Ask, Backend, ConnectContext, Error,
    GroupKey, JobHandle, JobKey, JobSpec, JobState, Level, LogRequest, LogText, Logs, Note, Observation,
    OnBehalfOf, Output, Problem, Question, Questions, Result, Started, Subject, Wakeups,
};
use tokio::sync::{mpsc, watch};

/// The stages of all tests by name, so that a config can refer to one.
static ENGINES: LazyLock<Mutex<HashMap<String, ScriptedEngine>>> = LazyLock::new(Mutex::default);

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A scripted engine. Clones share the same state.
#[derive(Clone)]
pub(crate) struct ScriptedEngine(Arc<Inner>);

struct Inner {
    jobs: Mutex<BTreeMap<String, Job>>,
    count: watch::Sender<usize>,
    hints: (mpsc::UnboundedSender<JobHandle>, tokio::sync::Mutex<mpsc::UnboundedReceiver<JobHandle>>),
}

struct Job {
    key: JobKey,
    arguments: Value,
    observation: Observation,
    notes: Vec<Note>,
    fault: Option<String>,
    /// Whether the last poll had a watcher.
    watched: Option<bool>,
    cancels: usize,
    log: String,
    files: BTreeMap<String, Vec<u8>>,
    /// Each answer with the name of the user who gave it.
    answers: Vec<(Answer, String)>,
}

/// A handle by which a test controls one job.
#[derive(Clone)]
pub(crate) struct ScriptedJob {
    engine: ScriptedEngine,
    name: String,
}

impl ScriptedEngine {
    /// Creates a new stage, which a config selects by `kind = "stage"` and `name = NAME`.
    pub(crate) fn named(name: &str) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let engine = Self(Arc::new(Inner {
            jobs: Mutex::default(),
            count: watch::Sender::new(0),
            hints: (sender, tokio::sync::Mutex::new(receiver)),
        }));
        ENGINES.lock().insert(name.to_owned(), engine.clone());
        engine
    }

    /// Returns the number of jobs that were started.
    pub(crate) fn starts(&self) -> usize {
        self.0.jobs.lock().len()
    }

    /// Waits until the condition is true, and fails the test at a timeout.
    async fn wait(&self, mut condition: impl FnMut(usize) -> bool) {
        let mut count = self.0.count.subscribe();
        let waiting = count.wait_for(|count| condition(*count));
        tokio::time::timeout(TIMEOUT, waiting).await.expect("it never happens").unwrap();
    }

    /// Waits for the `n`-th job, counted from 1.
    pub(crate) async fn job(&self, n: usize) -> ScriptedJob {
        self.wait(|count| count >= n).await;
        ScriptedJob { engine: self.clone(), name: format!("job-{n}") }
    }
}

impl ScriptedJob {
    fn with<T>(&self, act: impl FnOnce(&mut Job) -> T) -> T {
        act(self.engine.0.jobs.lock().get_mut(&self.name).unwrap())
    }

    /// Sets the observation that polls of the job return from now on.
    pub(crate) fn show(&self, observation: Observation) {
        self.with(|job| job.observation = observation);
        self.engine.0.hints.0.send(JobHandle::new(&self.name)).unwrap();
    }

    /// Sets the job to running with this progress.
    pub(crate) fn progress(&self, done: f64, total: f64) {
        self.show(Observation::new(JobState::Running).with_progress(done, Some(total)));
    }

    /// Returns the arguments of the job's start.
    pub(crate) fn arguments(&self) -> Value {
        self.with(|job| job.arguments.clone())
    }

    /// Sets the open questions of the job to exactly these.
    pub(crate) fn set_questions(&self, questions: Vec<Question>) {
        let mut observation = Observation::new(JobState::Running);
        observation.questions = questions;
        self.show(observation);
    }

    /// Makes the job ask one question with a form.
    pub(crate) fn ask(&self, id: &str, message: &str, schema: Value) {
        self.ask_for(id, message, Ask::Form(schema));
    }

    /// Makes the job ask one question of any kind.
    pub(crate) fn ask_for(&self, id: &str, message: &str, ask: Ask) {
        let mut observation = Observation::new(JobState::Running);
        observation.questions = vec![Question { id: id.to_owned(), message: message.to_owned(), ask }];
        self.show(observation);
    }

    /// Ends the job successfully with this text.
    pub(crate) fn succeed(&self, text: &str) {
        self.show(Observation::new(JobState::Succeeded(Output::text(text))));
    }

    /// Adds a note to the job and sends a hint.
    pub(crate) fn add_note(&self, level: Level, text: &str) {
        self.with(|job| job.notes.push(Note::text(job.notes.len() as u64, level, text)));
        self.engine.0.hints.0.send(JobHandle::new(&self.name)).unwrap();
    }

    /// Makes polls of the job fail from now on for this reason, or succeed again.
    pub(crate) fn fail_polls(&self, reason: Option<&str>) {
        self.with(|job| job.fault = reason.map(str::to_owned));
        self.engine.0.hints.0.send(JobHandle::new(&self.name)).unwrap();
    }

    /// Sets the job's log.
    pub(crate) fn set_log(&self, log: &str) {
        self.with(|job| log.clone_into(&mut job.log));
    }

    /// Adds an artifact to the job.
    pub(crate) fn add_artifact(&self, name: &str, bytes: &[u8]) {
        self.with(|job| job.files.insert(name.to_owned(), bytes.to_vec()));
    }

    /// Returns the answers that the job received.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.with(|job| job.answers.iter().map(|(answer, _)| answer.clone()).collect())
    }

    /// Waits until the job received a cancel request.
    pub(crate) async fn wait_for_cancel(&self) {
        self.engine.wait(|_| self.with(|job| job.cancels > 0)).await;
    }

    /// Waits for a poll of the job that has a watcher, or one that has none.
    pub(crate) async fn wait_for_poll(&self, watched: bool) {
        self.engine.wait(|_| self.with(|job| job.watched == Some(watched))).await;
    }

    /// Returns the names of the users whose answers the job received. The name is empty for an anonymous
    /// user.
    pub(crate) fn answering_users(&self) -> Vec<String> {
        self.with(|job| job.answers.iter().map(|(_, name)| name.clone()).collect())
    }

    /// Waits until the job received an answer.
    pub(crate) async fn wait_for_answer(&self) -> Answer {
        self.engine.wait(|_| !self.answers().is_empty()).await;
        self.answers().swap_remove(0)
    }
}

struct ScriptedBackend(ScriptedEngine);

impl ScriptedBackend {
    fn with<T>(&self, handle: &JobHandle, act: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let result = self.0.0.jobs.lock().get_mut(handle.as_str()).map(act);
        self.0.0.count.send_modify(|_| {});
        result
    }
}

#[async_trait]
impl Backend for ScriptedBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let mut jobs = self.0.0.jobs.lock();
        if let Some((name, existing)) = jobs.iter().find(|(_, existing)| existing.key == job.key) {
            return Ok(Started { handle: JobHandle::new(name), first: Some(existing.observation.clone()) });
        }
        let state = match job.arguments.get("end") {
            Some(end) => JobState::deserialize(end).map_err(|e| Error::rejected(e.to_string()))?,
            None => JobState::Running,
        };
        let mut observation = Observation::new(state);
        observation.message = job.arguments.get("message").and_then(Value::as_str).map(str::to_owned);
        let name = format!("job-{}", jobs.len() + 1);
        let row = Job {
            key: job.key.clone(),
            arguments: job.arguments.clone(),
            observation: observation.clone(),
            notes: Vec::new(),
            fault: None,
            watched: None,
            cancels: 0,
            log: String::new(),
            files: BTreeMap::new(),
            answers: Vec::new(),
        };
        jobs.insert(name.clone(), row);
        self.0.0.count.send_replace(jobs.len());
        Ok(Started { handle: JobHandle::new(name), first: Some(observation) })
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        let jobs = self.0.0.jobs.lock();
        let found = jobs.iter().find(|(_, existing)| existing.key == job.key);
        Ok(found.map(|(name, existing)| Started {
            handle: JobHandle::new(name),
            first: Some(existing.observation.clone()),
        }))
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let observation = self.with(handle, |job| match &job.fault {
            Some(reason) => Err(Error::unavailable(reason.clone())),
            None => Ok(Observation {
                log_bytes: Some(job.log.len() as u64),
                ..job.observation.clone().with_notes(job.notes.clone())
            }),
        });
        observation.unwrap_or(Ok(Observation::new(JobState::Gone)))
    }

    async fn observe_all(&self, _group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let mut observations = Vec::with_capacity(jobs.len());
        for Subject { handle, watched, .. } in jobs {
            self.with(handle, |job| job.watched = Some(*watched));
            observations.push(self.observe(handle).await);
        }
        observations
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        let is_stoppable = self.with(handle, |job| {
            job.cancels += 1;
            job.arguments["unstoppable"] != true
        });
        if is_stoppable == Some(false) { Err(Error::unsupported("no such request")) } else { Ok(()) }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: Some(self),
            artifacts: Some(self),
            wakeups: Some(self),
            ..Abilities::default()
        }
    }
}

#[async_trait]
impl Questions for ScriptedBackend {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        by: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        let name = by.map_or_else(String::new, |by| by.name.clone());
        let accepted = self.with(handle, |job| {
            let is_open = job.observation.questions.iter().any(|open| open.id == question);
            if is_open {
                // A URL question stays open until the job reports the visit.
                let stays_open = |ask: &Ask| matches!((ask, answer), (Ask::Url(_), Answer::Accept(_)));
                job.observation.questions.retain(|open| open.id != question || stays_open(&open.ask));
                job.answers.push((answer.clone(), name.clone()));
            }
            is_open
        });
        Ok(if accepted == Some(true) { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate })
    }
}

#[async_trait]
impl Logs for ScriptedBackend {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let log = self.with(handle, |job| job.log.clone()).unwrap_or_default();
        let search = request.search.as_deref().unwrap_or_default().to_lowercase();
        let matching: String =
            log.split_inclusive('\n').filter(|line| line.to_lowercase().contains(&search)).collect();
        let from = matching.len().saturating_sub(request.max_bytes);
        Ok(LogText { text: matching[from..].to_owned(), cut: from > 0 })
    }
}

#[async_trait]
impl Artifacts for ScriptedBackend {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let bytes = self.with(handle, |job| job.files.get(name).cloned()).flatten();
        match bytes {
            Some(bytes) if bytes.len() as u64 > max_bytes => {
                Err(Error::rejected(format!("{name} has {} bytes, more than {max_bytes}", bytes.len())))
            }
            Some(bytes) => Ok(Some(ArtifactData { bytes, mime_type: None })),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Wakeups for ScriptedBackend {
    async fn next(&self) -> JobHandle {
        self.0.0.hints.1.lock().await.recv().await.unwrap()
    }
}

/// The adapter of `kind = "stage"`.
pub(crate) struct ScriptedAdapter;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {}

#[async_trait]
impl Adapter for ScriptedAdapter {
    const KIND: &'static str = "stage";

    type Config = Config;
    type Target = Target;

    fn check(_config: &Config, _target: &Target, _parameters: &[&str]) -> Vec<Problem> {
        Vec::new()
    }

    async fn connect(config: Config, _context: &ConnectContext) -> Result<Arc<dyn Backend>> {
        let engine = ENGINES.lock().get(&config.name).cloned();
        let engine = engine.ok_or_else(|| Error::config("no test made this stage"))?;
        Ok(Arc::new(ScriptedBackend(engine)))
    }
}
