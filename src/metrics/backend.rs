//! [`MeasuredBackend`]: a backend wrapper that measures each call. It does not change the results.

// A wrapper delegates every method. Otherwise the default would run.
#![deny(clippy::missing_trait_methods)]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Budget, DiscoveredTool, Discovery,
    Error, ErrorKind, GroupKey, JobHandle, JobSpec, LogRequest, LogText, Logs, Observation, OnBehalfOf,
    Questions, Result, Started, Subject,
};

use tracing::{Instrument as _, Span};

use super::Metrics;
use crate::trace;

/// The operations that are counted.
const OPERATIONS: [&str; 9] =
    ["start", "find", "observe", "observe_all", "cancel", "answer", "read_log", "read_artifact", "discover"];

/// A measured backend.
pub(super) struct MeasuredBackend {
    name: String,
    inner: Arc<dyn Backend>,
    metrics: Arc<Metrics>,
    pause: Arc<Pause>,
}

/// The latest end of a pause that an engine requested with `Limited`.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Option<Instant>>);

/// A call in progress. A drop before its end counts as given up: it timed out, or the caller no longer
/// waits.
struct Call<'a> {
    backend: &'a MeasuredBackend,
    operation: &'static str,
    started_at: Instant,
    outcome: &'static str,
}

impl Pause {
    fn record(&self, error: &Error) {
        if let ErrorKind::Limited { after } = error.kind() {
            let until = Instant::now() + after.unwrap_or_default();
            let mut latest = self.0.lock();
            *latest = Some(latest.map_or(until, |latest| latest.max(until)));
        }
    }

    /// Returns the remaining pause.
    pub(super) fn remaining(&self) -> Duration {
        let until = *self.0.lock();
        until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default()
    }
}

/// Returns the outcome label of a call.
fn outcome(error: Option<&Error>) -> &'static str {
    match error.map(Error::kind) {
        None => "ok",
        Some(ErrorKind::Rejected) => "rejected",
        Some(ErrorKind::Denied) => "denied",
        Some(ErrorKind::Config) => "config",
        Some(ErrorKind::Limited { .. }) => "limited",
        Some(ErrorKind::Unavailable) => "unavailable",
        Some(ErrorKind::Uncertain) => "uncertain",
        Some(ErrorKind::Unsupported) => "unsupported",
    }
}

impl MeasuredBackend {
    pub(super) fn new(name: &str, inner: Arc<dyn Backend>, metrics: Arc<Metrics>) -> Self {
        for operation in OPERATIONS {
            let labels = [
                ("backend", name.to_owned().into()),
                ("operation", operation.into()),
                ("outcome", "ok".into()),
            ];
            drop(metrics.families.engine_calls.get_or_create(&labels));
        }
        drop(metrics.families.engine_crashes.get_or_create(&[("backend", name.to_owned().into())]));
        Self { name: name.to_owned(), inner, metrics, pause: Arc::default() }
    }

    pub(super) fn pause(&self) -> Arc<Pause> {
        Arc::clone(&self.pause)
    }

