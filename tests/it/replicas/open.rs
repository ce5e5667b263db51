//! Tests for requests and streams that are open at one replica, and are cancelled, ended, resumed or
//! superseded by a newer stream at another.

use std::time::Duration;

use futures_util::future::join;
use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::{TIMEOUT, result_text, sessions, start_three};
use crate::v2025::bench::Stream;

/// Returns the status of a GET with this event id.
async fn resume_status(client: &crate::v2025::bench::Client, last: &str) -> u16 {
    client.try_resume(last).await.status().as_u16()
}

/// A request that is cancelled at one replica ends at all of them, and cannot be resumed.
#[tokio::test]
async fn remote_cancel_ends_request() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    // Another request of the session is not affected.
    let other = b.open("tasks/result", json!({ "taskId": id })).await;
    b.notify("notifications/cancelled", json!({"requestId": waiting.request["id"]})).await;
    let stream = waiting.stream.as_mut().unwrap();
    assert_eq!(stream.any().await, None);
    // Some clients still try to resume the stream, at any replica.
    let last = stream.last();
    for client in [&a, &b, &c] {
        assert_eq!(resume_status(client, &last).await, 405);
    }
    server.engine.job(1).await.succeed("over");
    assert_eq!(result_text(&other.end().await.unwrap()), "over");
}

#[tokio::test]
async fn remotely_resumed_stream_ends_old_one() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    let mut old = waiting.stream.take().unwrap();
    // The stream moves from replica to replica, and back to an earlier one.
    for client in [&b, &c, &a, &b] {
        assert_eq!(old.any_within(Duration::from_millis(300)).await, None, "it is open");
        let next = client.resume(&old.last()).await;
        assert_eq!(old.any().await, None, "it ended, and without an answer");
        old = next;
    }
    job.succeed("over");
    let answer = old.any().await.unwrap();
    assert_eq!((&answer["id"], result_text(&answer["result"])), (&waiting.request["id"], "over"));
}

/// Neither the replica where the session began nor the one that gets `notifications/initialized` matters.
#[tokio::test]
async fn no_replica_asks_before_initialized() {
    let server = start_three("").await;
    let silent = server.uninitialized_client("2025-11-25", json!({"elicitation": {}}), None).await;
    let [a, b, c] = std::array::from_fn(|n| silent.at_url(&server.replicas[n]));
    let id = a.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let params = json!({ "taskId": id });
    let mut waiting =
        [a.open("tasks/result", params.clone()).await, b.open("tasks/result", params.clone()).await];
    job.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    a.wait_for_status(&id, "input_required").await;
    // A client that is ready is asked, which proves that no other was asked before; it then disconnects.
    let mut theirs = server.client().await.open("tasks/result", params).await;
    assert_eq!(theirs.message().await["method"], "elicitation/create");
    drop(theirs);
    c.notify("notifications/initialized", json!({})).await;
    let [one, two] = &mut waiting;
    let question = tokio::select! {
        question = one.message() => question,
        question = two.message() => question,
    };
    assert_eq!(question["method"], "elicitation/create");
}

/// The session polls a task of another session at one replica, and listens at another.
#[tokio::test]
async fn polled_question_crosses_replicas() {
    let server = start_three("").await;
    let [maker, ..] = sessions(&server).await;
    let [a, b, _] = sessions(&server).await;
    let id = maker.start("work", json!({})).await;
    let mut listening = b.listen().await;
    let form = json!({"type": "object", "properties": {}});
    server.engine.job(1).await.ask("who", "Who?", form);
    a.wait_for_status(&id, "input_required").await;
    assert_eq!(listening.message().await["method"], "elicitation/create");
}

#[tokio::test]
async fn remote_session_end_closes_streams() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let mut listening = b.listen().await;
    let mut waiting = c.open("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(a.end().await, 204);
    while listening.any().await.is_some() {}
    assert_eq!(waiting.stream.as_mut().unwrap().any().await, None);
}

/// Returns the status messages of a stream, up to `last`.
async fn status_messages_until(stream: &mut Stream, last: &str) -> Vec<String> {
    let mut messages = Vec::new();
    loop {
        let message = stream.next("notifications/tasks/status").await;
        messages.extend(message["params"]["statusMessage"].as_str().map(str::to_owned));
        if messages.last().is_some_and(|text| text == last) {
            return messages;
        }
    }
}

/// When the newest stream closes, the one before it delivers. No message is sent twice.
#[tokio::test]
async fn newest_stream_across_replicas_delivers() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let show_message = |text: &str| job.show(Observation::new(JobState::Running).with_message(text));
    let (mut oldest, mut older, mut newest) = (a.listen().await, b.listen().await, c.listen().await);
    show_message("first");
    status_messages_until(&mut newest, "first").await;
    show_message("second");
    assert_eq!(status_messages_until(&mut newest, "second").await, ["second"]);
    drop(newest);
    show_message("third");
    status_messages_until(&mut older, "third").await;
    show_message("fourth");
    assert_eq!(status_messages_until(&mut older, "fourth").await, ["fourth"]);
    drop(older);
    show_message("fifth");
    let messages = status_messages_until(&mut oldest, "fifth").await;
    assert!(
        messages.iter().all(|text| !["first", "second", "fourth"].contains(&text.as_str())),
        "{messages:?}"
    );
    // The end is also reported once, although two replicas notice it: the newer stream has just opened.
    let mut newest = c.listen().await;
    job.succeed("over");
    let completed =
        |message: &Value| message["params"]["status"] == "completed" && message["params"]["taskId"] == *id;
    let count_completed = async |stream: &mut Stream| {
        let mut times = 0;
        while let Some(message) = stream.any_within(Duration::from_millis(1_500)).await {
            times += usize::from(completed(&message));
        }
        times
    };
    let (by_oldest, by_newest) = join(count_completed(&mut oldest), count_completed(&mut newest)).await;
    assert_eq!(by_oldest + by_newest, 1, "{by_oldest} and {by_newest}");
}

#[tokio::test]
async fn short_remote_task_is_announced() {
    let server = start_three("").await;
    let [a, b, _] = sessions(&server).await;
    let mut listening = a.listen().await;
    for _ in 0..5 {
        let id = b.start("work", json!({"end": {"succeeded": {}}})).await;
        let notification = tokio::time::timeout(TIMEOUT, listening.next("notifications/tasks/status")).await;
        let notification = notification.expect("nothing is told");
        assert_eq!(
            (&notification["params"]["taskId"], &notification["params"]["status"]),
            (&json!(id), &json!("completed"))
        );
    }
}
