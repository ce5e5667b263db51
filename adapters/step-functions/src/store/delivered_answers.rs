//! Answers that this process delivered recently. All of it may be lost: the history shows them a moment
//! later.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::history::questions::QuestionOutcome;

/// How long a delivered answer is remembered, because the history may not show it yet.
const ANSWER_TTL: Duration = Duration::from_secs(120);

/// Recently delivered answers, by execution and question.
#[derive(Default)]
pub(crate) struct DeliveredAnswers(Mutex<HashMap<(String, String), (QuestionOutcome, Instant)>>);

impl DeliveredAnswers {
    pub(crate) fn record(&self, arn: &str, question: &str, outcome: QuestionOutcome) {
        let mut answers = self.0.lock();
        answers.retain(|_, (_, at)| at.elapsed() < ANSWER_TTL);
        answers.insert((arn.to_owned(), question.to_owned()), (outcome, Instant::now()));
    }

    pub(crate) fn outcome(&self, arn: &str, question: &str) -> Option<QuestionOutcome> {
        let answers = self.0.lock();
        let (outcome, at) = answers.get(&(arn.to_owned(), question.to_owned()))?;
        (at.elapsed() < ANSWER_TTL).then(|| outcome.clone())
    }

    /// Returns true if this process answered the question recently.
    pub(crate) fn was_answered(&self, arn: &str, question: &str) -> bool {
        self.outcome(arn, question).is_some()
    }
}
