//! A look at many runs of one workflow: the list of its newest runs answers for most of them, and costs nothing if nothing has
//! changed. Only those that are not in it are looked at one by one.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobHandle, Observation, Result, Subject};
use tokio::time::Instant;

use crate::backend::Actions;
use crate::handle::{Place, runs_path};
use crate::progress;
use crate::wire::{Run, Runs};

/// How many runs are looked at at a time. GitHub asks for no more than a hundred calls at once.
const AT_A_TIME: usize = 16;

impl Actions {
    pub(crate) async fn sweep(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let began = Instant::now();
        let handles: Vec<JobHandle> = jobs.iter().map(|job| job.handle.clone()).collect();
        let listed = match self.list(group, &handles).await {
            Ok(listed) => listed,
            // What cannot be listed can still be looked at one by one.
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => HashMap::new(),
            Err(error) => {
                return handles.iter().map(|_| Err(Error::new(error.kind(), error.to_string()))).collect();
            }
        };
        let looks: Vec<_> = handles.iter().map(|handle| self.look_within(handle, &listed, began)).collect();
        let seen = stream::iter(looks).buffered(AT_A_TIME).collect().await;
        let ran_at =
            handles.iter().filter_map(|job| listed.get(&Place::parse(job)?.run)?.head_branch.clone());
        // There is time for it only where the looks took none.
        if began.elapsed() < self.call_timeout / 4 {
            self.keep_ready(group, ran_at.collect()).await;
        }
        seen
    }

    async fn look_within(
        &self,
        handle: &JobHandle,
        listed: &HashMap<u64, Run>,
        began: Instant,
    ) -> Result<Observation> {
        // Whoever asked gives up on all the answers if the last comes too late.
        if began.elapsed() > self.call_timeout / 2 {
            return Err(Error::unavailable("GitHub answers slowly, so this run was not looked at"));
        }
        match Place::parse(handle) {
            Some(place) if listed.contains_key(&place.run) => {
                self.judge(&place, listed[&place.run].clone()).await
            }
            _ => self.look(handle).await,
        }
    }

    /// Those of the runs that are among the newest, as far as pages are cheaper than single looks.
    async fn list(&self, group: &GroupKey, handles: &[JobHandle]) -> Result<HashMap<u64, Run>> {
        let mut wanted: Vec<u64> = handles.iter().filter_map(Place::parse).map(|place| place.run).collect();
        let mut listed = HashMap::new();
        let Some((repository, workflow)) = group.as_str().rsplit_once('/') else { return Ok(listed) };
        for page in 1.. {
            // Each page must be able to answer for more than it costs; the first is free where nothing has changed.
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
