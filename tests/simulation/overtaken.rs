//! The result of a poll that reaches the store late must not undo the result of a later poll by another
//! process. Found by seed 113517: a question that an older poll did not know was withdrawn for good.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge::tasks::service::Call;
use taskbridge::tasks::task::{Outcome, TaskState};
use taskbridge_sdk::Answer;

use super::node::LEASE;
use super::place::{Place, call_with};
use super::store_faults::StoreFaults;

/// Time until the job asks.
const ASKS_AFTER: Duration = Duration::from_secs(60);

/// Returns a call of a job that reports progress and asks a question half-way.
pub(super) fn call() -> Call {
    let delay_ms = 2 * ASKS_AFTER.as_secs() * 1_000;
    call_with(json!({"delay_ms": delay_ms, "steps": 40, "question": {"message": "go on?"}}))
}

#[tokio::test(start_paused = true)]
async fn late_poll_result_withdraws_no_question() {
    let place = Place::new();
    let (cut_off, fine) = (Arc::new(StoreFaults::default()), Arc::new(StoreFaults::default()));
    let first = place.start_in("first", &cut_off).await;
    let called = first.service.call(call()).await.expect("the store is there");
    let id = called.into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The first process continues to poll, sees progress and cannot write it. Its lease of the group
    // expires.
    cut_off.refuse_writes();
    let second = place.start_in("second", &fine).await;
    tokio::time::sleep(ASKS_AFTER + LEASE).await;
    assert_eq!(place.row(&id).await.state, TaskState::InputRequired, "the second watches the group");
    cut_off.clear();
    tokio::time::sleep(2 * LEASE).await;
    let task = place.row(&id).await;
    assert_eq!(task.state, TaskState::InputRequired, "{task:?}");
    let asked = task.open_questions().next().expect("it asks").key.clone();
    let yes = Answer::Accept(serde_json::Map::new());
    second.service.answer(&task.owner, &id, &asked, yes).await.expect("the question is open");
    tokio::time::sleep(ASKS_AFTER + 2 * LEASE).await;
    assert_eq!(place.row(&id).await.outcome(), Some(Outcome::Succeeded));
    drop(first);
}
