//! Poll of many runs of one workflow. A cached list of its newest runs answers for most of them, and costs
//! nothing of the rate limit if nothing has changed. Only the others are polled one by one.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, Observation, Result, Subject};
use tokio::time::Instant;

use crate::backend::Actions;
use crate::handle::{RunHandle, runs_path};
use crate::list_cache::CachedRuns;
use crate::progress;
use crate::wire::{Run, Runs};

/// Number of runs polled concurrently. GitHub allows at most a hundred concurrent requests.
const AT_A_TIME: usize = 16;

impl Actions {
    pub(crate) async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let began = Instant::now();
        let listed = match self.listed(group, jobs).await {
            Ok(listed) => listed,
            // Runs that cannot be listed can still be polled one by one.
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => HashMap::new(),
            Err(error) => {
                return jobs.iter().map(|_| Err(Error::new(error.kind(), error.to_string()))).collect();
            }
        };
        let looks: Vec<_> = jobs.iter().map(|job| self.look_within(job, &listed, began)).collect();
        let seen = stream::iter(looks).buffered(AT_A_TIME).collect().await;
        // There is only time for it if the polls were fast.
        if began.elapsed() < self.call_timeout / 4 {
            self.keep_ready(group, listed.into_values().filter_map(|run| run.head_branch).collect()).await;
        }
        seen
    }

    async fn look_within(
        &self,
        job: &Subject,
        listed: &HashMap<u64, Run>,
        began: Instant,
    ) -> Result<Observation> {
        // The caller discards all results if the last one is too late.
        if began.elapsed() > self.call_timeout / 2 {
            return Err(Error::unavailable("GitHub answers slowly, so this run was not looked at"));
        }
        let place = RunHandle::parse(&job.handle);
        match place.and_then(|place| Some((listed.get(&place.run)?.clone(), place))) {
            Some((run, place)) => self.judge(&place, run, job.watched).await,
            None => self.poll_run(&job.handle, job.watched).await,
        }
    }

    /// Returns those of the runs that a list contains: the cached one, or a new one if that is due.
    async fn listed(&self, group: &GroupKey, jobs: &[Subject]) -> Result<HashMap<u64, Run>> {
        let wanted = jobs.iter().filter_map(|job| RunHandle::parse(&job.handle));
        let wanted: Vec<u64> = wanted.map(|place| place.run).collect();
        let now = Instant::now();
        let CachedRuns { mut runs, to_list } = self.lists.known(group, &wanted, now);
        if let Some(to_list) = to_list {
            let listed = self.list(group, to_list).await?;
            runs = wanted.iter().filter_map(|run| Some((*run, listed.get(run)?.clone()))).collect();
            self.lists.keep(group, now, listed);
        }
        Ok(runs)
    }

    /// Lists the newest runs, as far as pages are cheaper than single polls.
    async fn list(&self, group: &GroupKey, mut wanted: Vec<u64>) -> Result<HashMap<u64, Run>> {
        let mut listed = HashMap::new();
        let Some((repository, workflow)) = group.as_str().rsplit_once('/') else { return Ok(listed) };
        for page in 1.. {
            // Page n is requested only while at least n runs are wanted. The first page is free if nothing
            // has changed.
            if wanted.is_empty() || (page > 1 && wanted.len() < page) {
                break;
            }
            let found: Runs = self.api.get("the runs", &runs_path(repository, workflow, page)).await?;
            if page == 1
                && let Some(usual) = progress::usual(&found.workflow_runs)
            {
                self.usual.lock().insert(group.clone(), usual);
            }
            let last = found.workflow_runs.len() < 100;
            listed.extend(found.workflow_runs.into_iter().map(|run| (run.id, run)));
            wanted.retain(|run| !listed.contains_key(run));
            if last {
                break;
            }
        }
        Ok(listed)
    }
}
