//! Poll of one run: what GitHub reports of it, and what only its jobs and its environments show.

use std::time::Duration;

use taskbridge_sdk::{JobHandle, JobState, Observation, Result};
use tokio::time::Instant;

use crate::core::Actions;
use crate::driver::wire::{Job, Jobs, Repository, Run};
use crate::identity::handle::RunHandle;
use crate::observe::conclude::attempt_url;
use crate::observe::{Stage, state_since};
use crate::store::progress::RunProgress;

/// Maximum number of pages of jobs, a hundred each. GitHub runs at most 256 jobs of a matrix.
const MAX_PAGES: usize = 4;

impl Actions {
    /// Polls one run. If `watched`, its jobs are read for the progress.
    pub(crate) async fn poll_run(&self, handle: &JobHandle, watched: bool) -> Result<Observation> {
        let Some(run_handle) = RunHandle::parse(handle) else { return Ok(gone_observation()) };
        match self.api.get::<Run>("the run", &run_handle.path()).await {
            Ok(run) => self.interpret_run(&run_handle, run, watched).await,
            Err(failure) if failure.has_status(404) => self.poll_missing_run(&run_handle, watched).await,
            Err(failure) => Err(failure.into()),
        }
    }

    /// Polls a run that GitHub did not find. GitHub also answers "not found" if the token may no longer see
    /// the repository, which is an error, or if another repository has taken its name: then the run is polled
    /// under the repository's current name.
    async fn poll_missing_run(&self, run_handle: &RunHandle, watched: bool) -> Result<Observation> {
        match run_handle.repository_id {
            None => drop(self.default_branch(Duration::ZERO, &run_handle.repository).await?),
            Some(id) => {
                let path = format!("/repositories/{id}");
                let response: Repository =
                    self.api.get(&format!("the repository {}", run_handle.repository), &path).await?;
                if !response.full_name.eq_ignore_ascii_case(&run_handle.repository) {
                    let renamed_handle = RunHandle { repository: response.full_name, ..run_handle.clone() };
                    match self.api.get::<Run>("the run", &renamed_handle.path()).await {
                        Ok(run) => return self.interpret_run(&renamed_handle, run, watched).await,
                        Err(failure) if failure.has_status(404) => {}
                        Err(failure) => return Err(failure.into()),
                    }
                }
            }
        }
        self.forget(run_handle.run);
        Ok(gone_observation())
    }

    /// Converts GitHub's data about a run to an observation of the attempt that is the job. Makes more
    /// requests where that data is not enough, and forces a cancellation that is due.
    pub(crate) async fn interpret_run(
        &self,
        run_handle: &RunHandle,
        mut run: Run,
        watched: bool,
    ) -> Result<Observation> {
        if run.run_attempt.is_some_and(|attempt| attempt > run_handle.attempt) {
            // The run was rerun. The job is the attempt that it began with.
            match self.api.get::<Run>("the attempt", &run_handle.attempt_path()).await {
                Ok(attempt) => run = attempt,
                Err(failure) if failure.has_status(404) => return Ok(gone_observation()),
                Err(failure) => return Err(failure.into()),
            }
        }
        let stage = match run.run_attempt {
            // GitHub still reports the previous attempt.
            Some(attempt) if attempt < run_handle.attempt => {
                Stage::Queued(Some("GitHub has not started this attempt yet".to_owned()))
            }
            _ => Stage::from_run(&run),
        };
        if !matches!(stage, Stage::Ended(_)) {
            self.record_polled(run_handle);
            self.force_cancel_when_due(run_handle).await;
        }
        let since = state_since(&run, &stage);
        let observation = match stage {
            Stage::Queued(reason) => Observation { message: reason, ..Observation::new(JobState::Queued) },
            Stage::Waiting => self.observe_waiting(run_handle, &run).await?,
            Stage::Running(message) => {
                let observation = Observation { message, ..Observation::new(JobState::Running) };
                let usual_duration = self.usual_durations.lock().get(&run_handle.group()).cloned();
                self.read_progress(run_handle, watched).await.add_to(observation, usual_duration.as_deref())
            }
            Stage::Ended(end) => self.observe_end(run_handle, &run, end).await?,
        };
        let link = Some(attempt_url(&run, run_handle.attempt));
        Ok(Observation { since, link, ..observation })
    }

    /// Returns the progress of a run. Reads its jobs if it is watched and that is allowed now.
    async fn read_progress(&self, run_handle: &RunHandle, watched: bool) -> RunProgress {
        if watched
            && self.api.own_client.limits.has_spare_quota()
            && self.progress_tracker.may_read(run_handle.run, Instant::now())
            && let Ok(jobs) = self.jobs(run_handle).await
        {
            self.progress_tracker.record(run_handle.run, RunProgress::from_jobs(&jobs), Instant::now());
        }
        self.progress_tracker.last(run_handle.run)
    }

    /// Returns the jobs of the attempt.
    pub(crate) async fn jobs(&self, run_handle: &RunHandle) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{}/jobs?per_page=100&page={page}", run_handle.attempt_path());
            let response: Jobs = self.api.get("the jobs", &path).await?;
            let is_last_page = response.jobs.is_empty();
            jobs.extend(response.jobs);
            if is_last_page || jobs.len() >= response.total_count {
                break;
            }
        }
        Ok(jobs)
    }
}

/// Returns the observation of a run that was deleted or never existed.
fn gone_observation() -> Observation {
    Observation::new(JobState::Gone)
        .with_message(
            "the run does not exist at GitHub any more, so its end is not known: it was deleted, or its retention period \
             is over",
        )
}