    fn call(&self, operation: &'static str) -> Call<'_> {
        Call { backend: self, operation, started_at: Instant::now(), outcome: "given_up" }
    }

    /// Creates the span of a call, below that of the action that makes it. Sweeps (`observe_all`) have no
    /// span.
    fn span(&self, operation: &'static str) -> Span {
        let outcome = tracing::field::Empty;
        tracing::trace_span!(target: trace::TARGET, "engine call", backend = self.name, operation, outcome)
    }

    async fn measure<T>(&self, operation: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.measure_in_span(self.span(operation), operation, work).await
    }

    async fn measure_in_span<T>(
        &self,
        span: Span,
        operation: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let call = self.call(operation);
        let result = work.instrument(span.clone()).await;
        span.record("outcome", outcome(result.as_ref().err()));
        call.finish(result.as_ref().err());
        result
    }
}

impl Call<'_> {
    fn finish(mut self, error: Option<&Error>) {
        self.outcome = outcome(error);
        if let Some(error) = error {
            self.backend.pause.record(error);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let families = &self.backend.metrics.families;
        let (backend, operation) =
            (("backend", self.backend.name.clone().into()), ("operation", self.operation.into()));
        let timed = [backend.clone(), operation.clone()];
        families.engine_duration.get_or_create(&timed).observe(self.started_at.elapsed().as_secs_f64());
        families.engine_calls.get_or_create(&[backend, operation, ("outcome", self.outcome.into())]).inc();
    }
}

#[async_trait]
impl Backend for MeasuredBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let span = self.span("start");
        // The job continues the trace from this call.
        let job = match trace::of(&span).and_then(|_| span.in_scope(|| trace::propagate(job.trace.clone()))) {
            Some(trace) => Cow::Owned(JobSpec { trace: Some(trace), ..job.clone() }),
            None => Cow::Borrowed(job),
        };
        self.measure_in_span(span, "start", self.inner.start(&job)).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.measure("find", self.inner.find(job)).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.measure("observe", self.inner.observe(handle)).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.measure("cancel", self.inner.cancel(handle)).await
    }

    async fn cancel_for(&self, handle: &JobHandle, on_behalf_of: Option<&OnBehalfOf>) -> Result<()> {
        self.measure("cancel", self.inner.cancel_for(handle, on_behalf_of)).await
    }

    async fn forget(&self, handle: &JobHandle) -> Result<()> {
        self.inner.forget(handle).await
    }

    fn start_lag(&self) -> Duration {
        self.inner.start_lag()
    }

    fn key_lifetime(&self) -> Option<Duration> {
        self.inner.key_lifetime()
    }

    fn group(&self, handle: &JobHandle) -> GroupKey {
        self.inner.group(handle)
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let call = self.call("observe_all");
        let results = self.inner.observe_all(group, jobs).await;
        let errors = || results.iter().filter_map(|result| result.as_ref().err());
        // One missing answer is not a failure of the call, but the failure of all is.
        let failed = !results.is_empty() && errors().count() == results.len();
        call.finish(errors().next().filter(|_| failed));
        errors().for_each(|error| self.pause.record(error));
        let mut outcomes: Vec<(&'static str, u64)> = Vec::new();
        for label in results.iter().map(|result| outcome(result.as_ref().err())) {
            match outcomes.iter_mut().find(|(known, _)| *known == label) {
                Some((_, count)) => *count += 1,
                None => outcomes.push((label, 1)),
            }
        }
        for (outcome, count) in outcomes {
            let labels = [("backend", self.name.clone().into()), ("outcome", outcome.into())];
            self.metrics.families.jobs_observed.get_or_create(&labels).inc_by(count);
        }
        results
    }

    fn abilities(&self) -> Abilities<'_> {
        let inner = self.inner.abilities();
        Abilities {
            questions: inner.questions.and(Some(self)),
            logs: inner.logs.and(Some(self)),
            artifacts: inner.artifacts.and(Some(self)),
            discovery: inner.discovery.and(Some(self)),
            ..inner
        }
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }

    fn budgets(&self) -> Vec<Budget> {
        self.inner.budgets()
    }
}

/// The following traits are reached only if the backend has them. If it has them no longer, a call returns a
/// neutral result.
#[async_trait]
impl Questions for MeasuredBackend {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let Some(questions) = self.inner.abilities().questions else { return Ok(AnswerOutcome::TooLate) };
        self.measure("answer", questions.answer(handle, question, answer)).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        on_behalf_of: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        let Some(questions) = self.inner.abilities().questions else { return Ok(AnswerOutcome::TooLate) };
        self.measure("answer", questions.answer_for(handle, question, answer, on_behalf_of)).await
    }

    fn list_lag(&self) -> Duration {
        self.inner.abilities().questions.map(Questions::list_lag).unwrap_or_default()
    }

    fn needs_token(&self) -> bool {
        self.inner.abilities().questions.is_some_and(Questions::needs_token)
    }
}

#[async_trait]
impl Logs for MeasuredBackend {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let Some(logs) = self.inner.abilities().logs else { return Ok(LogText::default()) };
        self.measure("read_log", logs.tail(handle, request)).await
    }
}

#[async_trait]
impl Artifacts for MeasuredBackend {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(artifacts) = self.inner.abilities().artifacts else { return Ok(None) };
        self.measure("read_artifact", artifacts.read(handle, name, max_bytes)).await
    }
}

#[async_trait]
impl Discovery for MeasuredBackend {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(discovery) = self.inner.abilities().discovery else { return Ok(Vec::new()) };
        self.measure("discover", discovery.discover()).await
    }
}
