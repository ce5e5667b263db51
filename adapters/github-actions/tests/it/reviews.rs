//! Tests of runs that wait for a review: given by the task's user, given elsewhere, and without a permitted
//! reviewer.

use serde_json::{Map, json};
use taskbridge_sdk::{Answer, JobHandle, JobState, Question, Taken};

use crate::world::{World, ended, run, start, until, workflow};

async fn waiting(reviewer: bool) -> (World, JobHandle) {
    let gated = workflow(&run("echo deployed")).replace("runs-on:", "environment: production\n    runs-on:");
    let repository = json!({"environments": {"production": {}}, "reviewer": reviewer});
    let world = World::of(&[("deploy.yml", gated)], repository, json!({})).await;
    let handle = world.backend.start(&start("deploy.yml", json!({}))).await.unwrap().handle;
    (world, handle)
}

async fn asked(world: &World, handle: &JobHandle) -> Question {
    until(&*world.backend, handle, "a question", |seen| seen.questions.first().cloned()).await
}

fn run_of(handle: &JobHandle) -> String {
    handle.as_str().split('/').nth(3).unwrap().to_owned()
}

/// A declined question rejects the deployment, and the run fails.
#[tokio::test(flavor = "multi_thread")]
async fn decline_rejects_deployment() {
    let (world, handle) = waiting(true).await;
    let question = asked(&world, &handle).await;
    assert!(question.message.contains("`production`"), "{question:?}");
    let taken =
        world.backend.questions().unwrap().answer(&handle, &question.id, &Answer::Decline).await.unwrap();
    assert_eq!(taken, Taken::Accepted);
    assert!(matches!(ended(&*world.backend, &handle).await.state, JobState::Failed(_)));
}

/// After a review at GitHub, the run continues, and an answer is too late.
#[tokio::test(flavor = "multi_thread")]
async fn external_review_lets_run_continue() {
    let (world, handle) = waiting(true).await;
    let question = asked(&world, &handle).await;
    world.control("review", json!({"id": run_of(&handle), "login": "octocat", "state": "approved"}));
    assert!(matches!(ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
    let questions = world.backend.questions().unwrap();
    assert_eq!(questions.answer(&handle, &question.id, &Answer::Decline).await.unwrap(), Taken::TooLate);
}

/// If the token may not review, there is no question, and the message names the reviewers.
#[tokio::test(flavor = "multi_thread")]
async fn message_names_permitted_reviewers() {
    let (world, handle) = waiting(false).await;
    let seen = world.backend.observe(&handle).await.unwrap();
    assert_eq!((seen.state, seen.questions.len()), (JobState::Running, 0));
    let message = seen.message.unwrap();
    assert!(
        message.starts_with("`production` waits for a review by octocat at https://github.com/"),
        "{message}"
    );
    world.control("review", json!({"id": run_of(&handle), "login": "octocat", "state": "approved"}));
    assert!(matches!(ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
}

/// A review whose reply was lost is accepted when it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn lost_review_is_given_once() {
    let (world, handle) = waiting(true).await;
    let question = asked(&world, &handle).await;
    let questions = world.backend.questions().unwrap();
    world.fault("actions/review-pending-deployments-for-run", json!({"kind": "reply_lost"}));
    let answer = Answer::Accept(Map::new());
    questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(questions.answer(&handle, &question.id, &answer).await.unwrap(), Taken::Accepted);
    assert!(matches!(ended(&*world.backend, &handle).await.state, JobState::Succeeded(_)));
}
