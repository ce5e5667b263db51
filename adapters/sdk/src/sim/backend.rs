//! [`SimBackend`]: the [`Backend`] of the simulated engine. It must not keep state, except the number of
//! hints that it has passed on.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::hook::Hook;
use super::request::{Reply, Request};
use super::state::RENAMED_SUFFIX;
use super::{Config, Discover, Outcome, SimClient, SimEngine, Target};
use crate::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Checkup, DiscoveredTool, Discovery,
    Error, Finding, GroupKey, JobHandle, JobSpec, LogRequest, LogText, Logs, Observation, Questions, Result,
    Started, Subject, ToolTarget, Wakeups,
};

/// Backend for a [`SimEngine`], in this process or behind a [`SimClient`].
pub struct SimBackend {
    link: EngineLink,
    settings: BackendSettings,
}

/// Settings of the backend itself, independent of where its engine runs.
#[derive(Default)]
pub(super) struct BackendSettings {
    discover: Discover,
    hook: Option<Hook>,
    identity: Option<String>,
    list_lag: Duration,
    start_lag: Duration,
    key_lifetime: Option<Duration>,
}

impl BackendSettings {
    pub(super) fn of(config: &Config) -> Self {
        let discover = config.discover.clone().unwrap_or_default();
        // Jobs of an engine in this process end with it, so such an engine has no identity.
        let identity = config.identity.clone().or_else(|| config.address.map(|address| address.to_string()));
        Self {
            discover,
            hook: config.hook_secret.clone().map(Hook::new),
            identity: identity.map(|identity| format!("sim {identity}")),
            list_lag: config.list_lag,
            start_lag: config.start_lag,
            key_lifetime: config.key_lifetime,
        }
    }
}

enum EngineLink {
    Local(LocalEngine),
    Remote(SimClient),
}

/// An engine in this process, which can send hints.
struct LocalEngine {
    engine: SimEngine,
    hint_cursor: AtomicU64,
}

impl SimBackend {
    pub(super) fn of_engine(engine: SimEngine, settings: BackendSettings) -> Self {
        let hint_cursor = AtomicU64::new(engine.hint_count());
        Self { link: EngineLink::Local(LocalEngine { engine, hint_cursor }), settings }
    }

    pub(super) fn of_client(client: SimClient, settings: BackendSettings) -> Self {
        Self { link: EngineLink::Remote(client), settings }
    }

    /// Sends one request.
    ///
    /// # Panics
    /// Panics if a fault or the target of a job requires it.
    async fn call(&self, request: Request) -> Result<Reply> {
        let first_start = matches!(request, Request::Start { may_exist: false, .. });
        let reply = match &self.link {
            EngineLink::Local(local) => local.engine.call(request).await,
            EngineLink::Remote(client) => client.call(request).await,
        };
        match reply {
            Some(Ok(Reply::Panic)) => panic!("the simulated engine requests a panic of its adapter"),
            Some(reply) => reply,
            None => Err(no_reply(first_start)),
        }
    }
}

/// Returns the error for a request without a reply. Every request except a first start can be repeated
/// safely.
fn no_reply(first_start: bool) -> Error {
    if first_start {
        Error::uncertain("the simulated engine did not reply to the start")
    } else {
        Error::unavailable("the simulated engine did not reply")
    }
}

fn unexpected_reply() -> Error {
    Error::unavailable("the reply of the simulated engine does not match the request")
}

