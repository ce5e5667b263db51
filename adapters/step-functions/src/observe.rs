//! Poll of one execution.

use std::time::Duration;

use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Result};

use crate::arn::ExecutionArn;
use crate::backend::StepFunctions;
use crate::history;
use crate::progress::PollContext;
use crate::state::{Facts, gone};

/// How long the end of a failed execution waits for its history, which names the failed state. The server
/// polls with backoff, so the end is reported within twice this time.
const HISTORY_WITHIN: Duration = Duration::from_secs(15);

impl StepFunctions {
    /// Polls one execution.
    pub(crate) async fn poll_execution(&self, handle: &JobHandle, watched: bool) -> Result<Observation> {
        let Some(arn) = ExecutionArn::parse(handle) else { return Ok(gone()) };
        if arn.region() != self.region {
            return Err(Error::config(format!(
                "the execution is in the region `{}`, and this backend works in `{}`",
                arn.region(),
                self.region
            )));
        }
        if arn.is_express() {
            return Ok(Observation::new(JobState::Gone).with_message(
                "Step Functions answers no questions about an Express execution, so nobody knows how it ended",
            ));
        }
        match self.api.describe(arn.as_str()).await {
            Ok(seen) => self.judge(&arn, seen.into(), watched).await,
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(gone()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Converts AWS's description of an execution to an observation. Adds what only the history contains: the
    /// origin of a failure, or the progress. Forgets what is kept about an ended execution.
    pub(crate) async fn judge(
        &self,
        arn: &ExecutionArn<'_>,
        facts: Facts,
        watched: bool,
    ) -> Result<Observation> {
        if !facts.have_ended() {
            let seen = facts.observation(None);
            return self.with_progress(arn, seen, watched).await;
        }
        self.watch.forget(arn.as_str());
        self.tokens.forget(arn.as_str());
        if !facts.have_origin() {
            return Ok(facts.observation(None));
        }
        match history::origin(&self.api, arn.as_str()).await {
            Ok(origin) => Ok(facts.observation(origin)),
            Err(error) if self.history_unread_for(arn.as_str()) < HISTORY_WITHIN => Err(error),
            Err(error) => Ok(facts.observation_without_history(&error.to_string())),
        }
    }

    /// Adds the questions and, if known, the progress to the observation of a running execution. An
    /// observation with a message, such as one of an unknown status, stays as it is.
    pub(crate) async fn with_progress(
        &self,
        arn: &ExecutionArn<'_>,
        seen: Observation,
        watched: bool,
    ) -> Result<Observation> {
        if seen.state != JobState::Running || seen.message.is_some() {
            return Ok(seen);
        }
        let held = self.tokens.contents(arn.as_str());
        let look = PollContext { seen, held: &held, is_new: self.is_young(arn.as_str()), watched };
        let mut seen = self.watch.add_progress(&self.api, &self.machines, arn, look).await?;
        // The history may not show recent answers yet.
        seen.questions.retain(|question| !self.given.knows(arn.as_str(), &question.id));
        Ok(seen)
    }
}
