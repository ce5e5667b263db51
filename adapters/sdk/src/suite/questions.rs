//! Tests for [`crate::Questions`].

use std::sync::Arc;

use super::{
    Fixture, QuestionJob, cancel_and_wait, claimed_ability, claimed_item, output, poll_until,
    poll_until_ended, retry_until_some, start,
};
use crate::{Answer, AnswerOutcome, Backend, JobHandle, JobState, Question, Questions};

/// A job that has asked its question.
struct OpenQuestion {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    question: Question,
    answer: Answer,
}

impl OpenQuestion {
    /// Runs the job of `question_job` until it asks. Returns `None` if the fixture claims no questions.
    async fn ask<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        claimed_ability(fixture.claims().questions, backend.abilities().questions, "questions");
        let QuestionJob { job, answer } =
            claimed_item(fixture.claims().questions, fixture.question_job(), "question_job")?;
        let handle = start(fixture, &*backend, &job).await.handle;
        let observation = poll_until(fixture, &*backend, &handle, "the job asks", |observation| {
            !observation.questions.is_empty()
        })
        .await;
        assert_eq!(
            (observation.state, observation.questions.len()),
            (JobState::Running, 1),
            "one question of a running job"
        );
        let question = observation.questions.into_iter().next()?;
        Some(Self { backend, handle, question, answer: Answer::Accept(answer) })
    }

    fn questions(&self) -> &dyn Questions {
        self.backend.abilities().questions.expect("questions are claimed")
    }

    /// Sends an answer as the server does: it retries while the engine cannot accept it.
    async fn send_answer(&self, fixture: &impl Fixture, answer: &Answer) -> AnswerOutcome {
        retry_until_some(fixture, "the answer is accepted", async || {
            match self.questions().answer(&self.handle, &self.question.id, answer).await {
                Ok(outcome) => Some(outcome),
                Err(e) if e.kind().is_transient() => None,
                Err(e) => panic!("the engine does not accept the answer: {e} ({})", e.kind()),
            }
        })
        .await
    }
}

/// Checks that a question has an id, a text and, where applicable, a form, and is the same in every
/// observation until it is answered.
pub async fn question_is_the_same_until_it_is_answered<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    let question = &pending.question;
    assert!(!question.id.is_empty() && !question.message.is_empty(), "{question:?}");
    if let Some(schema) = question.ask.form() {
        assert_eq!(schema["type"], "object", "{schema}");
        assert!(schema["properties"].is_object(), "{schema}");
    }
    for _ in 0..3 {
        let observation = pending.backend.observe(&pending.handle).await.expect("the job can be polled");
        assert_eq!(
            (&observation.state, observation.questions.as_slice()),
            (&JobState::Running, std::slice::from_ref(question))
        );
    }
    cancel_and_wait(fixture, &*pending.backend, &pending.handle).await;
}

/// Checks that an accepted answer lets the job continue, and that later observations no longer contain the
/// question.
pub async fn answer_lets_the_job_go_on<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    assert_eq!(pending.send_answer(fixture, &pending.answer).await, AnswerOutcome::Accepted);
    let observation = pending.backend.observe(&pending.handle).await.expect("the job can be polled");
    assert!(observation.questions.is_empty(), "{:?} was answered and is still open", observation.questions);
    output(&poll_until_ended(fixture, &*pending.backend, &pending.handle).await.state);
}

/// Checks that sending the same answer again is harmless and returns the same result, even after the job has
/// ended.
pub async fn answer_given_again_says_the_same<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    for _ in 0..2 {
        assert_eq!(pending.send_answer(fixture, &pending.answer).await, AnswerOutcome::Accepted);
    }
    let observation = poll_until_ended(fixture, &*pending.backend, &pending.handle).await;
    assert_eq!(pending.send_answer(fixture, &pending.answer).await, AnswerOutcome::Accepted);
    assert_eq!(poll_until_ended(fixture, &*pending.backend, &pending.handle).await, observation);
}

/// Checks that the first answer that the engine accepted is final.
pub async fn answer_that_came_first_stands<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    assert_eq!(pending.send_answer(fixture, &pending.answer).await, AnswerOutcome::Accepted);
    assert_eq!(pending.send_answer(fixture, &Answer::Decline).await, AnswerOutcome::TooLate);
    output(&poll_until_ended(fixture, &*pending.backend, &pending.handle).await.state);
}

/// Checks that a declined question is answered too: the job receives the answer and ends in any way.
pub async fn answer_that_says_no_reaches_the_job<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    assert_eq!(pending.send_answer(fixture, &Answer::Decline).await, AnswerOutcome::Accepted);
    poll_until_ended(fixture, &*pending.backend, &pending.handle).await;
}

/// Checks that an answer is too late if the question was never asked, or if the job has ended or is unknown.
pub async fn answer_nobody_asked_for_is_too_late<F: Fixture>(fixture: &F) {
    let Some(pending) = OpenQuestion::ask(fixture).await else { return };
    let other = format!("not-{}", pending.question.id);
    let outcome = pending.questions().answer(&pending.handle, &other, &pending.answer).await;
    assert_eq!(outcome.expect("an unknown question is not an error"), AnswerOutcome::TooLate);
    let outcome =
        pending.questions().answer(&fixture.unknown_handle(), &pending.question.id, &pending.answer).await;
    assert_eq!(outcome.expect("an unknown job is not an error"), AnswerOutcome::TooLate);
    cancel_and_wait(fixture, &*pending.backend, &pending.handle).await;
    assert_eq!(pending.send_answer(fixture, &pending.answer).await, AnswerOutcome::TooLate);
}
