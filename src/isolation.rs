//! [`Isolation`]: runs the adapter code of one backend on threads of its own, so that a panic or a blocking
//! call fails only that call. A panic becomes an error with [`Crash`] as its source, is counted and is
//! logged. It must not set timeouts and must not retry: its callers do. A call whose caller goes away is
//! cancelled.
//!
//! Methods of an adapter that are not async run on the caller's thread. A panic in one is caught too; they
//! must not block.

// A wrapper delegates every method. Otherwise the default would run.
#![deny(clippy::missing_trait_methods)]

mod panics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Budget, Checkup, Delivery,
    DiscoveredTool, Discovery, Error, ErrorKind, Finding, GroupKey, HookEvent, Hooks, JobHandle, JobSpec,
    LogRequest, LogText, Logs, Observation, OnBehalfOf, Questions, Result, Started, Subject, ToolTarget,
    Wakeups,
};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::metrics::Metrics;
use crate::tasks::reconciler::Crash;
use panics::{Panic, catch_panic};

pub use panics::install_panic_hook;

/// Maximum number of concurrent calls of one backend, including abandoned calls whose thread is blocked.
const MAX_CALLS: usize = 256;
/// Maximum number of threads of one backend. Adapters may need one more per call for blocking work of their
/// own.
const MAX_THREADS: usize = 2 * MAX_CALLS;
/// Minimum interval between two log entries about crashes of one operation. Crashes in between are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Backoff before a stream of hints is opened again that crashed or got no permit: doubles from the first
/// delay to the last.
const HINT_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The threads of one backend.
pub struct Isolation {
    backend: String,
    /// `Some` until this value is dropped.
    runtime: Option<Runtime>,
    calls: Arc<Semaphore>,
    /// Time of the last log entry per operation, and the number of crashes since then.
    logged: Mutex<BTreeMap<&'static str, (Instant, u64)>>,
    metrics: Option<Arc<Metrics>>,
}

/// A backend whose every call runs in an [`Isolation`].
struct Isolated {
    inner: Arc<dyn Backend>,
    isolation: Isolation,
}

impl Isolation {
    /// Creates the threads for the backend of this name. Crashes are counted in `metrics`.
    ///
    /// # Errors
    /// `Unavailable` if the system cannot create threads.
    pub fn new(backend: &str, metrics: Option<&Arc<Metrics>>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_THREADS)
            .thread_name(format!("engine {backend}"))
            .enable_all()
            .build()
            .map_err(|cause| {
                Error::unavailable("the backend's threads cannot be started").caused_by(cause)
            })?;
        Ok(Self {
            backend: backend.to_owned(),
            runtime: Some(runtime),
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            logged: Mutex::default(),
            metrics: metrics.cloned(),
        })
    }

    /// Runs the connection attempt on these threads, and isolates the connected backend.
    ///
    /// # Errors
    /// The adapter's error; `Unavailable` if it crashed.
    pub async fn connect(
        self,
        connecting: impl Future<Output = Result<Arc<dyn Backend>>> + Send + 'static,
    ) -> Result<Arc<dyn Backend>> {
        match self.run("connect", self.permit()?, connecting).await {
            Ok(inner) => Ok(Arc::new(Isolated { inner: inner?, isolation: self })),
            Err(crash) => Err(self.crash_error(ErrorKind::Unavailable, crash)),
        }
    }

    /// Acquires a permit for one call, before the call sends anything.
    ///
    /// # Errors
    /// `Unavailable` if no permit is left, which means that most threads are blocked.
    fn permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.calls).try_acquire_owned().map_err(|_| {
            Error::unavailable(format!(
                "{MAX_CALLS} calls of backend `{}` are in progress, and its adapter completes none of them",
                self.backend
            ))
        })
    }

    /// Runs a future of the adapter on a thread of this isolation. If the returned future is dropped, `work`
    /// is dropped at its next await.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        permit: OwnedSemaphorePermit,
        work: impl Future<Output = T> + Send + 'static,
    ) -> std::result::Result<T, Crash> {
        let runtime = self.runtime.as_ref().ok_or(Crash)?.handle().clone();
        let (cancel, span) = (CancellationToken::new(), Span::current());
        let _until_dropped = cancel.clone().drop_guard();
        let threads = runtime.clone();
        let done = threads.spawn_blocking(move || {
            let _permit = permit;
            let _entered = span.entered();
            catch_panic(|| {
                runtime.block_on(async {
                    // In this order, so that nothing is sent for a caller that went away before the thread
                    // started.
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => None,
                        answer = work => Some(answer),
                    }
                })
            })
        });
        match done.await {
            Ok(Ok(Some(answer))) => Ok(answer),
            Ok(Err(panic)) => Err(self.record_crash(operation, &panic)),
            // Only during the shutdown of the threads, when no caller waits.
            Ok(Ok(None)) | Err(_) => Err(Crash),
        }
    }

    /// Calls a method of the adapter that is not async, on the current thread.
    fn call_sync<T>(&self, operation: &'static str, work: impl FnOnce() -> T) -> Option<T> {
        catch_panic(work).map_err(|panic| self.record_crash(operation, &panic)).ok()
    }

    fn record_crash(&self, operation: &'static str, panic: &Panic) -> Crash {
        if let Some(metrics) = &self.metrics {
            metrics.record_crash(&self.backend);
        }
        let mut logged = self.logged.lock();
        let now = Instant::now();
        if let Some((at, count)) = logged.get_mut(operation)
            && now.duration_since(*at) < LOG_INTERVAL
        {
            *count += 1;
            return Crash;
        }
        let unlogged = logged.insert(operation, (now, 0)).map_or(0, |(_, count)| count);
        drop(logged);
        tracing::error!(
            backend = self.backend,
            operation,
            location = panic.location,
            unlogged,
            "the adapter crashed, which is a bug of the adapter; other work continues: {}",
            panic.message
        );
        Crash
    }

    fn crash_error(&self, kind: ErrorKind, crash: Crash) -> Error {
        let message = format!(
            "the adapter of backend `{}` crashed, which is a bug of the adapter: see the server's log",
            self.backend
        );
        Error::new(kind, message).caused_by(crash)
    }
}

impl Drop for Isolation {
    /// Does not wait for blocked threads.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
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

#[cfg(test)]
#[allow(clippy::missing_trait_methods)]
mod tests;
