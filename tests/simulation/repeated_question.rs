//! A job asks twice under one question id, as the gates of some engines do. The second question is a new
//! one, even if the first poll after the answer came within the adapter's list lag.

use std::time::Duration;

use serde_json::json;
use taskbridge_core::tasks::task::Outcome;
use taskbridge_sdk::Answer;

use super::engines::LIST_LAG;
use super::fixture::{Fixture, call_with};
use super::node::LEASE;

#[tokio::test(start_paused = true)]
async fn question_with_reused_id_is_asked() {
    let fixture = Fixture::new();
    let node = fixture.start("one").await;
    let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let question = json!({"message": "go on?", "schema": form, "at_once": true, "times": 2});
    let call_result = node.service.call(call_with(json!({"delay_ms": 1_000, "question": question}))).await;
    let id = call_result.expect("the store is there").into_task().id;
    let mut keys = Vec::new();
    for _ in 0..2 {
        // Polls are seconds apart, so several come within the lag.
        tokio::time::sleep(LIST_LAG + LEASE).await;
        let task = fixture.row(&id).await;
        let open_question =
            task.open_questions().next().unwrap_or_else(|| panic!("nothing is asked: {task:?}"));
        keys.push(open_question.key.clone());
        let accept = Answer::Accept(serde_json::Map::from_iter([("n".to_owned(), keys.len().into())]));
        let answer_result = node.service.answer(&task.owner, &id, &open_question.key, accept).await;
        answer_result.expect("the question is open");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_ne!(keys[0], keys[1]);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let task = fixture.row(&id).await;
    assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
}
