//! Poll of one run: what GitHub reports of it, and what only its jobs and its environments show.

use std::time::Duration;

use taskbridge_sdk::{JobHandle, JobState, Observation, Result};
use tokio::time::Instant;

use crate::backend::Actions;
use crate::handle::RunHandle;
use crate::progress::RunProgress;
use crate::state::{Stage, since};
use crate::wire::{Job, Jobs, Repository, Run};

/// Maximum number of pages of jobs, a hundred each. GitHub runs at most 256 jobs of a matrix.
const MOST_PAGES: usize = 4;

impl Actions {
    /// Polls one run. If `watched`, its jobs are read for the progress.
    pub(crate) async fn poll_run(&self, handle: &JobHandle, watched: bool) -> Result<Observation> {
        let Some(place) = RunHandle::parse(handle) else { return Ok(gone()) };
        match self.api.get::<Run>("the run", &place.path()).await {
            Ok(run) => self.judge(&place, run, watched).await,
            Err(failure) if failure.is(404) => self.missing(&place, watched).await,
            Err(failure) => Err(failure.into()),
        }
    }

    /// Polls a run that GitHub did not find. GitHub also answers "not found" if the token may no longer see
    /// the repository, which is an error, or if another repository has taken its name: then the run is polled
    /// under the repository's current name.
    async fn missing(&self, place: &RunHandle, watched: bool) -> Result<Observation> {
        match place.repository_id {
            None => drop(self.default_branch(Duration::ZERO, &place.repository).await?),
            Some(id) => {
                let path = format!("/repositories/{id}");
                let found: Repository =
                    self.api.get(&format!("the repository {}", place.repository), &path).await?;
                if !found.full_name.eq_ignore_ascii_case(&place.repository) {
                    let renamed = RunHandle { repository: found.full_name, ..place.clone() };
                    match self.api.get::<Run>("the run", &renamed.path()).await {
                        Ok(run) => return self.judge(&renamed, run, watched).await,
                        Err(failure) if failure.is(404) => {}
                        Err(failure) => return Err(failure.into()),
                    }
                }
            }
        }
        self.forget(place.run);
        Ok(gone())
    }

    /// Converts GitHub's data about a run to an observation of the attempt that is the job. Makes more
    /// requests where that data is not enough, and forces a cancellation that is due.
    pub(crate) async fn judge(&self, place: &RunHandle, mut run: Run, watched: bool) -> Result<Observation> {
        if run.run_attempt.is_some_and(|attempt| attempt > place.attempt) {
            // The run was rerun. The job is the attempt that it began with.
            match self.api.get::<Run>("the attempt", &place.attempt_path()).await {
                Ok(attempt) => run = attempt,
                Err(failure) if failure.is(404) => return Ok(gone()),
                Err(failure) => return Err(failure.into()),
            }
        }
        let stage = match run.run_attempt {
            // GitHub still reports the previous attempt.
            Some(attempt) if attempt < place.attempt => {
                Stage::Queued(Some("GitHub has not begun with this attempt yet".to_owned()))
            }
            _ => Stage::of(&run),
        };
        if !matches!(stage, Stage::Ended(_)) {
            self.note_looked_at(place);
            self.force_cancel_when_due(place).await;
        }
        let since = since(&run, &stage);
        let seen = match stage {
            Stage::Queued(why) => Observation { message: why, ..Observation::new(JobState::Queued) },
            Stage::Waiting => self.waiting(place, &run).await?,
            Stage::Running(why) => {
                let seen = Observation { message: why, ..Observation::new(JobState::Running) };
                let usual = self.usual.lock().get(&place.group()).cloned();
                self.read_progress(place, watched).await.within(seen, usual.as_deref())
            }
            Stage::Ended(end) => self.ended(place, &run, end).await?,
        };
        Ok(Observation { since, ..seen })
    }

    /// Returns the progress of a run. Reads its jobs if it is watched and that is allowed now.
    async fn read_progress(&self, place: &RunHandle, watched: bool) -> RunProgress {
        if watched
            && self.api.own.limits.are_ample()
            && self.watch.may_read(place.run, Instant::now())
            && let Ok(jobs) = self.jobs(place).await
        {
            self.watch.keep(place.run, RunProgress::of(&jobs), Instant::now());
        }
        self.watch.last(place.run)
    }

    /// Returns the jobs of the attempt.
    pub(crate) async fn jobs(&self, place: &RunHandle) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("{}/jobs?per_page=100&page={page}", place.attempt_path());
            let found: Jobs = self.api.get("the jobs", &path).await?;
            let last = found.jobs.is_empty();
            jobs.extend(found.jobs);
            if last || jobs.len() >= found.total_count {
                break;
            }
        }
        Ok(jobs)
    }
}

/// Returns the observation of a run that was deleted or never existed.
fn gone() -> Observation {
    Observation::new(JobState::Gone)
        .with_message(
            "the run does not exist at GitHub any more, so its end is not known: it was deleted, or its retention period \
             is over",
        )
}
