//! Tests of runs that wait for a review: given by the task's user, given elsewhere, and without a permitted
//! reviewer.

use serde_json::{Map, json};
use taskbridge_sdk::{Answer, AnswerOutcome, JobHandle, JobState, Question};

use crate::world::{World, poll_until, poll_until_ended, run, start, workflow};

async fn waiting_run(may_review: bool) -> (World, JobHandle) {
    let gated = workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
    let repository = json!({"environments": {"production": {}}, "reviewer": may_review});
    let world = World::with_settings(&[("deploy.yml", gated)], repository, json!({})).await;
    let handle = world.backend.start(&start("deploy.yml", json!({}))).await.unwrap().handle;
    (world, handle)
}

async fn wait_for_question(world: &World, handle: &JobHandle) -> Question {
    poll_until(&*world.backend, handle, "a question", |observation| observation.questions.first().cloned())
        .await
}

fn run_of(handle: &JobHandle) -> String {
    handle.as_str().split('/').nth(3).unwrap().to_owned()
}

/// A declined question rejects the deployment, and the run fails.
#[tokio::test(flavor = "multi_thread")]
async fn decline_rejects_deployment() {
    let (world, handle) = waiting_run(true).await;
    let question = wait_for_question(&world, &handle).await;
    assert!(question.message.contains("`production`"), "{question:?}");
    let outcome = world
        .backend
        .abilities()
        .questions
        .unwrap()
        .answer(&handle, &question.id, &Answer::Decline)
        .await
        .unwrap();
    assert_eq!(outcome, AnswerOutcome::Accepted);
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Failed(_)));
}

/// After a review at GitHub, the run continues, and an answer is too late.
#[tokio::test(flavor = "multi_thread")]
async fn external_review_lets_run_continue() {
    let (world, handle) = waiting_run(true).await;
    let question = wait_for_question(&world, &handle).await;
    world.control("review", json!({"id": run_of(&handle), "login": "octocat", "state": "approved"}));
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
    let questions = world.backend.abilities().questions.unwrap();
    assert_eq!(
        questions.answer(&handle, &question.id, &Answer::Decline).await.unwrap(),
        AnswerOutcome::TooLate
    );
}

/// If the token may not review, there is no question, and the message names the reviewers.
#[tokio::test(flavor = "multi_thread")]
async fn message_names_permitted_reviewers() {
    let (world, handle) = waiting_run(false).await;
    let observation = world.backend.observe(&handle).await.unwrap();
    assert_eq!((observation.state, observation.questions.len()), (JobState::Running, 0));
    let message = observation.message.unwrap();
    assert!(
        message.starts_with("`production` waits for a review by octocat at https://github.com/"),
        "{message}"
    );
    world.control("review", json!({"id": run_of(&handle), "login": "octocat", "state": "approved"}));
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
}

/// A review whose reply was lost is accepted when it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn lost_review_is_given_once() {
    let (world, handle) = waiting_run(true).await;
    let question = wait_for_question(&world, &handle).await;
    let questions = world.backend.abilities().questions.unwrap();
    world.inject_fault("actions/review-pending-deployments-for-run", json!({"kind": "reply_lost"}));
    let answer = Answer::Accept(Map::new());
    questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(questions.answer(&handle, &question.id, &answer).await.unwrap(), AnswerOutcome::Accepted);
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
}