#[async_trait]
impl Backend for SimBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let target = Target::of_call(&job.target, &job.arguments)?;
        let request = Request::Start { key: job.key.clone(), target, may_exist: job.may_exist };
        match self.call(request).await? {
            Reply::Started(started) => Ok(started),
            _ => Err(unexpected_reply()),
        }
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        match self.call(Request::Find { key: job.key.clone() }).await? {
            Reply::Found(found) => Ok(found),
            _ => Err(unexpected_reply()),
        }
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        match self.call(Request::Observe { handles: vec![handle.clone()] }).await? {
            Reply::Seen(mut observations) if observations.len() == 1 => Ok(observations.remove(0)),
            _ => Err(unexpected_reply()),
        }
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        match self.call(Request::Cancel { handle: handle.clone() }).await? {
            Reply::Done => Ok(()),
            _ => Err(unexpected_reply()),
        }
    }

    async fn observe_all(&self, _group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let handles = jobs.iter().map(|job| job.handle.clone()).collect();
        let error = match self.call(Request::Observe { handles }).await {
            Ok(Reply::Seen(observations)) if observations.len() == jobs.len() => {
                return observations.into_iter().map(Ok).collect();
            }
            Ok(_) => unexpected_reply(),
            Err(error) => error,
        };
        vec![Err(error); jobs.len()]
    }

    fn start_lag(&self) -> Duration {
        self.settings.start_lag
    }

    fn key_lifetime(&self) -> Option<Duration> {
        self.settings.key_lifetime
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        // A renamed job changes its group.
        GroupKey::new(if handle.as_str().ends_with(RENAMED_SUFFIX) { "run" } else { "" })
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: Some(self),
            artifacts: Some(self),
            wakeups: match &self.link {
                EngineLink::Local(local) => Some(local),
                EngineLink::Remote(_) => None,
            },
            discovery: Some(self),
            checkup: Some(self),
            hooks: self.settings.hook.as_ref().map(|hook| hook as _),
        }
    }

    fn identity(&self) -> Option<String> {
        self.settings.identity.clone()
    }
}

#[async_trait]
impl Questions for SimBackend {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let request =
            Request::Answer { handle: handle.clone(), question: question.to_owned(), answer: answer.clone() };
        match self.call(request).await? {
            Reply::Taken(taken) => Ok(taken),
            _ => Err(unexpected_reply()),
        }
    }

    fn list_lag(&self) -> Duration {
        self.settings.list_lag
    }
}

#[async_trait]
impl Logs for SimBackend {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let request = Request::Log { handle: handle.clone(), request: request.clone() };
        match self.call(request).await? {
            Reply::Log(log) => Ok(log),
            _ => Err(unexpected_reply()),
        }
    }
}

#[async_trait]
impl Artifacts for SimBackend {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let request = Request::File { handle: handle.clone(), name: name.to_owned(), max_bytes };
        match self.call(request).await? {
            Reply::File(content) => Ok(content.map(|text| ArtifactData {
                bytes: text.into_bytes(),
                mime_type: Some("text/plain".to_owned()),
            })),
            _ => Err(unexpected_reply()),
        }
    }
}

#[async_trait]
impl Discovery for SimBackend {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Reply::Discovered(mut tools) = self.call(Request::Discover).await? else {
            return Err(unexpected_reply());
        };
        tools.retain(|tool| tool.name.starts_with(&self.settings.discover.starting_with));
        Ok(tools)
    }
}

#[async_trait]
impl Checkup for SimBackend {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let engine = match self.call(Request::Observe { handles: Vec::new() }).await {
            Ok(_) => Finding::ok("engine", "it answers"),
            Err(error) => Finding::fault("engine", error.to_string(), "start the engine at `address`"),
        };
        std::iter::once(engine).chain(tools.iter().map(check_target)).collect()
    }
}

/// Returns the finding for the jobs of a tool.
fn check_target(ToolTarget { tool, target, .. }: &ToolTarget) -> Finding {
    let what = format!("tool `{tool}`");
    match Target::of_call(target, &Value::Null) {
        Ok(target) if target.outcome == Outcome::Refuse => {
            Finding::fault(what, "the engine refuses its jobs", "set another `outcome` in its target")
        }
        Ok(_) => Finding::ok(what, "the engine accepts its jobs"),
        Err(error) => Finding::fault(what, error.to_string(), "fix its target"),
    }
}

#[async_trait]
impl Wakeups for LocalEngine {
    async fn next(&self) -> JobHandle {
        self.engine.hint(&self.hint_cursor).await
    }
}
