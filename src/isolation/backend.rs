//! [`Isolated`]: a backend whose every call runs in an [`Isolation`]. It must not decide what a crash means
//! to the task: it names the kind of the error.

// A wrapper delegates every method. Otherwise the default would run.
#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Budget, Checkup, Delivery,
    DiscoveredTool, Discovery, ErrorKind, Finding, GroupKey, HookEvent, Hooks, JobHandle, JobSpec,
    LogRequest, LogText, Logs, Observation, OnBehalfOf, Questions, Result, Started, Subject, ToolTarget,
    Wakeups,
};

use super::Isolation;
use crate::tasks::reconciler::Crash;

/// Backoff before a stream of hints is opened again that crashed or got no permit: doubles from the first
/// delay to the last.
const HINT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A backend whose every call runs in an [`Isolation`].
pub(super) struct Isolated {
    pub(super) inner: Arc<dyn Backend>,
    pub(super) isolation: Isolation,
}

impl Isolated {
    /// Runs one call. A crash becomes an error of this kind.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        crash_kind: ErrorKind,
        make: impl FnOnce(Arc<dyn Backend>) -> BoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (inner, permit) = (Arc::clone(&self.inner), self.isolation.permit()?);
        match self.isolation.run(operation, permit, async move { make(inner).await }).await {
            Ok(answer) => answer,
            Err(crash) => Err(self.isolation.crash_error(crash_kind, crash)),
        }
    }
}

#[async_trait]
impl Backend for Isolated {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let job = job.clone();
        let crash_kind = if job.may_exist { ErrorKind::Unavailable } else { ErrorKind::Uncertain };
        self.call("start", crash_kind, |inner| Box::pin(async move { inner.start(&job).await })).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        let job = job.clone();
        let find = |inner: Arc<dyn Backend>| Box::pin(async move { inner.find(&job).await }) as _;
        self.call("find", ErrorKind::Unavailable, find).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let handle = handle.clone();
        let observe = |inner: Arc<dyn Backend>| Box::pin(async move { inner.observe(&handle).await }) as _;
        self.call("observe", ErrorKind::Unavailable, observe).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        let handle = handle.clone();
        let cancel = |inner: Arc<dyn Backend>| Box::pin(async move { inner.cancel(&handle).await }) as _;
        self.call("cancel", ErrorKind::Unavailable, cancel).await
    }

    async fn cancel_for(&self, handle: &JobHandle, on_behalf_of: Option<&OnBehalfOf>) -> Result<()> {
        let (handle, on_behalf_of) = (handle.clone(), on_behalf_of.cloned());
        let cancel = |inner: Arc<dyn Backend>| {
            Box::pin(async move { inner.cancel_for(&handle, on_behalf_of.as_ref()).await }) as _
        };
        self.call("cancel", ErrorKind::Unavailable, cancel).await
    }

    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        let handle = handle.clone();
        let forget = |inner: Arc<dyn Backend>| Box::pin(async move { inner.forget(&handle).await }) as _;
        self.call("forget", ErrorKind::Unavailable, forget).await
    }

    fn start_lag(&self) -> Duration {
        self.isolation.call_sync("start_lag", || self.inner.start_lag()).unwrap_or_default()
    }

    fn key_lifetime(&self) -> Option<Duration> {
        // After a crash it is unknown, so no start is repeated.
        let crashed = Some(Duration::ZERO);
        self.isolation.call_sync("key_lifetime", || self.inner.key_lifetime()).unwrap_or(crashed)
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.isolation.call_sync("group", || self.inner.group(handle)).unwrap_or_else(|| GroupKey::new(""))
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let (inner, group, count, jobs) = (Arc::clone(&self.inner), group.clone(), jobs.len(), jobs.to_vec());
        let permit = match self.isolation.permit() {
            Ok(permit) => permit,
            Err(error) => return vec![Err(error); count],
        };
        let work = async move { inner.observe_all(&group, &jobs).await };
        match self.isolation.run("observe_all", permit, work).await {
            Ok(answers) => answers,
            Err(crash) => vec![Err(self.isolation.crash_error(ErrorKind::Unavailable, crash)); count],
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        let inner = self.isolation.call_sync("abilities", || self.inner.abilities()).unwrap_or_default();
        Abilities {
            questions: inner.questions.and(Some(self)),
            logs: inner.logs.and(Some(self)),
            artifacts: inner.artifacts.and(Some(self)),
            wakeups: inner.wakeups.and(Some(self)),
            discovery: inner.discovery.and(Some(self)),
            checkup: inner.checkup.and(Some(self)),
            hooks: inner.hooks.and(Some(self)),
        }
    }

    fn identity(&self) -> Option<String> {
        self.isolation.call_sync("identity", || self.inner.identity()).flatten()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.isolation.call_sync("budgets", || self.inner.budgets()).unwrap_or_default()
    }
}

