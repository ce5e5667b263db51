//! Tests for [`crate::Questions`].

use std::sync::Arc;

use super::{
    Asking, Fixture, cancel_and_wait, made, may_pass, offered, output, start, until, until_ended, wait,
};
use crate::{Answer, Backend, JobHandle, JobState, Question, Questions, Taken};

/// A job that has asked its question.
struct Asked {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    question: Question,
    answer: Answer,
}

impl Asked {
    /// Runs the job of `asks` until it asks. Returns `None` if the fixture claims no questions.
    async fn by<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        offered(F::CLAIMS.questions, backend.questions(), "questions");
        let Asking { job, answer } = made(F::CLAIMS.questions, fixture.asks(), "asks")?;
        let handle = start(fixture, &*backend, &job).await.handle;
        let seen =
            until(fixture, &*backend, &handle, "the job asks", |seen| !seen.questions.is_empty()).await;
        assert_eq!(
            (seen.state, seen.questions.len()),
            (JobState::Running, 1),
            "one question of a running job"
        );
        let question = seen.questions.into_iter().next()?;
        Some(Self { backend, handle, question, answer: Answer::Accept(answer) })
    }

    fn questions(&self) -> &dyn Questions {
        self.backend.questions().expect("it was offered before")
    }

    /// Sends an answer as the server does: it retries while the engine cannot accept it.
    async fn give(&self, fixture: &impl Fixture, answer: &Answer) -> Taken {
        wait(fixture, "the answer is taken", async || {
            match self.questions().answer(&self.handle, &self.question.id, answer).await {
                Ok(taken) => Some(taken),
                Err(e) if may_pass(e.kind()) => None,
                Err(e) => panic!("the engine does not take an answer: {e} ({})", e.kind()),
            }
        })
        .await
    }
}

/// Checks that a question has an id, a text and, where applicable, a form, and is the same in every
/// observation until it is answered.
pub async fn question_is_the_same_until_it_is_answered<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    let question = &asked.question;
    assert!(!question.id.is_empty() && !question.message.is_empty(), "{question:?}");
    if let Some(schema) = question.ask.form() {
        assert_eq!(schema["type"], "object", "{schema}");
        assert!(schema["properties"].is_object(), "{schema}");
    }
    for _ in 0..3 {
        let seen = asked.backend.observe(&asked.handle).await.expect("the job can be looked at");
        assert_eq!(
            (&seen.state, seen.questions.as_slice()),
            (&JobState::Running, std::slice::from_ref(question))
        );
    }
    cancel_and_wait(fixture, &*asked.backend, &asked.handle).await;
}

/// Checks that an accepted answer lets the job continue, and that later observations no longer contain the
/// question.
pub async fn answer_lets_the_job_go_on<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    assert_eq!(asked.give(fixture, &asked.answer).await, Taken::Accepted);
    let seen = asked.backend.observe(&asked.handle).await.expect("the job can be looked at");
    assert!(seen.questions.is_empty(), "{:?} was answered and is still asked", seen.questions);
    output(&until_ended(fixture, &*asked.backend, &asked.handle).await.state);
}

/// Checks that sending the same answer again is harmless and returns the same result, even after the job has
/// ended.
pub async fn answer_given_again_says_the_same<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    for _ in 0..2 {
        assert_eq!(asked.give(fixture, &asked.answer).await, Taken::Accepted);
    }
    let seen = until_ended(fixture, &*asked.backend, &asked.handle).await;
    assert_eq!(asked.give(fixture, &asked.answer).await, Taken::Accepted);
    assert_eq!(until_ended(fixture, &*asked.backend, &asked.handle).await, seen);
}

/// Checks that the first answer that the engine accepted is final.
pub async fn answer_that_came_first_stands<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    assert_eq!(asked.give(fixture, &asked.answer).await, Taken::Accepted);
    assert_eq!(asked.give(fixture, &Answer::Decline).await, Taken::TooLate);
    output(&until_ended(fixture, &*asked.backend, &asked.handle).await.state);
}

/// Checks that a declined question is answered too: the job receives the answer and ends in any way.
pub async fn answer_that_says_no_reaches_the_job<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    assert_eq!(asked.give(fixture, &Answer::Decline).await, Taken::Accepted);
    until_ended(fixture, &*asked.backend, &asked.handle).await;
}

/// Checks that an answer is too late if the question was never asked, or if the job has ended or is unknown.
pub async fn answer_nobody_asked_for_is_too_late<F: Fixture>(fixture: &F) {
    let Some(asked) = Asked::by(fixture).await else { return };
    let other = format!("not-{}", asked.question.id);
    let taken = asked.questions().answer(&asked.handle, &other, &asked.answer).await;
    assert_eq!(taken.expect("a question that nobody asked is no error"), Taken::TooLate);
    let taken = asked.questions().answer(&fixture.unknown(), &asked.question.id, &asked.answer).await;
    assert_eq!(taken.expect("a job that is unknown is no error"), Taken::TooLate);
    cancel_and_wait(fixture, &*asked.backend, &asked.handle).await;
    assert_eq!(asked.give(fixture, &asked.answer).await, Taken::TooLate);
}
