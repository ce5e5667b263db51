//! What a look saw at its moment must not undo what a later look of another process saw, however long it was on its way
//! into the store. Found by seed 113517: a question that an older look did not know of was withdrawn for good.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge::tasks::service::Call;
use taskbridge::tasks::task::{Outcome, TaskState};
use taskbridge_sdk::Answer;

use super::node::LEASE;
use super::place::{Place, call_with};
use super::store_faults::StoreFaults;

/// When the job asks.
const ASKS_AFTER: Duration = Duration::from_secs(60);

/// A job that tells its progress, and asks in the middle.
pub(super) fn call() -> Call {
    let delay_ms = 2 * ASKS_AFTER.as_secs() * 1_000;
    call_with(json!({"delay_ms": delay_ms, "steps": 40, "question": {"message": "go on?"}}))
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_written_late_withdraws_no_question() {
    let place = Place::new();
    let (cut_off, fine) = (Arc::new(StoreFaults::default()), Arc::new(StoreFaults::default()));
    let first = place.start_in("first", &cut_off).await;
    let called = first.service.call(call()).await.expect("the store is there");
    let id = called.into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // It goes on looking, sees progress, and cannot write that; its lease of the group runs out.
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
