//! [`SimEngine`]: the shared handle of a simulated engine. It applies faults and wakes waiting tasks; `state`
//! and `job` implement the jobs. It must not spawn: changes that are due are applied when a caller accesses
//! the engine.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::backend::BackendSettings;
use super::fault::{Faults, RequestEffects};
use super::request::{Reply, Request};
use super::state::State;
use super::{Config, Fault, Mode, Operation, SimBackend};
use crate::{DiscoveredTool, Error, JobHandle, JobKey, JobState, Observation, Result};

/// A simulated engine. Clones are handles to the same engine.
///
/// Tests use its methods to inspect and change the engine directly. Faults do not apply to them.
#[derive(Clone)]
pub struct SimEngine(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    /// Notified when there is a new hint, or when the earliest due time becomes earlier.
    changed: Notify,
}

struct Inner {
    state: State,
    faults: Faults,
}

impl SimEngine {
    /// Creates an engine without faults that keeps the default number of ended jobs.
    pub fn new(mode: Mode) -> Self {
        Self::from_config(&Config { mode: Some(mode), ..Config::default() })
    }

    /// Creates an engine in this process from a config. Its `address` is ignored.
    pub fn from_config(config: &Config) -> Self {
        let inner = Inner { state: State::new(config), faults: Faults::new(config.faults, config.seed) };
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }))
    }

    /// Creates a backend for this engine. Several backends may share an engine, like several servers.
    pub fn backend(&self) -> Arc<SimBackend> {
        self.backend_as(&Config::default())
    }

    /// Creates a backend for this engine, with the backend settings of a config.
    pub fn backend_as(&self, config: &Config) -> Arc<SimBackend> {
        Arc::new(self.backend_for(BackendSettings::of(config)))
    }

    /// Creates a backend for this engine, with these backend settings.
    pub(super) fn backend_for(&self, settings: BackendSettings) -> SimBackend {
        SimBackend::of_engine(self.clone(), settings)
    }

    /// Appends a line `KEY HANDLE TEXT` to this file for every job accepted from now on, before the caller
    /// gets the reply. TEXT is the target's `text` as JSON. The file is not synced: it survives a crash of
    /// this process, but not of the machine.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened for appending.
    pub fn keep_journal(&self, file: &Path) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        self.with_inner(|inner, _| inner.state.keep_journal(file));
        Ok(())
    }

    /// Returns how the engine handles a key that it knows.
    pub fn mode(&self) -> Mode {
        self.with_inner(|inner, _| inner.state.mode)
    }

    /// Returns how many jobs were accepted under this key, as far as the engine still remembers them.
    pub fn starts(&self, key: &JobKey) -> usize {
        self.with_inner(|inner, _| inner.state.starts(key))
    }

    /// Returns how many jobs were accepted in total.
    pub fn total_starts(&self) -> u64 {
        self.with_inner(|inner, _| inner.state.total_starts())
    }

    /// Returns the jobs that were accepted under this key, oldest first. It includes jobs after
    /// [`SimEngine::forget`], but no jobs beyond the config's `remember`.
    pub fn jobs_of(&self, key: &JobKey) -> Vec<JobHandle> {
        self.with_inner(|inner, _| inner.state.jobs_of(key))
    }

    /// Returns the keys of the jobs that have not ended, oldest first.
    pub fn running(&self) -> Vec<JobKey> {
        self.with_inner(|inner, _| inner.state.running())
    }

    /// Returns how many ended jobs the engine remembers.
    pub fn remembered(&self) -> usize {
        self.with_inner(|inner, _| inner.state.remembered())
    }

    /// Schedules this fault for the next request of this kind, after earlier injected faults.
    pub fn inject(&self, operation: Operation, fault: Fault) {
        self.with_inner(|inner, _| inner.faults.push(operation, fault));
    }

    /// Starts or ends an outage. During an outage jobs continue, every request fails with `Unavailable`, and
    /// hints are lost.
    pub fn set_outage(&self, outage: bool) {
        self.with_inner(|inner, _| {
            inner.faults.set_outage(outage);
            inner.state.hints.set_discarding(outage);
        });
    }

    /// Removes all injected faults that have not occurred yet.
    pub fn clear_faults(&self) {
        self.with_inner(|inner, _| inner.faults.clear());
    }

    /// Replaces the list of tools that discovery returns.
    pub fn offer(&self, tools: Vec<DiscoveredTool>) {
        self.with_inner(|inner, _| inner.state.offer(tools));
    }

    /// Makes the engine forget a job: it is `Gone` from now on, and counts as ended. A keyed engine starts no
    /// second job under its key, until the job is removed as one beyond the config's `remember`.
    pub fn forget(&self, handle: &JobHandle) {
        self.with_inner(|inner, now| inner.state.forget(handle, now));
    }

    /// Ends a job in this state now. A job that has ended stays unchanged.
    ///
    /// # Panics
    /// Panics if the state is not the state of an ended job.
    pub fn finish(&self, handle: &JobHandle, state: JobState) {
        assert!(state.has_ended(), "a job cannot be finished as {state:?}");
        self.with_inner(|inner, now| inner.state.finish(handle, state, now));
    }

    /// Completes the work of all jobs now, up to their question or their end. A test decides so when they end.
    pub fn hasten(&self) {
        self.with_inner(|inner, now| inner.state.hasten(now));
    }

    /// Runs one request with its faults. Returns `None` if the reply is lost.
    pub(super) async fn call(&self, request: Request) -> Option<Result<Reply>> {
        let (reply, pause) = self.with_inner(|inner, now| inner.apply_faults(request, now));
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        reply
    }

    /// Waits for the next hint at or after `cursor`, and advances `cursor`.
    pub(super) async fn hint(&self, cursor: &AtomicU64) -> JobHandle {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (hint, due) = self.with_inner(|inner, _| {
                // The lock makes this read and write atomic for all tasks that wait on the same counter.
                let (hint, next_cursor) = inner.state.hint_after(cursor.load(Ordering::Relaxed));
                cursor.store(next_cursor, Ordering::Relaxed);
                (hint, inner.state.next_due())
            });
            if let Some(handle) = hint {
                return handle;
            }
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    /// Returns how many hints there have been.
    pub(super) fn hint_count(&self) -> u64 {
        self.with_inner(|inner, _| inner.state.hints.count())
    }

    fn with_inner<T>(&self, action: impl FnOnce(&mut Inner, Instant) -> T) -> T {
        let now = Instant::now();
        let mut inner = self.0.inner.lock();
        let (hints_before, due_before) = (inner.state.hints.count(), inner.state.next_due());
        inner.state.apply_due_changes(now);
        let result = action(&mut inner, now);
        let is_earlier = match (inner.state.next_due(), due_before) {
            (Some(next), Some(before)) => next < before,
            (next, None) => next.is_some(),
            (None, Some(_)) => false,
        };
        let wake = is_earlier || inner.state.hints.count() != hints_before;
        drop(inner);
        if wake {
            self.0.changed.notify_waiters();
        }
        result
    }
}

