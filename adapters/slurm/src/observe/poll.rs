//! A poll of many jobs. One request for the queue, which may be cached, returns all jobs of the user that the
//! controller still knows. Accounting queries (of several hundred jobs each) and the jobs' folders provide
//! the rest. The end of a job is stored once, so that it never changes afterwards. A poll also releases held
//! jobs again, cancels duplicates, and repeats lost cancellations. It must not start anything.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use taskbridge_sdk::{Error, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use crate::core::Slurm;
use crate::driver::{CancelledBy, Row};
use crate::identity::handle::{JobId, SlurmHandle};
use crate::identity::unix::name_of;
use crate::observe::active_job;
use crate::observe::conclude::{self, Conclusion};
use crate::observe::release::RETRY_INTERVAL;
use crate::observe::snapshot::JobSnapshot;
use crate::observe::terminal_state::{Accounting, TerminalEvidence};
use crate::store::disk::{MAX_CONCURRENT, check_not_abandoned};
use crate::store::end_marker::Run;
use crate::store::folder::{FINAL_OBSERVATION, Folder, read_error, write_error};
use crate::store::plan::Plan;
use crate::store::queue_cache::{AccountingReply, Freshness, Queue};

/// How long a job counts as young after this process changed it.
const YOUNG_AGE: Duration = Duration::from_secs(60);

impl Slurm {
    pub(crate) async fn poll_jobs(&self, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let handles: Vec<Result<Option<SlurmHandle>>> =
            jobs.iter().map(|job| self.parse(&job.handle)).collect();
        let pairs = handles.iter().zip(jobs);
        let own_handles: Vec<(SlurmHandle, bool)> =
            pairs.filter_map(|(handle, job)| Some((handle.as_ref().ok()?.clone()?, job.watched))).collect();
        let mut results: HashMap<String, Result<Observation>> = HashMap::new();
        match self.observe_handles(own_handles).await {
            Ok(observations) => results.extend(observations),
            Err(error) => {
                let failed = |handle: &SlurmHandle| (handle.to_job_handle().to_string(), Err(error.clone()));
                results.extend(handles.iter().flatten().flatten().map(failed));
            }
        }
        let mut result_for = |(job, handle): (&Subject, Result<Option<SlurmHandle>>)| match handle {
            Err(error) => Err(error),
            Ok(None) => {
                Ok(Observation::new(JobState::Gone).with_message("the job does not belong to this backend"))
            }
            Ok(Some(_)) => match results.get(job.handle.as_str()) {
                // The same handle may occur twice.
                Some(Ok(observation)) => Ok(observation.clone()),
                _ => results
                    .remove(job.handle.as_str())
                    .unwrap_or_else(|| Err(Error::unavailable("the job was not polled"))),
            },
        };
        jobs.iter().zip(handles).map(&mut result_for).collect()
    }

    async fn observe_handles(
        &self,
        handles: Vec<(SlurmHandle, bool)>,
    ) -> Result<Vec<(String, Result<Observation>)>> {
        if handles.is_empty() {
            return Ok(Vec::new());
        }
        // If the cluster was unreachable when the backend connected, this call learns whether it has an
        // accounting database.
        self.cluster().await?;
        self.ensure_jobs_folder().await?;
        let mut snapshots = self.load_snapshots(handles).await?;
        for snapshot in snapshots
            .iter()
            .filter(|snapshot| snapshot.plan.as_ref().is_some_and(|plan| plan.attached.is_none()))
        {
            self.job_cache.record_number(snapshot.handle.job, &snapshot.handle.key);
        }
        let has_young_jobs = snapshots.iter().any(|snapshot| self.is_young(&snapshot.handle.key));
        let (mut queue, mut requested_at) = self
            .queue_cache
            .queue(&*self.driver, if has_young_jobs { Freshness::Young } else { Freshness::Normal })
            .await?;
        let has_row = |queue: &Queue, snapshot: &JobSnapshot| {
            queue.rows_of(snapshot.handle.job).iter().any(|row| snapshot.owns_row(row))
        };
        if snapshots.iter().any(|snapshot| {
            !has_row(&queue, snapshot) && self.includes_last_change(&snapshot.handle.key, requested_at)
        }) {
            (queue, requested_at) =
                self.queue_cache.queue(&*self.driver, Freshness::Missing(requested_at)).await?;
        }
        self.cancel_duplicates(&queue, &snapshots).await?;
        for snapshot in &mut snapshots {
            snapshot.rows = queue
                .rows_of(snapshot.handle.job)
                .iter()
                .filter(|row| snapshot.owns_row(row))
                .cloned()
                .collect();
            if snapshot.active_array_tasks().is_some() {
                snapshot.array_counts = self.job_cache.array_counts(&snapshot.handle.key);
            }
            snapshot.preempted = self.job_cache.preempted(&snapshot.handle.key, snapshot.restarts());
        }
        let snapshots = self.read_folders(snapshots).await;
        for snapshot in &snapshots {
            if let Some(preempted) = snapshot.preempted {
                self.job_cache.record_preempted(&snapshot.handle.key, snapshot.restarts(), preempted);
            }
        }
        let snapshots = self.end_by_markers(snapshots).await;
        self.observe_snapshots(snapshots, requested_at).await
    }

