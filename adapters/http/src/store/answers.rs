//! Answers that this process delivered recently: an engine refuses the same answer like another one. All of
//! it may be lost.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::{Answer, JobHandle};
use tokio::time::Instant;

/// How long an answer is remembered.
const ANSWER_TTL: Duration = Duration::from_secs(3600);
/// Most answers that are remembered. Beyond it, all are forgotten.
const MAX_ANSWERS: usize = 10_000;

/// Recently delivered answers, by job and question: a digest and the time.
#[derive(Debug, Default)]
pub(crate) struct DeliveredAnswers(Mutex<HashMap<(JobHandle, String), (u64, Instant)>>);

impl DeliveredAnswers {
    /// Records an answer that the engine accepted.
    pub(crate) fn record(&self, handle: &JobHandle, question: &str, answer: &Answer) {
        let mut answers = self.0.lock();
        answers.retain(|_, (_, at)| at.elapsed() < ANSWER_TTL);
        if answers.len() >= MAX_ANSWERS {
            answers.clear();
        }
        answers.insert((handle.clone(), question.to_owned()), (digest(answer), Instant::now()));
    }

    /// Returns whether the accepted answer is this one. `None` if none is remembered.
    pub(crate) fn is_same(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Option<bool> {
        let answers = self.0.lock();
        answers.get(&(handle.clone(), question.to_owned())).map(|(other, _)| *other == digest(answer))
    }
}

fn digest(answer: &Answer) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(answer).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
