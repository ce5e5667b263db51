//! Delivery of answers to the steps that asked. The history decides whether a question is still open, and an
//! answer is delivered once: a repeated answer is accepted only if it equals the first.

use std::time::Duration;

use taskbridge_sdk::{Answer, AnswerOutcome, Error, JobHandle, OnBehalfOf, Questions, Result, async_trait};

use crate::core::StepFunctions;
use crate::identity::handle::ExecutionArn;
use crate::store::history::questions::{DECLINED, QuestionOutcome, QuestionSettlement};
use crate::store::tokens::PendingToken;

#[async_trait]
impl Questions for StepFunctions {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        on_behalf_of: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        let Some(arn) = ExecutionArn::parse(handle).filter(|arn| !arn.is_express()) else {
            return Ok(AnswerOutcome::TooLate);
        };
        let outcome = QuestionOutcome::of(answer);
        let repeat_result = |earlier: &QuestionOutcome| {
            if *earlier == outcome { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate }
        };
        if let Some(earlier) = self.delivered_answers.outcome(arn.as_str(), question) {
            return Ok(repeat_result(&earlier));
        }
        let history = match self.tracker.read_questions(&self.api, &self.machines, &arn).await {
            Ok(history) => history,
            Err(failure) if failure.is("ExecutionDoesNotExist") => return Ok(AnswerOutcome::TooLate),
            Err(failure) => return Err(failure.into()),
        };
        let digest = match history.settlement(question) {
            QuestionSettlement::Settled(earlier) => return Ok(repeat_result(earlier)),
            QuestionSettlement::Unknown => return Ok(AnswerOutcome::TooLate),
            QuestionSettlement::Open(digest) => digest,
        };
        let Some(pending) = self.tokens.newest(arn.as_str(), digest) else {
            return Err(Error::unavailable(
                "this server has no token of the step that asked; Step Functions sends one when the message returns \
                 to the queue, or the activity misses its heartbeat",
            ));
        };
        self.send_outcome(&pending, &outcome, on_behalf_of).await?;
        self.delivered_answers.record(arn.as_str(), question, outcome);
        self.tracker.record_hint(arn.as_str());
        Ok(AnswerOutcome::Accepted)
    }

    /// An id counts the earlier settlements, so it never names another question.
    fn list_lag(&self) -> Duration {
        Duration::MAX
    }

    fn needs_token(&self) -> bool {
        true
    }
}

impl StepFunctions {
    async fn send_outcome(
        &self,
        pending: &PendingToken,
        outcome: &QuestionOutcome,
        on_behalf_of: Option<&OnBehalfOf>,
    ) -> Result<()> {
        let by = self.signer(on_behalf_of).await?;
        let result = match outcome {
            QuestionOutcome::Answered(answer) => {
                self.api.task_success(&by, &pending.token, &answer.to_string()).await
            }
            QuestionOutcome::Failed(error) => {
                let cause = match error.as_str() {
                    DECLINED => "The user declined the question.",
                    _ => "The user closed the question without an answer.",
                };
                self.api.task_failure(&by, &pending.token, error, cause).await
            }
            QuestionOutcome::Closed => Ok(()),
        };
        let is_invalid_token =
            |code: &str| ["InvalidToken", "TaskDoesNotExist", "TaskTimedOut"].contains(&code);
        match self.check_signed_result(&by, result) {
            Ok(()) => {}
            // The token is no longer valid. The next attempt reads from the history whether the question is
            // settled: the machine may schedule the step again.
            Err(failure) if failure.code.as_deref().is_some_and(is_invalid_token) => {
                self.tokens.remove(pending);
                self.tracker.record_hint(&pending.arn);
                let message = "the token of the step is no longer valid";
                return Err(Error::unavailable(message));
            }
            Err(failure) => return Err(failure.into()),
        }
        self.tokens.remove(pending);
        if let (Some(queue), Some(receipt)) = (&self.sources.queue, &pending.receipt) {
            // If this fails, the queue delivers the message again. It is deleted when its token proves to be
            // settled.
            let _ = queue.delete(receipt).await;
        }
        Ok(())
    }
}
