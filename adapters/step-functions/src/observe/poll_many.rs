//! Poll of many executions of one state machine. A cached list of the running ones answers for most of them.
//! Only the others are described one by one.

use futures_util::stream::{self, StreamExt};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use crate::core::StepFunctions;
use crate::driver::clock_skew;
use crate::driver::execution::timestamp;
use crate::identity::handle::ExecutionArn;
use crate::store::list_cache::{CachedExecutions, Running};

/// Number of executions polled concurrently.
const CONCURRENCY: usize = 16;

/// Known running executions, and the error if they could not be listed: then every other execution of the
/// poll fails with it.
struct RunningList {
    running: Running,
    list_error: Option<Error>,
}

impl StepFunctions {
    pub(crate) async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let started_at = Instant::now();
        let running_list = self.list_running(group, jobs, started_at).await;
        // The limited history reads go first to watched executions, and among those to the most urgent.
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        let urgency = |at: &usize| {
            let arn = ExecutionArn::parse(&jobs[*at].handle);
            (jobs[*at].watched, arn.map_or(0.0, |arn| self.tracker.urgency(arn.as_str(), started_at)))
        };
        order.sort_by(|one, other| {
            let (one, other) = (urgency(one), urgency(other));
            other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        let polls: Vec<_> =
            order.iter().map(|at| self.poll_with_list(&jobs[*at], &running_list, started_at)).collect();
        let observations: Vec<_> = stream::iter(polls).buffered(CONCURRENCY).collect().await;
        let mut results: Vec<_> = order.into_iter().zip(observations).collect();
        results.sort_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }

    async fn poll_with_list(
        &self,
        job: &Subject,
        running_list: &RunningList,
        started_at: Instant,
    ) -> Result<Observation> {
        let arn = ExecutionArn::parse(&job.handle);
        match arn.and_then(|arn| running_list.running.get(arn.as_str()).map(|since| (since, arn))) {
            Some((since, arn)) => {
                let observation = Observation { since: *since, ..Observation::new(JobState::Running) };
                self.with_progress(&arn, observation, job.watched).await
            }
            None => match &running_list.list_error {
                Some(error) => Err(error.clone()),
                // The caller discards all results if the last one is too late.
                None if started_at.elapsed() > self.call_timeout / 2 => Err(Error::unavailable(
                    "Step Functions responds slowly, so this execution was not polled",
                )),
                None => self.poll_execution(&job.handle, job.watched).await,
            },
        }
    }

    /// Returns the running executions, as far as lists are cheaper than single calls.
    async fn list_running(&self, group: &GroupKey, jobs: &[Subject], now: Instant) -> RunningList {
        let arns =
            jobs.iter().filter_map(|job| ExecutionArn::parse(&job.handle)).filter(|arn| !arn.is_express());
        let arns: Vec<_> = arns.collect();
        let arns: Vec<&str> = arns.iter().map(ExecutionArn::as_str).collect();
        let CachedExecutions { mut running, executions_to_list } =
            self.list_cache.record_poll(group.as_str(), &arns, now, clock_skew::now());
        let mut list_error = None;
        match executions_to_list {
            Some(unlisted) if !group.as_str().is_empty() => match self.fetch_list(group, unlisted).await {
                Ok(new) => {
                    running = new.clone();
                    self.list_cache.store(group.as_str(), now, new);
                }
                // Executions that cannot be listed can still be described one by one.
                Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => {}
                Err(error) => list_error = Some(error),
            },
            _ => {}
        }
        RunningList { running, list_error }
    }

    async fn fetch_list(&self, group: &GroupKey, mut unlisted: Vec<String>) -> Result<Running> {
        let (mut running, mut page) = (Running::new(), None);
        for pages in 1.. {
            // Page n is requested only while more than n executions are wanted, so that each page replaces
            // more calls than it costs.
            if unlisted.len() <= pages {
                break;
            }
            let response = self.api.list_running(group.as_str(), page).await?;
            for execution in response.executions {
                running.insert(
                    execution.execution_arn,
                    timestamp(execution.redrive_date.as_ref().unwrap_or(&execution.start_date)),
                );
            }
            unlisted.retain(|arn| !running.contains_key(arn));
            page = response.next_token;
            if page.is_none() {
                break;
            }
        }
        Ok(running)
    }
}
