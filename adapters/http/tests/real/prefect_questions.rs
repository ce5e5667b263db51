//! Questions of Prefect 3: pauses of a run, and answers to them. It must not have what the suite has.

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::{Answer, AnswerOutcome, Content, JobHandle, JobState, Observation, Question, Result};

use crate::prefect::Prefect;

impl Prefect {
    /// Waits until a job asks, and returns its question.
    async fn question(&self, handle: &JobHandle) -> Question {
        let first = |seen: &Observation| seen.questions.first().cloned();
        poll_until(&*self.world.backend, handle, "a question", first).await
    }

    async fn answer(&self, handle: &JobHandle, question: &Question, answer: Value) -> Result<AnswerOutcome> {
        let answer = Answer::Accept(answer.as_object().unwrap().clone());
        let questions = self.world.backend.abilities().questions.unwrap();
        questions.answer(handle, &question.id, &answer).await
    }
}

/// The form is the flow's, with its defaults. Prefect checks the answer, and the question stays open.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_answer_keeps_question_open() {
    let prefect = Prefect::new().await;
    let handle = prefect.started("ask", json!({})).await;
    let question = prefect.question(&handle).await;
    assert_eq!(question.message, "Ship it?");
    let form = question.ask.form().unwrap();
    assert_eq!(
        (&form["required"], &form["properties"]["copies"]["default"]),
        (&json!(["name"]), &json!(2)),
        "{form}"
    );
    let error = prefect.answer(&handle, &question, json!({ "name": 7 })).await.unwrap_err();
    assert!(error.to_string().contains("7 is not of type 'string'"), "{error}");
    assert_eq!(prefect.question(&handle).await, question);
    prefect.world.backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(&*prefect.world.backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// A flow that asks twice has two questions. An answer to the first one does not answer the second one.
#[tokio::test(flavor = "multi_thread")]
async fn late_answer_leaves_next_question() {
    let prefect = Prefect::new().await;
    let handle = prefect.started("ask", json!({ "again": true })).await;
    let first = prefect.question(&handle).await;
    let answer = json!({ "name": "Ada", "copies": 3 });
    assert_eq!(prefect.answer(&handle, &first, answer.clone()).await.unwrap(), AnswerOutcome::Accepted);
    let other = |seen: &Observation| seen.questions.iter().find(|q| q.id != first.id).cloned();
    let second = poll_until(&*prefect.world.backend, &handle, "the second question", other).await;
    // Another bridge does not know that the first one is answered.
    let restarted = Prefect::new().await;
    let late = restarted.answer(&handle, &first, json!({ "name": "Bob" })).await.unwrap();
    assert_eq!(late, AnswerOutcome::TooLate);
    let answer = json!({ "name": "Eve" });
    assert_eq!(prefect.answer(&handle, &second, answer).await.unwrap(), AnswerOutcome::Accepted);
    let output = prefect.output(&handle).await;
    let rows = json!([{ "name": "Ada", "copies": 3 }, { "name": "Eve", "copies": 2 }]);
    assert_eq!(output.structured, Some(rows));
}

/// A suspended run has no form and no process. It goes on in a new one.
#[tokio::test(flavor = "multi_thread")]
async fn suspended_run_goes_on() {
    let prefect = Prefect::new().await;
    let handle = prefect.started("halt", json!({})).await;
    let question = prefect.question(&handle).await;
    assert_eq!(question.message, "The run is paused. Shall it go on?");
    assert_eq!(prefect.answer(&handle, &question, json!({})).await.unwrap(), AnswerOutcome::Accepted);
    let output = prefect.output(&handle).await;
    assert_eq!(output.content[0], Content::text("went on"));
}

/// A suspended run is cancelled at once.
#[tokio::test(flavor = "multi_thread")]
async fn suspended_run_is_cancelled() {
    let prefect = Prefect::new().await;
    let handle = prefect.started("halt", json!({})).await;
    prefect.question(&handle).await;
    prefect.world.backend.cancel(&handle).await.unwrap();
    let seen = prefect.world.backend.observe(&handle).await.unwrap();
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
}
