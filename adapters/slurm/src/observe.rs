//! A poll of many jobs. One request for the queue, which may be cached, returns all jobs of the user that the
//! controller still knows. Accounting queries (of several hundred jobs each) and the jobs' folders provide
//! the rest. The end of a job is stored once, so that it never changes afterwards. A poll also releases held
//! jobs again, cancels duplicates, and repeats lost cancellations. It must not start anything.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use taskbridge_sdk::{Error, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use crate::active_job;
use crate::backend::Slurm;
use crate::disk::{AT_ONCE, check_not_abandoned};
use crate::driver::{CancelledBy, JobId, Row};
use crate::end::Run;
use crate::folder::{Folder, OBSERVED};
use crate::handle::SlurmHandle;
use crate::job_snapshot::JobSnapshot;
use crate::plan::Plan;
use crate::queue_cache::{AccountingReply, Freshness, Queue};
use crate::release::TRY_EVERY;
use crate::result::{self, Conclusion};
use crate::start::{unreadable, unwritable};
use crate::terminal_state::{Accounting, TerminalEvidence};
use crate::unix::name_of;

/// How long a job counts as young after this process changed it.
const YOUNG: Duration = Duration::from_secs(60);

impl Slurm {
    pub(crate) async fn poll_jobs(&self, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let places: Vec<Result<Option<SlurmHandle>>> =
            jobs.iter().map(|job| self.parse(&job.handle)).collect();
        let ours = places.iter().zip(jobs);
        let known: Vec<(SlurmHandle, bool)> =
            ours.filter_map(|(place, job)| Some((place.as_ref().ok()?.clone()?, job.watched))).collect();
        let mut answers: HashMap<String, Result<Observation>> = HashMap::new();
        match self.look_at(known).await {
            Ok(seen) => answers.extend(seen),
            Err(error) => {
                let again = |place: &SlurmHandle| {
                    (place.handle().to_string(), Err(Error::new(error.kind(), error.to_string())))
                };
                answers.extend(places.iter().flatten().flatten().map(again));
            }
        }
        let mut answer = |(job, place): (&Subject, Result<Option<SlurmHandle>>)| match place {
            Err(error) => Err(error),
            Ok(None) => Ok(Observation::new(JobState::Gone).with_message("it is no job of this backend")),
            Ok(Some(_)) => match answers.get(job.handle.as_str()) {
                // The same handle may occur twice.
                Some(Ok(seen)) => Ok(seen.clone()),
                _ => answers
                    .remove(job.handle.as_str())
                    .unwrap_or_else(|| Err(Error::unavailable("it was not looked at"))),
            },
        };
        jobs.iter().zip(places).map(&mut answer).collect()
    }