/// These traits are only used if the backend supports them. If it no longer does, each method returns a
/// neutral value.
#[async_trait]
impl Questions for Isolated {
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
        let (handle, question, answer, by) =
            (handle.clone(), question.to_owned(), answer.clone(), by.cloned());
        let send = |inner: Arc<dyn Backend>| {
            Box::pin(async move {
                let Some(questions) = inner.abilities().questions else { return Ok(AnswerOutcome::TooLate) };
                questions.answer_for(&handle, &question, &answer, by.as_ref()).await
            }) as _
        };
        self.call("answer", ErrorKind::Unavailable, send).await
    }

    fn list_lag(&self) -> Duration {
        let lag = || self.inner.abilities().questions.map(Questions::list_lag);
        self.isolation.call_sync("list_lag", lag).flatten().unwrap_or_default()
    }

    fn needs_token(&self) -> bool {
        let needs = || self.inner.abilities().questions.map(Questions::needs_token);
        self.isolation.call_sync("needs_token", needs).flatten().unwrap_or_default()
    }
}

#[async_trait]
impl Logs for Isolated {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let (handle, request) = (handle.clone(), request.clone());
        let tail = |inner: Arc<dyn Backend>| {
            Box::pin(async move {
                let Some(logs) = inner.abilities().logs else { return Ok(LogText::default()) };
                logs.tail(&handle, &request).await
            }) as _
        };
        self.call("read_log", ErrorKind::Unavailable, tail).await
    }
}

#[async_trait]
impl Artifacts for Isolated {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let (handle, name) = (handle.clone(), name.to_owned());
        let read = move |inner: Arc<dyn Backend>| {
            Box::pin(async move {
                let Some(artifacts) = inner.abilities().artifacts else { return Ok(None) };
                artifacts.read(&handle, &name, max_bytes).await
            }) as _
        };
        self.call("read_artifact", ErrorKind::Unavailable, read).await
    }
}

#[async_trait]
impl Wakeups for Isolated {
    async fn next(&self) -> JobHandle {
        let (mut delay, longest) = HINT_BACKOFF;
        loop {
            let inner = Arc::clone(&self.inner);
            let hint = async move {
                match inner.abilities().wakeups {
                    Some(wakeups) => wakeups.next().await,
                    None => std::future::pending().await,
                }
            };
            let hint = match self.isolation.permit() {
                Ok(permit) => self.isolation.run("wakeups", permit, hint).await,
                Err(_) => Err(Crash),
            };
            match hint {
                Ok(handle) => return handle,
                Err(Crash) => tokio::time::sleep(delay).await,
            }
            delay = (2 * delay).min(longest);
        }
    }
}

#[async_trait]
impl Discovery for Isolated {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let discover = |inner: Arc<dyn Backend>| {
            Box::pin(async move {
                let Some(discovery) = inner.abilities().discovery else { return Ok(Vec::new()) };
                discovery.discover().await
            }) as _
        };
        self.call("discover", ErrorKind::Unavailable, discover).await
    }
}

#[async_trait]
impl Checkup for Isolated {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let (inner, tools) = (Arc::clone(&self.inner), tools.to_vec());
        let check_up = async move {
            match inner.abilities().checkup {
                Some(checkup) => checkup.check_up(&tools).await,
                None => Vec::new(),
            }
        };
        let findings = match self.isolation.permit() {
            Ok(permit) => {
                let result = self.isolation.run("check_up", permit, check_up).await;
                result.map_err(|crash| self.isolation.crash_error(ErrorKind::Unavailable, crash))
            }
            Err(error) => Err(error),
        };
        findings.unwrap_or_else(|error| {
            vec![Finding::fault("adapter", error.to_string(), "report it to the author of the adapter")]
        })
    }
}

impl Hooks for Isolated {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let read = || self.inner.abilities().hooks.and_then(|hooks| hooks.read(delivery));
        self.isolation.call_sync("hooks", read).flatten()
    }
}
