//! The result of a poll that reaches the store late must not undo the result of a later poll by another
//! process. Found by seed 113517: a question that an older poll did not know was withdrawn for good.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge_core::tasks::service::Call;
use taskbridge_core::tasks::task::{Outcome, TaskState};
use taskbridge_sdk::Answer;

use super::fixture::{Fixture, call_with};
use super::node::LEASE;
use super::store_faults::StoreFaults;

/// Time until the job asks.
const ASK_DELAY: Duration = Duration::from_secs(60);

/// Returns a call of a job that reports progress and asks a question half-way.
pub(super) fn call() -> Call {
    let delay_ms = 2 * ASK_DELAY.as_secs() * 1_000;
    call_with(json!({"delay_ms": delay_ms, "steps": 40, "question": {"message": "go on?"}}))
}

#[tokio::test(start_paused = true)]
async fn late_poll_result_withdraws_no_question() {
    let fixture = Fixture::new();
    let (first_faults, second_faults) = (Arc::new(StoreFaults::default()), Arc::new(StoreFaults::default()));
    let first = fixture.start_with_faults("first", &first_faults).await;
    let call_result = first.service.call(call()).await.expect("the store is there");
    let id = call_result.into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The first process continues to poll, sees progress and cannot write it. Its lease of the group
    // expires.
    first_faults.refuse_writes();
    let second = fixture.start_with_faults("second", &second_faults).await;
    tokio::time::sleep(ASK_DELAY + LEASE).await;
    assert_eq!(fixture.row(&id).await.state, TaskState::InputRequired, "the second watches the group");
    first_faults.clear();
    tokio::time::sleep(2 * LEASE).await;
    let task = fixture.row(&id).await;
    assert_eq!(task.state, TaskState::InputRequired, "{task:?}");
    let question_key = task.open_questions().next().expect("it asks").key.clone();
    let accept = Answer::Accept(serde_json::Map::new());
    second.service.answer(&task.owner, &id, &question_key, accept).await.expect("the question is open");
    tokio::time::sleep(ASK_DELAY + 2 * LEASE).await;
    assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
    drop(first);
}