    fn is_young(&self, key: &str) -> bool {
        self.job_cache.last_change(key).is_some_and(|at| at.elapsed() < YOUNG_AGE)
    }

    /// Returns true if a queue that was requested at `requested_at` includes this process's last change of
    /// the job.
    fn includes_last_change(&self, key: &str, requested_at: Instant) -> bool {
        self.job_cache.last_change(key).is_none_or(|touched| touched < requested_at)
    }

    async fn observe_snapshots(
        &self,
        snapshots: Vec<JobSnapshot>,
        requested_at: Instant,
    ) -> Result<Vec<(String, Result<Observation>)>> {
        let accounting_replies = match self.has_accounting() {
            true => {
                let needs_query = |snapshot: &&JobSnapshot| snapshot.is_over() || snapshot.needs_records();
                let queried_jobs: Vec<JobId> =
                    snapshots.iter().filter(needs_query).map(|snapshot| snapshot.handle.job).collect();
                self.queue_cache.query_accounting(&*self.driver, &queried_jobs).await
            }
            false => HashMap::new(),
        };
        let needs_positions = snapshots
            .iter()
            .any(|snapshot| snapshot.watched && snapshot.rows.iter().any(active_job::has_position));
        let positions = if needs_positions { self.queue_cache.positions(&*self.driver).await } else { None };
        let mut results = Vec::with_capacity(snapshots.len());
        let mut ended_jobs = Vec::new();
        for mut snapshot in snapshots {
            let handle = snapshot.handle.to_job_handle().to_string();
            if let Some(error) = snapshot.error.take() {
                results.push((handle, Err(error)));
                continue;
            }
            let reply = accounting_replies.get(&snapshot.handle.job);
            let records = match reply {
                Some(AccountingReply::Records(records)) => records.as_slice(),
                _ => &[],
            };
            let records: Vec<_> =
                records.iter().filter(|record| record.name == snapshot.name()).cloned().collect();
            if let Some(tasks) = snapshot.active_array_tasks()
                && matches!(reply, Some(AccountingReply::Records(_)))
            {
                snapshot.array_counts.lock().add_records(&tasks, &snapshot.rows, &records);
            }
            if let Some(folder_state) = &mut snapshot.folder_state {
                folder_state.evidence.records = records;
                folder_state.evidence.accounting = match reply {
                    Some(AccountingReply::Unavailable) => Accounting::Unavailable,
                    None if self.has_accounting() => Accounting::NotQueried,
                    _ => Accounting::Complete,
                };
            }
            let position = positions.as_ref().and_then(|by_job| by_job.get(&snapshot.handle.job).copied());
            match snapshot.is_active() {
                true => results.push((handle, Ok(self.observe_active(&snapshot, position).await))),
                false => {
                    ended_jobs.push(async { (handle, self.observe_ended(snapshot, requested_at).await) })
                }
            }
        }
        // The jobs are concluded concurrently: if users' folders hang, all of them together take no longer
        // than one.
        results.extend(stream::iter(ended_jobs).buffered(MAX_CONCURRENT).collect::<Vec<_>>().await);
        Ok(results)
    }

    /// Observes a pending or running job. A job that is still held is released again if its release failed,
    /// or cancelled again if it was cancelled.
    async fn observe_active(&self, snapshot: &JobSnapshot, position: Option<usize>) -> Observation {
        let key = &snapshot.handle.key;
        self.job_cache.clear_ended(key);
        let plan = snapshot.plan.clone().unwrap_or_default();
        let is_held = snapshot.rows.iter().any(Row::is_held_by_user);
        let Some(folder_state) = snapshot.folder_state.as_ref().filter(|_| is_held) else {
            let mut observation =
                active_job::observe_rows(&plan, &snapshot.rows, position, &mut snapshot.array_counts.lock());
            observation.log_bytes = snapshot.log_bytes;
            let observation = active_job::with_not_started(observation, &plan, snapshot.not_started);
            return active_job::with_preempted(observation, snapshot.preempted == Some(true));
        };
        if folder_state.evidence.cancel_requested && self.job_cache.is_due(key, RETRY_INTERVAL) {
            // A controller that crashed has lost the cancellation. If this fails, a later poll tries again.
            drop(self.driver.cancel(snapshot.handle.job, key).await);
        }
        let may_release = folder_state.may_release
            && !folder_state.evidence.cancel_requested
            && self.job_cache.is_due(key, RETRY_INTERVAL);
        if may_release && self.should_release(folder_state.released_at).await {
            self.release(key, snapshot.handle.job).await;
        }
        match &plan.approval {
            Some(question) if !folder_state.answered && !folder_state.evidence.cancel_requested => {
                active_job::approval_observation(question)
            }
            _ => active_job::observe_rows(&plan, &snapshot.rows, position, &mut snapshot.array_counts.lock()),
        }
    }