    async fn look_at(&self, places: Vec<(SlurmHandle, bool)>) -> Result<Vec<(String, Result<Observation>)>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        // If the cluster was unreachable when the backend connected, this call learns whether it has an
        // accounting database.
        self.cluster().await?;
        self.folder_is_made().await?;
        let mut cases = self.cases(places).await?;
        for case in cases.iter().filter(|case| case.plan.as_ref().is_some_and(|plan| plan.attached.is_none()))
        {
            self.known.record_number(case.place.job, &case.place.key);
        }
        let young = cases.iter().any(|case| self.is_young(&case.place.key));
        let (mut queue, mut began) =
            self.watch.queue(&*self.driver, if young { Freshness::Young } else { Freshness::Usual }).await?;
        let has =
            |queue: &Queue, case: &JobSnapshot| queue.of(case.place.job).iter().any(|row| case.is_of(row));
        if cases.iter().any(|case| !has(&queue, case) && self.is_seen_since(&case.place.key, began)) {
            (queue, began) = self.watch.queue(&*self.driver, Freshness::Missing(began)).await?;
        }
        self.cancel_duplicates(&queue, &cases).await?;
        for case in &mut cases {
            case.rows = queue.of(case.place.job).iter().filter(|row| case.is_of(row)).cloned().collect();
            if case.tasks_that_go_on().is_some() {
                case.tally = self.known.tally(&case.place.key);
            }
            case.preempted = self.known.preempted(&case.place.key, case.restarts());
        }
        let cases = self.read_folders(cases).await;
        for case in &cases {
            if let Some(preempted) = case.preempted {
                self.known.keep_preempted(&case.place.key, case.restarts(), preempted);
            }
        }
        let cases = self.believe_markers(cases).await;
        self.answer(cases, began).await
    }

    fn is_young(&self, key: &str) -> bool {
        self.known.touched(key).is_some_and(|at| at.elapsed() < YOUNG)
    }

    /// Returns true if a queue that was requested at `began` includes this process's last change of the job.
    fn is_seen_since(&self, key: &str, began: Instant) -> bool {
        self.known.touched(key).is_none_or(|touched| touched < began)
    }

    async fn answer(
        &self,
        cases: Vec<JobSnapshot>,
        began: Instant,
    ) -> Result<Vec<(String, Result<Observation>)>> {
        let accounted = match self.has_accounting() {
            true => {
                let is_asked_about = |case: &&JobSnapshot| case.is_over() || case.needs_records();
                let asked: Vec<JobId> =
                    cases.iter().filter(is_asked_about).map(|case| case.place.job).collect();
                self.watch.accounted(&*self.driver, &asked).await
            }
            false => HashMap::new(),
        };
        let waiting = cases.iter().any(|case| case.watched && case.rows.iter().any(active_job::has_position));
        let positions = if waiting { self.watch.positions(&*self.driver).await } else { None };
        let mut answers = Vec::with_capacity(cases.len());
        let mut over = Vec::new();
        for mut case in cases {
            let name = case.place.handle().to_string();
            if let Some(error) = case.wrong.take() {
                answers.push((name, Err(error)));
                continue;
            }
            let heard = accounted.get(&case.place.job);
            let records = match heard {
                Some(AccountingReply::Records(records)) => records.as_slice(),
                _ => &[],
            };
            let records: Vec<_> =
                records.iter().filter(|record| record.name == case.name()).cloned().collect();
            if let Some(tasks) = case.tasks_that_go_on()
                && matches!(heard, Some(AccountingReply::Records(_)))
            {
                case.tally.lock().add_records(&tasks, &case.rows, &records);
            }
            if let Some(marks) = &mut case.marks {
                marks.facts.records = records;
                marks.facts.accounting = match heard {
                    Some(AccountingReply::Nothing) => Accounting::Silent,
                    None if self.has_accounting() => Accounting::NotAsked,
                    _ => Accounting::Heard,
                };
            }
            let position = positions.as_ref().and_then(|places| places.get(&case.place.job).copied());
            match case.is_alive() {
                true => answers.push((name, Ok(self.observe_active(&case, position).await))),
                false => over.push(async { (name, self.observe_ended(case, began).await) }),
            }
        }
        // The jobs are concluded concurrently: if users' folders hang, all of them together take no longer
        // than one.
        answers.extend(stream::iter(over).buffered(AT_ONCE).collect::<Vec<_>>().await);
        Ok(answers)
    }

    /// Observes a pending or running job. A job that is still held is released again if its release failed,
    /// or cancelled again if it was cancelled.
    async fn observe_active(&self, case: &JobSnapshot, position: Option<usize>) -> Observation {
        let key = &case.place.key;
        self.known.clear_ended(key);
        let plan = case.plan.clone().unwrap_or_default();
        let is_held = case.rows.iter().any(Row::is_held_by_user);
        let Some(marks) = case.marks.as_ref().filter(|_| is_held) else {
            let mut seen = active_job::observe_rows(&plan, &case.rows, position, &mut case.tally.lock());
            seen.log_bytes = case.printed;
            let seen = active_job::with_not_begun(seen, &plan, case.not_begun);
            return active_job::with_preempted(seen, case.preempted == Some(true));
        };
        if marks.facts.cancelled && self.known.is_due(key, TRY_EVERY) {
            // A controller that crashed has lost the cancellation. If this fails, a later poll tries again.
            drop(self.driver.cancel(case.place.job, key).await);
        }
        let may_go = marks.may_go && !marks.facts.cancelled && self.known.is_due(key, TRY_EVERY);
        if may_go && self.should_release(marks.released).await {
            self.release(key, case.place.job).await;
        }
        match &plan.approval {
            Some(words) if !marks.answered && !marks.facts.cancelled => active_job::asking(words),
            _ => active_job::observe_rows(&plan, &case.rows, position, &mut case.tally.lock()),
        }
    }

    /// Observes a job without pending or running parts.
    async fn observe_ended(&self, case: JobSnapshot, began: Instant) -> Result<Observation> {
        let key = case.place.key.clone();
        let Some(mut marks) = case.marks else {
            return Err(Error::unavailable("its folder was not read"));
        };
        if let Some(observed) = marks.observed {
            self.known.forget(&key);
            return Ok(observed);
        }
        let Some(plan) = case.plan else {
            return Ok(Observation::new(JobState::Gone)
                .with_message("Slurm does not know the job, and it left no folder"));
        };
        // A queue that was requested before the submission does not contain the job.
        if case.rows.is_empty() && !self.is_seen_since(&key, began) {
            return Ok(Observation::new(JobState::Queued).with_message("submitted"));
        }
        if let Some(read) = marks.unread_after {
            self.known.over_for(&key);
            return Ok(reading(read));
        }
        // While the folder hangs, the job's nodes cannot write into it either.
        marks.facts.over_for = self.known.over_for(&key).min(self.disks.jobs.answers_for());
        if marks.facts.accounting != Accounting::NotAsked {
            marks.facts.asked_for = self.known.asked_for(&key);
        }
        marks.facts.rows = case.rows;
        marks.facts.number_given_again = self.known.is_number_reused(case.place.job);
        marks.facts.slurmd_user = self.cluster().await?.slurmd_user;
        let patience = if self.has_accounting() { self.accounting_wait } else { Duration::ZERO };
        let (folder, mut facts, job) = (case.folder, marks.facts, case.place.job);
        let is_news = facts.accounting != Accounting::NotAsked;
        facts.preempted = case.preempted.unwrap_or(false);
        let disk = self.disk_of(&plan, &folder);
        let concluded = disk
            .run(move || match concluded(&plan, &mut facts, &folder, job, patience) {
                Conclusion::NotYet(observation) => Ok((observation, false)),
                Conclusion::Ended(observation, never_began) => {
                    check_not_abandoned().map_err(|e| unwritable(&folder, e))?;
                    if plan.attached.is_none() && !shut(&folder, never_began)? {
                        return Ok((beginning(), false));
                    }
                    keep(&folder, &observation).map(|kept| (kept, true))
                }
            })
            .await?;
        let (mut observation, ended) = concluded?;
        if ended {
            self.known.forget(&key);
        } else {
            observation.message = self.known.steady(&key, observation.message, is_news);
        }
        Ok(observation)
    }
}

