//! One look at one execution.

use std::time::Duration;

use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Result};

use crate::arn::ExecutionArn;
use crate::backend::StepFunctions;
use crate::history;
use crate::state::{Facts, gone};
use crate::steps::Look;

/// How long the end of a failed execution waits for its history, which tells the state that failed. The server polls with
/// backoff, so the end is reported within twice this.
const HISTORY_WITHIN: Duration = Duration::from_secs(15);

impl StepFunctions {
    /// Looks at an execution by itself.
    pub(crate) async fn look(&self, handle: &JobHandle, watched: bool) -> Result<Observation> {
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

    /// What AWS said about an execution, with what only its history tells: where a failure came from, how far it is.
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

    /// A look at an execution that runs, with how far it is, where that is known, and what it asks.
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
        let look = Look { seen, held: &held, is_new: self.is_young(arn.as_str()), watched };
        let mut seen = self.watch.tell(&self.api, &self.machines, arn, look).await?;
        // What was answered a moment ago need not be in the history yet.
        seen.questions.retain(|question| !self.given.knows(arn.as_str(), &question.id));
        Ok(seen)
    }
}