    /// Observes a job without pending or running parts.
    async fn observe_ended(&self, snapshot: JobSnapshot, requested_at: Instant) -> Result<Observation> {
        let key = snapshot.handle.key.clone();
        let Some(mut folder_state) = snapshot.folder_state else {
            return Err(Error::unavailable("the job's folder was not read"));
        };
        if let Some(observed) = folder_state.final_observation {
            self.job_cache.forget(&key);
            return Ok(observed);
        }
        let Some(plan) = snapshot.plan else {
            return Ok(Observation::new(JobState::Gone)
                .with_message("Slurm does not know the job, and the job has no folder"));
        };
        // A queue that was requested before the submission does not contain the job.
        if snapshot.rows.is_empty() && !self.includes_last_change(&key, requested_at) {
            return Ok(Observation::new(JobState::Queued).with_message("submitted"));
        }
        if let Some(read_count) = folder_state.runs_read {
            self.job_cache.over_for(&key);
            return Ok(reading_observation(read_count));
        }
        // While the folder hangs, the job's nodes cannot write into it either.
        folder_state.evidence.ended_for =
            self.job_cache.over_for(&key).min(self.disks.jobs.time_since_hang());
        if folder_state.evidence.accounting != Accounting::NotQueried {
            folder_state.evidence.queried_for = self.job_cache.first_query_age(&key);
        }
        folder_state.evidence.rows = snapshot.rows;
        folder_state.evidence.number_reused = self.job_cache.is_number_reused(snapshot.handle.job);
        folder_state.evidence.slurmd_uid = self.cluster().await?.slurmd_user;
        let accounting_wait = if self.has_accounting() { self.accounting_wait } else { Duration::ZERO };
        let (folder, mut evidence, job) = (snapshot.folder, folder_state.evidence, snapshot.handle.job);
        let was_queried = evidence.accounting != Accounting::NotQueried;
        evidence.preempted = snapshot.preempted.unwrap_or(false);
        let disk = self.disk_of(&plan, &folder);
        let outcome = disk
            .run(move || match conclude_job(&plan, &mut evidence, &folder, job, accounting_wait) {
                Conclusion::Pending(observation) => Ok((observation, false)),
                Conclusion::Ended(observation, unstarted_runs) => {
                    check_not_abandoned().map_err(|e| write_error(&folder, e))?;
                    if plan.attached.is_none() && !close_fences(&folder, unstarted_runs)? {
                        return Ok((started_observation(), false));
                    }
                    store_end(&folder, &observation).map(|stored| (stored, true))
                }
            })
            .await?;
        let (mut observation, is_final) = outcome?;
        if is_final {
            self.job_cache.forget(&key);
        } else {
            observation.message = self.job_cache.stable_message(&key, observation.message, was_queried);
        }
        Ok(observation)
    }
}

/// Concludes how a job ended. First resolves the uids of users to names, which can take a while.
fn conclude_job(
    plan: &Plan,
    evidence: &mut TerminalEvidence,
    folder: &Folder,
    job: JobId,
    accounting_wait: Duration,
) -> Conclusion {
    let by = evidence.records.iter().filter_map(|record| match record.cancelled_by {
        CancelledBy::User(number) => Some(number),
        CancelledBy::Unknown | CancelledBy::Controller => None,
    });
    let by: BTreeSet<u32> = by.collect();
    evidence.user_names = by.into_iter().filter_map(|number| Some((number, name_of(number)?))).collect();
    conclude::conclude(plan, evidence, folder, job, accounting_wait)
}

/// Closes the fences of these runs, so that they never begin. Returns false if one has begun.
fn close_fences(folder: &Folder, runs: Vec<Run>) -> Result<bool> {
    for run in runs {
        if !folder.close_fence(run).map_err(|e| write_error(folder, e))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the observation of an ended array while its end markers are being read.
fn reading_observation(read_count: usize) -> Observation {
    let message = format!("the job has ended; reading the ends of its tasks, {read_count} so far");
    Observation::new(JobState::Running).with_message(message)
}

/// Returns the observation of a job that began just before it was declared lost.
fn started_observation() -> Observation {
    Observation::new(JobState::Running).with_message("the job has begun")
}

/// Stores how a job ended, and returns the stored end. If another poll stored one first, here or in another
/// process, that one counts.
fn store_end(folder: &Folder, observation: &Observation) -> Result<Observation> {
    let text = serde_json::to_vec(observation)
        .map_err(|e| Error::unavailable("the end of the job cannot be serialized").caused_by(e))?;
    let stored = folder.write_first(FINAL_OBSERVATION, &text).map_err(|e| read_error(folder, e))?;
    serde_json::from_slice(&stored).map_err(|e| {
        Error::unavailable(format!("{} is invalid", folder.file(FINAL_OBSERVATION).display())).caused_by(e)
    })
}

#[cfg(test)]
mod tests;
