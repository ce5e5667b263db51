//! Poll of one execution.

use std::time::Duration;

use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Result};

use crate::core::StepFunctions;
use crate::driver::execution::ExecutionDescription;
use crate::identity::handle::ExecutionArn;
use crate::observe::gone_observation;
use crate::store::history;
use crate::store::progress::PollContext;

/// How long the end of a failed execution waits for its history, which names the failed state. The server
/// polls with backoff, so the end is reported within twice this time.
const HISTORY_GRACE: Duration = Duration::from_secs(15);

impl StepFunctions {
    /// Polls one execution.
    pub(crate) async fn poll_execution(&self, handle: &JobHandle, watched: bool) -> Result<Observation> {
        let Some(arn) = ExecutionArn::parse(handle) else { return Ok(gone_observation()) };
        if arn.region() != self.region {
            return Err(Error::config(format!(
                "the execution is in the region `{}`, and this backend works in `{}`",
                arn.region(),
                self.region
            )));
        }
        if arn.is_express() {
            return Ok(Observation::new(JobState::Gone).with_message(
                "Step Functions keeps no status of an Express execution, so its outcome is unknown",
            ));
        }
        match self.api.describe(arn.as_str()).await {
            Ok(response) => self.build_observation(&arn, response.into(), watched).await,
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(gone_observation()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Converts AWS's description of an execution to an observation. Adds what only the history contains: the
    /// origin of a failure, or the progress. Forgets what is kept about an ended execution.
    pub(crate) async fn build_observation(
        &self,
        arn: &ExecutionArn<'_>,
        description: ExecutionDescription,
        watched: bool,
    ) -> Result<Observation> {
        if !description.has_ended() {
            let observation = description.observation(None);
            return self.with_progress(arn, observation, watched).await;
        }
        self.tracker.forget(arn.as_str());
        self.tokens.forget(arn.as_str());
        if !description.may_have_origin() {
            return Ok(description.observation(None));
        }
        match history::find_origin(&self.api, arn.as_str()).await {
            Ok(origin) => Ok(description.observation(origin)),
            Err(error) if self.history_unread_for(arn.as_str()) < HISTORY_GRACE => Err(error),
            Err(error) => Ok(description.observation_without_history(&error.to_string())),
        }
    }

    /// Adds the questions and, if known, the progress to the observation of a running execution. An
    /// observation with a message, such as one of an unknown status, stays as it is.
    pub(crate) async fn with_progress(
        &self,
        arn: &ExecutionArn<'_>,
        observation: Observation,
        watched: bool,
    ) -> Result<Observation> {
        if observation.state != JobState::Running || observation.message.is_some() {
            return Ok(observation);
        }
        let token_contents = self.tokens.contents(arn.as_str());
        let context = PollContext {
            observation,
            token_contents: &token_contents,
            is_new: self.is_recent_start(arn.as_str()),
            watched,
        };
        let mut observation = self.tracker.add_progress(&self.api, &self.machines, arn, context).await?;
        // The history may not show recent answers yet.
        observation
            .questions
            .retain(|question| !self.delivered_answers.was_answered(arn.as_str(), &question.id));
        Ok(observation)
    }
}
