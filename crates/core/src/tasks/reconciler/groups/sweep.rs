//! One sweep: a call that polls jobs of a group, and the writes of what changed. It must not schedule polls.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use taskbridge_sdk::{Error, ErrorKind, JobState, Observation, Timestamp, one_line, sanitize};
use tokio::time::Instant;

use super::super::poll_schedule::{self, DueBatch, DueJob, PollResult, SweepFault};
use super::super::{Core, Crash};
use crate::tasks::history::EngineOperation;
use crate::tasks::machine::{self, Event, Failure};
use crate::tasks::store::{Group, Lease, StoreError};
use crate::tasks::task::{Job, Task, TaskId};

/// Number of rows of one sweep that are written concurrently, so that they share the store's commits.
const MAX_WRITES: usize = 64;

/// Maximum pause by request of the engine. A longer one that it requests is cut to this.
const MAX_PAUSE: Duration = Duration::from_secs(900);

/// The result of one sweep.
pub(super) struct SweepResult {
    pub(super) group: Group,
    pub(super) results: Vec<(TaskId, PollResult)>,
    /// How long no job of the group is polled, because the engine limits the rate of calls.
    pub(super) pause: Option<Duration>,
    /// How long the engine asks not to poll single jobs.
    pub(super) waits: Vec<(TaskId, Duration)>,
    /// What the first failed poll said, in one line.
    pub(super) reason: Option<String>,
}

impl SweepResult {
    /// Creates the result of a sweep in which the engine asked for no pause.
    fn new(group: Group, results: Vec<(TaskId, PollResult)>) -> Self {
        Self { group, results, pause: None, waits: Vec::new(), reason: None }
    }
}

impl Core {
    /// Polls these jobs of a group with one call, and writes what changed. Waits for a call permit first.
    pub(super) async fn sweep(&self, group: Group, identity: Option<String>, due: DueBatch) -> SweepResult {
        let DueBatch { subjects, jobs: due, .. } = due;
        let _permit = self.engines.acquire_permit(&group.backend).await;
        let (started, polled_at) = (Instant::now(), self.writer.now());
        let alone = due.iter().all(|job| job.alone);
        let answers = self
            .engines
            .call(&group.backend, self.settings.lease / 2, Error::unavailable, |backend| {
                let (key, subjects) = (&group.key, &subjects);
                async move {
                    match &subjects[..] {
                        [one] if alone => Ok(vec![backend.observe(&one.handle).await]),
                        _ => Ok(backend.observe_all(key, subjects).await),
                    }
                }
            })
            .await;
        if self.engines.identity(&group.backend) != identity {
            // The engine has reported its identity during the call, and these may be jobs of another engine.
            let results = due.into_iter().map(|job| (job.id, PollResult::Unwritten)).collect();
            return SweepResult::new(group, results);
        }
        let fault = fault(&answers);
        let answers: Vec<Result<Observation, Error>> = match answers {
            Ok(mut answers) => {
                // A backend that returns too few answers must not drop the remaining jobs.
                let missing = || Err(Error::unavailable("the backend returned no result for this job"));
                answers.resize_with(due.len(), missing);
                let failed = answers.iter().all(Result::is_err);
                let error = answers.first().filter(|_| failed).and_then(|first| first.as_ref().err());
                self.engines.record_result(&group.backend, error);
                answers
            }
            Err(error) => {
                self.engines.record_result(&group.backend, Some(&error));
                let failure = Failure::from(&error);
                let copy = || {
                    let copy = Error::new(failure.kind, failure.message.clone());
                    failure.retry_after.into_iter().fold(copy, Error::with_retry_after)
                };
                due.iter().map(|_| Err(copy())).collect()
            }
        };
        if fault == Some(SweepFault::Crashed) && due.len() > 1 {
            let results = due.into_iter().map(|job| (job.id, PollResult::Undecided)).collect();
            return SweepResult::new(group, results);
        }
        let took = started.elapsed();
        let pause = answers.iter().filter_map(|answer| pause(answer.as_ref().err()?)).max();
        let wait = |(job, answer): (&DueJob, &Result<Observation, Error>)| {
            Some((job.id.clone(), answer.as_ref().ok()?.retry_after?.min(MAX_PAUSE)))
        };
        let waits = due.iter().zip(&answers).filter_map(wait).collect();
        let reason =
            answers.iter().find_map(|answer| Some(one_line(&sanitize(&answer.as_ref().err()?.to_string()))));
        // Nearly all polls return what is known. Only the others get a future.
        let mut results = Vec::with_capacity(due.len());
        let mut changed = Vec::new();
        for (job, answer) in due.into_iter().zip(answers) {
            match unchanged_result(&job, &answer) {
                Some(result) => results.push((job.id, result)),
                None => changed.push((job, answer)),
            }
        }
        let writes =
            stream::iter(changed).map(|(job, answer)| self.write_observation(job, answer, polled_at, took));
        results.extend(writes.buffer_unordered(MAX_WRITES).collect::<Vec<_>>().await);
        for (_, result) in &mut results {
            if let PollResult::Failed { fault: known, .. } = result {
                *known = fault;
            }
        }
        SweepResult { group, results, pause, waits, reason }
    }

