//! Poll of many executions of one state machine. A cached list of the running ones answers for most of them.
//! Only the others are described one by one.

use futures_util::stream::{self, StreamExt};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use crate::arn::ExecutionArn;
use crate::backend::StepFunctions;
use crate::clock_skew;
use crate::history::timestamp;
use crate::list_cache::{CachedExecutions, Running};

/// Number of executions polled concurrently.
const AT_A_TIME: usize = 16;

/// Known running executions, and the error if they could not be listed: then every other execution of the
/// poll fails with it.
struct Listed {
    running: Running,
    trouble: Option<Error>,
}

impl StepFunctions {
    pub(crate) async fn poll_group(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let began = Instant::now();
        let listed = self.list(group, jobs, began).await;
        // The limited history reads go first to watched executions, and among those to the most urgent.
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        let urgency = |at: &usize| {
            let arn = ExecutionArn::parse(&jobs[*at].handle);
            (jobs[*at].watched, arn.map_or(0.0, |arn| self.watch.urgency(arn.as_str(), began)))
        };
        order.sort_by(|one, other| {
            let (one, other) = (urgency(one), urgency(other));
            other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        let looks: Vec<_> = order.iter().map(|at| self.look_within(&jobs[*at], &listed, began)).collect();
        let seen: Vec<_> = stream::iter(looks).buffered(AT_A_TIME).collect().await;
        let mut answers: Vec<_> = order.into_iter().zip(seen).collect();
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, seen)| seen).collect()
    }

    async fn look_within(&self, job: &Subject, listed: &Listed, began: Instant) -> Result<Observation> {
        let arn = ExecutionArn::parse(&job.handle);
        match arn.and_then(|arn| listed.running.get(arn.as_str()).map(|since| (since, arn))) {
            Some((since, arn)) => {
                let seen = Observation { since: *since, ..Observation::new(JobState::Running) };
                self.with_progress(&arn, seen, job.watched).await
            }
            None => match &listed.trouble {
                Some(trouble) => Err(again(trouble)),
                // The caller discards all results if the last one is too late.
                None if began.elapsed() > self.call_timeout / 2 => Err(Error::unavailable(
                    "Step Functions answers slowly, so this execution was not looked at",
                )),
                None => self.poll_execution(&job.handle, job.watched).await,
            },
        }
    }

    /// Returns the running executions, as far as lists are cheaper than single calls.
    async fn list(&self, group: &GroupKey, jobs: &[Subject], now: Instant) -> Listed {
        let arns =
            jobs.iter().filter_map(|job| ExecutionArn::parse(&job.handle)).filter(|arn| !arn.is_express());
        let arns: Vec<_> = arns.collect();
        let arns: Vec<&str> = arns.iter().map(ExecutionArn::as_str).collect();
        let CachedExecutions { mut running, to_list } =
            self.lists.known(group.as_str(), &arns, now, clock_skew::now());
        let mut trouble = None;
        match to_list {
            Some(wanted) if !group.as_str().is_empty() => match self.list_anew(group, wanted).await {
                Ok(new) => {
                    running = new.clone();
                    self.lists.keep(group.as_str(), now, new);
                }
                // Executions that cannot be listed can still be described one by one.
                Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => {}
                Err(error) => trouble = Some(error),
            },
            _ => {}
        }
        Listed { running, trouble }
    }

    async fn list_anew(&self, group: &GroupKey, mut wanted: Vec<String>) -> Result<Running> {
        let (mut running, mut page) = (Running::new(), None);
        for pages in 1.. {
            // Page n is requested only while more than n executions are wanted, so that each page replaces
            // more calls than it costs.
            if wanted.len() <= pages {
                break;
            }
            let answer = self.api.running(group.as_str(), page).await?;
            for execution in answer.executions {
                running.insert(
                    execution.execution_arn,
                    timestamp(execution.redrive_date.as_ref().unwrap_or(&execution.start_date)),
                );
            }
            wanted.retain(|arn| !running.contains_key(arn));
            page = answer.next_token;
            if page.is_none() {
                break;
            }
        }
        Ok(running)
    }
}

/// Returns a copy of an error.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
