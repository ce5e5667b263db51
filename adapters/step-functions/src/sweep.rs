//! A look at many executions of one state machine: a list of those that run answers for most of them, and only those that
//! are not in it are looked at one by one.

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt};
use taskbridge_sdk::{Error, ErrorKind, GroupKey, JobHandle, JobState, Observation, Result, Timestamp};
use tokio::time::Instant;

use crate::arn::ExecutionArn;
use crate::backend::StepFunctions;
use crate::history::timestamp;

/// How many executions are looked at at a time.
const AT_A_TIME: usize = 16;

/// Those that run, by their ARNs: since when.
type Running = HashMap<String, Option<Timestamp>>;

impl StepFunctions {
    pub(crate) async fn sweep(&self, group: &GroupKey, handles: &[JobHandle]) -> Vec<Result<Observation>> {
        let began = Instant::now();
        let running = match self.list(group, handles).await {
            Ok(running) => running,
            // What cannot be listed can still be looked at one by one.
            Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config) => Running::new(),
            Err(error) => return handles.iter().map(|_| Err(again(&error))).collect(),
        };
        let looks: Vec<_> = handles.iter().map(|handle| self.look_within(handle, &running, began)).collect();
        stream::iter(looks).buffered(AT_A_TIME).collect().await
    }

    async fn look_within(
        &self,
        handle: &JobHandle,
        running: &Running,
        began: Instant,
    ) -> Result<Observation> {
        let arn = ExecutionArn::parse(handle);
        match arn.and_then(|arn| running.get(arn.as_str()).map(|since| (since, arn))) {
            Some((since, arn)) => {
                let seen = Observation { since: *since, ..Observation::new(JobState::Running) };
                self.with_progress(&arn, seen).await
            }
            // Whoever asked gives up on all the answers if the last comes too late.
            _ if began.elapsed() > self.call_timeout / 2 => {
                Err(Error::unavailable("Step Functions answers slowly, so this execution was not looked at"))
            }
            _ => self.look(handle).await,
        }
    }

    /// Those of the executions that run now, as far as lists are cheaper than single looks.
    async fn list(&self, group: &GroupKey, handles: &[JobHandle]) -> Result<Running> {
        let arns = handles.iter().filter_map(ExecutionArn::parse);
        let mut wanted: Vec<_> = arns.filter(|arn| !arn.is_express()).collect();
        let (mut running, mut page) = (Running::new(), None);
        for pages in 1.. {
            // Each page must be able to answer for more than it costs.
            if wanted.len() <= pages || group.as_str().is_empty() {
                break;
            }
            let answer = self.api.running(group.as_str(), page).await?;
            for execution in answer.executions {
                running.insert(
                    execution.execution_arn,
                    timestamp(execution.redrive_date.as_ref().unwrap_or(&execution.start_date)),
                );
            }
            wanted.retain(|arn| !running.contains_key(arn.as_str()));
            page = answer.next_token;
            if page.is_none() {
                break;
            }
        }
        Ok(running)
    }
}

/// The same error once more.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
