//! [`Isolation`]: runs the adapter code of one backend on threads of its own, so that a panic or a blocking
//! call fails only that call. A panic becomes an error with [`Crash`] as its source, is counted and is
//! logged. It must not set timeouts and must not retry: its callers do. A call whose caller goes away is
//! cancelled.
//!
//! Methods of an adapter that are not async run on the caller's thread. A panic in one is caught too; they
//! must not block.

mod backend;
mod panics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use taskbridge_sdk::{Backend, Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::metrics::Metrics;
use crate::tasks::reconciler::Crash;
use backend::Isolated;
use panics::{Panic, catch_panic};

pub use panics::install_panic_hook;

/// Maximum number of concurrent calls of one backend, including abandoned calls whose thread is blocked.
const MAX_CALLS: usize = 256;
/// Maximum number of threads of one backend. Adapters may need one more per call for blocking work of their
/// own.
const MAX_THREADS: usize = 2 * MAX_CALLS;
/// Minimum interval between two log entries about crashes of one operation. Crashes in between are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
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

#[cfg(test)]
mod tests;