    /// Writes one poll result, unless it leaves the row unchanged. The end of a job, and the crash that gives
    /// a job up, stay true, so they are written over any version of the row. A job that still runs and a
    /// failed poll are written only over the version that was known before the poll; otherwise the job is
    /// polled again.
    async fn write_observation(
        &self,
        job: DueJob,
        answer: Result<Observation, Error>,
        polled_at: Timestamp,
        took: Duration,
    ) -> (TaskId, PollResult) {
        let same = |digest| is_unchanged(&job, digest);
        let id = job.id.clone();
        let row = match self.writer.read(&id).await {
            Ok(Some(row)) => row,
            Ok(None) => return (id, PollResult::RowGone),
            Err(error @ StoreError::Unreadable(_)) => {
                tracing::error!(%error, "poll result cannot be written: the row is unreadable");
                // The job leaves the schedule. It comes back with a full read of the group
                // ([`FULL_READ_INTERVAL`]) that can parse its row.
                return (id, PollResult::RowGone);
            }
            Err(_) => return (id, PollResult::Unwritten),
        };
        if self.was_renamed(&row, &job) {
            return (id, PollResult::Superseded { version: row.version });
        }
        let (event, result) = match answer {
            Ok(observation) if observation.state == JobState::Gone => {
                let wait = self.engines.start_lag(&row.backend) / 4;
                let result = PollResult::Missing { version: row.version, wait };
                (self.observed(&row, observation, polled_at).await, result)
            }
            Ok(observation) => {
                let log_followed = row.log_is_followed(self.writer.now());
                let digest = poll_schedule::digest(&observation);
                let list_lag = self.engines.list_lag(&row.backend);
                // A poll within the list lag cannot distinguish a new question from an answered one
                // with the same id.
                let is_settled = !machine::may_ask_again(&row, &observation.questions, polled_at - list_lag);
                let result = PollResult::Observed {
                    digest: Some(digest).filter(|_| is_settled),
                    log_followed,
                    version: row.version,
                };
                let is_recorded = |bytes| row.printed.is_some_and(|printed| printed.bytes == bytes);
                let log_grew = log_followed && observation.log_bytes.is_some_and(|bytes| !is_recorded(bytes));
                // The digest is valid only for the row version that this process knows.
                let is_known = same(digest) && observation.renamed_to.is_none();
                if is_known && row.version == job.version && !log_grew {
                    return (id, result);
                }
                (self.observed(&row, observation, polled_at).await, result)
            }
            Err(error) => {
                let result = PollResult::Failed { kind: error.kind(), version: row.version, fault: None };
                let event = match job.last_crash.filter(|_| Crash::caused(&error)) {
                    Some(times) => Event::PollCrashed { times },
                    None => Event::PollFailed(Failure::from(&error)),
                };
                (event, result)
            }
        };
        if machine::next(&row, event.clone(), self.writer.now()).task == row {
            return (id, result.for_row(&row));
        }
        if !event.is_transient() {
            let after =
                self.write_fact(&row, event.after_call(EngineOperation::Look, took), Lease::Keep).await;
            // `None` means that the row is gone, which the next poll finds, or that it could not be written.
            return (id, after.map_or(PollResult::Unwritten, |after| result.for_row(&after)));
        }
        if row.version != job.version {
            return (id, PollResult::Superseded { version: row.version });
        }
        match self.write_poll(&row, event.after_call(EngineOperation::Look, took), Lease::Keep).await {
            Ok(Some(after)) => (id, result.for_row(&after)),
            Ok(None) => (id, PollResult::Superseded { version: row.version }),
            Err(error) => {
                tracing::warn!(task = ?id, %error, "poll result cannot be written; the job is polled again");
                (id, PollResult::Unwritten)
            }
        }
    }
}

impl Core {
    /// Returns true if the row's job has another name by now than the one that was polled. The schedules are
    /// then informed, and the job is polled again.
    fn was_renamed(&self, row: &Task, polled: &DueJob) -> bool {
        let is_renamed = matches!(&row.job, Job::Open { handle, .. } if *handle != polled.handle);
        if is_renamed {
            self.writer.publish_open_job(row, true);
        }
        is_renamed
    }
}

/// Classifies a failure of the whole call that one of its jobs may have caused.
fn fault(answers: &Result<Vec<Result<Observation, Error>>, Error>) -> Option<SweepFault> {
    let crashed = |answer: &Result<Observation, Error>| answer.as_ref().is_err_and(Crash::caused);
    match answers {
        Ok(answers) if !answers.is_empty() && answers.iter().all(crashed) => Some(SweepFault::Crashed),
        Err(error) if error.kind() == ErrorKind::Unavailable => Some(SweepFault::Hung),
        _ => None,
    }
}

/// Returns true if this digest was already written, and no failed poll was written since.
fn is_unchanged(job: &DueJob, digest: u64) -> bool {
    !job.last_failed && job.digest == Some(digest)
}

/// Returns the result of a poll for which the row need not be read: the observation is known, or the poll
/// failed as the one before. `None` if the row must be read.
fn unchanged_result(job: &DueJob, answer: &Result<Observation, Error>) -> Option<PollResult> {
    match answer {
        // Whether a client follows the log is only in the row, so `needs_row_read` has the row read.
        Ok(observation) if !job.needs_row_read && observation.renamed_to.is_none() => {
            let digest = poll_schedule::digest(observation);
            let same = is_unchanged(job, digest);
            let (digest, version) = (Some(digest), job.version);
            same.then_some(PollResult::Observed { digest, log_followed: false, version })
        }
        Err(error) if job.last_failed && job.last_crash.is_none() => {
            Some(PollResult::Failed { kind: error.kind(), version: job.version, fault: None })
        }
        _ => None,
    }
}

/// Returns the pause after an error: as long as the engine requests, at most [`MAX_PAUSE`]. After a rate limit
/// error without a request it is five seconds; after other errors, `None`.
fn pause(error: &Error) -> Option<Duration> {
    let default = matches!(error.kind(), ErrorKind::Limited { .. }).then_some(Duration::from_secs(5));
    error.retry_after().or(default).map(|pause| pause.min(MAX_PAUSE))
}