/// Concludes how a job ended. First resolves the uids of users to names, which can take a while.
fn concluded(
    plan: &Plan,
    facts: &mut TerminalEvidence,
    folder: &Folder,
    job: JobId,
    patience: Duration,
) -> Conclusion {
    let by = facts.records.iter().filter_map(|record| match record.cancelled_by {
        CancelledBy::User(number) => Some(number),
        CancelledBy::Unsaid | CancelledBy::Nobody => None,
    });
    let by: BTreeSet<u32> = by.collect();
    facts.users = by.into_iter().filter_map(|number| Some((number, name_of(number)?))).collect();
    result::conclude(plan, facts, folder, job, patience)
}

/// Closes the fences of these runs, so that they never begin. Returns false if one has begun.
fn shut(folder: &Folder, runs: Vec<Run>) -> Result<bool> {
    for run in runs {
        if !folder.shut(run).map_err(|e| unwritable(folder, e))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the observation of an ended array while its end markers are being read.
fn reading(read: usize) -> Observation {
    let words = format!("it has ended; how its tasks ended is being read, {read} so far");
    Observation::new(JobState::Running).with_message(words)
}

/// Returns the observation of a job that began just before it was declared lost.
fn beginning() -> Observation {
    Observation::new(JobState::Running).with_message("it has begun")
}

/// Stores how a job ended, and returns the stored end. If another poll stored one first, here or in another
/// process, that one counts.
fn keep(folder: &Folder, observation: &Observation) -> Result<Observation> {
    let text = serde_json::to_vec(observation)
        .map_err(|e| Error::unavailable("the end cannot be written").caused_by(e))?;
    let kept = folder.write_first(OBSERVED, &text).map_err(|e| unreadable(folder, e))?;
    serde_json::from_slice(&kept).map_err(|e| {
        Error::unavailable(format!("{} cannot be understood", folder.file(OBSERVED).display())).caused_by(e)
    })
}

#[cfg(test)]
mod tests;
