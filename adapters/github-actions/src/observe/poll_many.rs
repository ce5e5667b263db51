//! Poll of many runs of one workflow. A cached list of its newest runs answers for most of them, and costs
//! nothing of the rate limit if nothing has changed. Only the others are polled one by one.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, Observation, Result, Subject};
use tokio::time::Instant;

use crate::core::Actions;
use crate::driver::wire::{Run, Runs};
use crate::identity::handle::{RunHandle, runs_path};
use crate::store::list_cache::CachedRuns;
use crate::store::progress;

/// Number of runs polled concurrently. GitHub allows at most a hundred concurrent requests.
const MAX_CONCURRENT_POLLS: usize = 16;

impl Actions {
    pub(crate) async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let started_at = Instant::now();
        let listed_runs = match self.lookup_runs(group, jobs).await {
            Ok(listed_runs) => listed_runs,
            // Runs that cannot be listed can still be polled one by one.
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => HashMap::new(),
            Err(error) => return vec![Err(error); jobs.len()],
        };
        let polls: Vec<_> = jobs.iter().map(|job| self.poll_subject(job, &listed_runs, started_at)).collect();
        let observations = stream::iter(polls).buffered(MAX_CONCURRENT_POLLS).collect().await;
        // There is only time for it if the polls were fast.
        if started_at.elapsed() < self.call_timeout / 4 {
            self.prefetch(group, listed_runs.into_values().filter_map(|run| run.head_branch).collect()).await;
        }
        observations
    }

    async fn poll_subject(
        &self,
        job: &Subject,
        listed_runs: &HashMap<u64, Run>,
        started_at: Instant,
    ) -> Result<Observation> {
        // The caller discards all results if the last one is too late.
        if started_at.elapsed() > self.call_timeout / 2 {
            return Err(Error::unavailable("GitHub answers slowly, so this run was not polled"));
        }
        let run_handle = RunHandle::parse(&job.handle);
        match run_handle.and_then(|run_handle| Some((listed_runs.get(&run_handle.run)?.clone(), run_handle)))
        {
            Some((run, run_handle)) => self.interpret_run(&run_handle, run, job.watched).await,
            None => self.poll_run(&job.handle, job.watched).await,
        }
    }

    /// Returns those of the runs that a list contains: the cached one, or a new one if that is due.
    async fn lookup_runs(&self, group: &GroupKey, jobs: &[Subject]) -> Result<HashMap<u64, Run>> {
        let handles = jobs.iter().filter_map(|job| RunHandle::parse(&job.handle));
        let run_ids: Vec<u64> = handles.map(|run_handle| run_handle.run).collect();
        let now = Instant::now();
        let CachedRuns { mut runs, runs_to_list } = self.list_cache.record_poll(group, &run_ids, now);
        if let Some(runs_to_list) = runs_to_list {
            let listed_runs = self.list_runs(group, runs_to_list).await?;
            runs = run_ids.iter().filter_map(|run| Some((*run, listed_runs.get(run)?.clone()))).collect();
            self.list_cache.store(group, now, listed_runs);
        }
        Ok(runs)
    }

    /// Lists the newest runs, as far as pages are cheaper than single polls.
    async fn list_runs(&self, group: &GroupKey, mut missing_ids: Vec<u64>) -> Result<HashMap<u64, Run>> {
        let mut listed_runs = HashMap::new();
        let Some((repository, workflow)) = group.as_str().rsplit_once('/') else { return Ok(listed_runs) };
        for page in 1.. {
            // Page n is requested only while at least n runs are wanted. The first page is free if nothing
            // has changed.
            if missing_ids.is_empty() || (page > 1 && missing_ids.len() < page) {
                break;
            }
            let response: Runs = self.api.get("the runs", &runs_path(repository, workflow, page)).await?;
            if page == 1
                && let Some(usual_duration) = progress::usual_duration(&response.workflow_runs)
            {
                self.usual_durations.lock().insert(group.clone(), usual_duration);
            }
            let is_last_page = response.workflow_runs.len() < 100;
            listed_runs.extend(response.workflow_runs.into_iter().map(|run| (run.id, run)));
            missing_ids.retain(|run| !listed_runs.contains_key(run));
            if is_last_page {
                break;
            }
        }
        Ok(listed_runs)
    }
}