impl Inner {
    /// Returns the reply to a request after faults were applied, and the delay of the reply.
    fn apply_faults(&mut self, request: Request, now: Instant) -> (Option<Result<Reply>>, Duration) {
        let RequestEffects { fault, pause } = self.faults.next(request.operation());
        let reply = match fault {
            None => Some(self.state.perform(now, request)),
            Some(Fault::Slow(extra)) => {
                return (Some(self.state.perform(now, request)), pause + extra);
            }
            Some(Fault::LostReply) => {
                drop(self.state.perform(now, request));
                None
            }
            Some(Fault::Panic) => {
                drop(self.state.perform(now, request));
                Some(Ok(Reply::Panic))
            }
            Some(Fault::LostBefore) => None,
            Some(Fault::Late(delay)) => {
                if let Some(arrival) = now.checked_add(delay) {
                    self.state.start_later(arrival, request);
                }
                None
            }
            Some(Fault::Limited(delay)) => {
                Some(Err(Error::limited(Some(delay), "the simulated engine limits the request rate")))
            }
            Some(Fault::Outage) => Some(Err(Error::unavailable("the simulated engine cannot be reached"))),
            Some(Fault::Busy(delay)) => {
                let error = Error::unavailable("the simulated engine is busy").with_retry_after(delay);
                Some(Err(error))
            }
            Some(Fault::Gone) => Some(self.lose_job(request, now)),
            Some(Fault::Unlisted) => Some(match request {
                Request::Observe { handles } => {
                    Ok(Reply::Seen(handles.iter().map(|_| Observation::new(JobState::Gone)).collect()))
                }
                Request::Find { .. } => Ok(Reply::Found(None)),
                other => self.state.perform(now, other),
            }),
            Some(Fault::Rejected) => Some(Err(Error::rejected("the simulated engine refuses this request"))),
            Some(Fault::Denied) => {
                Some(Err(Error::denied("the simulated engine does not accept these credentials")))
            }
        };
        (reply, pause)
    }

    fn lose_job(&mut self, request: Request, now: Instant) -> Result<Reply> {
        for handle in request.handles() {
            self.state.forget(handle, now);
        }
        if let Request::Find { key } = &request {
            for handle in self.state.jobs_of(key) {
                self.state.forget(&handle, now);
            }
        }
        let mut reply = self.state.perform(now, request)?;
        if let Reply::Started(started) = &mut reply {
            started.first = None;
            self.state.forget(&started.handle, now);
        }
        Ok(reply)
    }
}
