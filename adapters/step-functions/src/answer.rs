//! Delivery of answers to the steps that asked. The history decides whether a question is still open, and an
//! answer is delivered once: a repeated answer is accepted only if it equals the first.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Answer, Error, JobHandle, OnBehalfOf, Questions, Result, Taken, async_trait};
use tokio::time::Instant;

use crate::arn::ExecutionArn;
use crate::backend::StepFunctions;
use crate::question_history::{DECLINED, QuestionOutcome, QuestionSettlement};
use crate::tokens::PendingToken;

/// How long a delivered answer is remembered, because the history may not show it yet.
const UNSEEN: Duration = Duration::from_secs(120);

/// Recently delivered answers, by execution and question.
#[derive(Default)]
pub(crate) struct DeliveredAnswers(Mutex<HashMap<(String, String), (QuestionOutcome, Instant)>>);

impl DeliveredAnswers {
    fn note(&self, arn: &str, question: &str, outcome: QuestionOutcome) {
        let mut given = self.0.lock();
        given.retain(|_, (_, at)| at.elapsed() < UNSEEN);
        given.insert((arn.to_owned(), question.to_owned()), (outcome, Instant::now()));
    }

    fn outcome(&self, arn: &str, question: &str) -> Option<QuestionOutcome> {
        let given = self.0.lock();
        let (outcome, at) = given.get(&(arn.to_owned(), question.to_owned()))?;
        (at.elapsed() < UNSEEN).then(|| outcome.clone())
    }

    /// Returns true if this process answered the question recently.
    pub(crate) fn knows(&self, arn: &str, question: &str) -> bool {
        self.outcome(arn, question).is_some()
    }
}

#[async_trait]
impl Questions for StepFunctions {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        whom: Option<&OnBehalfOf>,
    ) -> Result<Taken> {
        let Some(arn) = ExecutionArn::parse(handle).filter(|arn| !arn.is_express()) else {
            return Ok(Taken::TooLate);
        };
        let outcome = QuestionOutcome::of(answer);
        let as_before =
            |before: &QuestionOutcome| if *before == outcome { Taken::Accepted } else { Taken::TooLate };
        if let Some(before) = self.given.outcome(arn.as_str(), question) {
            return Ok(as_before(&before));
        }
        let asks = match self.watch.asks(&self.api, &self.machines, &arn).await {
            Ok(asks) => asks,
            Err(failure) if failure.is("ExecutionDoesNotExist") => return Ok(Taken::TooLate),
            Err(failure) => return Err(failure.into()),
        };
        let digest = match asks.standing(question) {
            QuestionSettlement::Settled(before) => return Ok(as_before(before)),
            QuestionSettlement::Unknown => return Ok(Taken::TooLate),
            QuestionSettlement::Open(digest) => digest,
        };
        let Some(held) = self.tokens.of(arn.as_str(), digest) else {
            return Err(Error::unavailable(
                "Step Functions has not handed out the step that asked to this server; it does so again when the \
                 message returns to the queue, or the heartbeat of the activity is missed",
            ));
        };
        self.hand_over(&held, &outcome, whom).await?;
        self.given.note(arn.as_str(), question, outcome);
        self.watch.has_news(arn.as_str());
        Ok(Taken::Accepted)
    }

    /// An id counts the earlier settlements, so it never names another question.
    fn list_lag(&self) -> Duration {
        Duration::MAX
    }
}

impl StepFunctions {
    async fn hand_over(
        &self,
        held: &PendingToken,
        outcome: &QuestionOutcome,
        whom: Option<&OnBehalfOf>,
    ) -> Result<()> {
        let by = self.signer(whom).await?;
        let sent = match outcome {
            QuestionOutcome::Given(said) => self.api.task_success(&by, &held.token, &said.to_string()).await,
            QuestionOutcome::Refused(error) => {
                let cause = match error.as_str() {
                    DECLINED => "The user was asked, and said no.",
                    _ => "The user was asked, and closed the question without an answer.",
                };
                self.api.task_failure(&by, &held.token, error, cause).await
            }
            QuestionOutcome::Over => Ok(()),
        };
        let dead = |code: &str| ["InvalidToken", "TaskDoesNotExist", "TaskTimedOut"].contains(&code);
        match self.signed(&by, sent) {
            Ok(()) => {}
            // The token is no longer valid. The next attempt reads from the history whether the question is
            // settled: the machine may schedule the step again.
            Err(failure) if failure.code.as_deref().is_some_and(dead) => {
                self.tokens.drop_one(held);
                self.watch.has_news(&held.arn);
                let message = "the step no longer waits under the token that is known here";
                return Err(Error::unavailable(message));
            }
            Err(failure) => return Err(failure.into()),
        }
        self.tokens.drop_one(held);
        if let (Some(queue), Some(receipt)) = (&self.sources.queue, &held.receipt) {
            // If this fails, the queue delivers the message again. It is deleted when its token proves to be
            // settled.
            let _ = queue.delete(receipt).await;
        }
        Ok(())
    }
}
