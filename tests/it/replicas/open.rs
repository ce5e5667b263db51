//! What is open at one replica, and is cancelled, ended, taken up or outdone by a newer stream at another.

use std::time::Duration;

use futures_util::future::join;
use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::{PATIENCE, said, sessions, three};
use crate::v2025::bench::Stream;

/// The status of the last thing that a GET with this event id leads to.
async fn gone(client: &crate::v2025::bench::Client, last: &str) -> u16 {
    client.try_to_take_up(last).await.status().as_u16()
}

#[tokio::test]
async fn a_request_that_is_cancelled_at_another_replica_is_over_at_all() {
    let server = three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    // Another request of the session goes on.
    let other = b.open("tasks/result", json!({ "taskId": id })).await;
    b.notify("notifications/cancelled", json!({"requestId": waiting.request["id"]})).await;
    let stream = waiting.stream.as_mut().unwrap();
    assert_eq!(stream.any().await, None);
    // Some clients come back for it all the same, to whichever replica.
    let last = stream.last();
    for client in [&a, &b, &c] {
        assert_eq!(gone(client, &last).await, 405);
    }
    server.stage.job(1).await.succeed("over");
    assert_eq!(said(&other.end().await.unwrap()), "over");
}

#[tokio::test]
async fn a_stream_that_is_taken_up_at_another_replica_ends_where_it_was() {
    let server = three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    let mut old = waiting.stream.take().unwrap();
    // From one to the next, and back to where it was once.
    for client in [&b, &c, &a, &b] {
        assert_eq!(old.any_within(Duration::from_millis(300)).await, None, "it is open");
        let next = client.take_up(&old.last()).await;
        assert_eq!(old.any().await, None, "it ended, and without an answer");
        old = next;
    }
    job.succeed("over");
    let answer = old.any().await.unwrap();
    assert_eq!((&answer["id"], said(&answer["result"])), (&waiting.request["id"], "over"));
}

/// For any replica at which the session began, and any that gets `notifications/initialized`.
#[tokio::test]
async fn no_replica_asks_before_initialized() {
    let server = three("").await;
    let silent = server.silent_client("2025-11-25", json!({"elicitation": {}}), None).await;
    let [a, b, c] = std::array::from_fn(|n| silent.at_url(&server.replicas[n]));
    let id = a.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let params = json!({ "taskId": id });
    let mut waiting =
        [a.open("tasks/result", params.clone()).await, b.open("tasks/result", params.clone()).await];
    job.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    a.until(&id, "input_required").await;
    // A client that is ready is asked, so that nobody was before; and no more once it has gone.
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
    let server = three("").await;
    let [maker, ..] = sessions(&server).await;
    let [a, b, _] = sessions(&server).await;
    let id = maker.start("work", json!({})).await;
    let mut listening = b.listen().await;
    let form = json!({"type": "object", "properties": {}});
    server.stage.job(1).await.ask("who", "Who?", form);
    a.until(&id, "input_required").await;
    assert_eq!(listening.message().await["method"], "elicitation/create");
}

#[tokio::test]
async fn a_session_that_is_ended_at_another_replica_has_no_stream_left() {
    let server = three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let mut listening = b.listen().await;
    let mut waiting = c.open("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(a.end().await, 204);
    while listening.any().await.is_some() {}
    assert_eq!(waiting.stream.as_mut().unwrap().any().await, None);
}

/// What a stream says of the job's changes, up to the one of this name.
async fn told(stream: &mut Stream, last: &str) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let message = stream.next("notifications/tasks/status").await;
        told.extend(message["params"]["statusMessage"].as_str().map(str::to_owned));
        if told.last().is_some_and(|told| told == last) {
            return told;
        }
    }
}

#[tokio::test]
async fn of_the_listening_streams_at_all_replicas_the_newest_speaks_and_the_one_before_when_it_has_closed() {
    let server = three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let says = |words: &str| job.show(Observation::new(JobState::Running).with_message(words));
    let (mut oldest, mut older, mut newest) = (a.listen().await, b.listen().await, c.listen().await);
    says("first");
    told(&mut newest, "first").await;
    says("second");
    assert_eq!(told(&mut newest, "second").await, ["second"]);
    drop(newest);
    says("third");
    told(&mut older, "third").await;
    says("fourth");
    assert_eq!(told(&mut older, "fourth").await, ["fourth"]);
    drop(older);
    says("fifth");
    let heard = told(&mut oldest, "fifth").await;
    assert!(heard.iter().all(|words| !["first", "second", "fourth"].contains(&words.as_str())), "{heard:?}");
    // What ends is told once, too, though two replicas know of it: the newer one has just opened.
    let mut newest = c.listen().await;
    job.succeed("over");
    let completed =
        |message: &Value| message["params"]["status"] == "completed" && message["params"]["taskId"] == *id;
    let hears = async |stream: &mut Stream| {
        let mut times = 0;
        while let Some(message) = stream.any_within(Duration::from_millis(1_500)).await {
            times += usize::from(completed(&message));
        }
        times
    };
    let (by_oldest, by_newest) = join(hears(&mut oldest), hears(&mut newest)).await;
    assert_eq!(by_oldest + by_newest, 1, "{by_oldest} and {by_newest}");
}

#[tokio::test]
async fn a_task_that_begins_and_ends_at_another_replica_within_a_moment_is_told_of() {
    let server = three("").await;
    let [a, b, _] = sessions(&server).await;
    let mut listening = a.listen().await;
    for _ in 0..5 {
        let id = b.start("work", json!({"end": {"succeeded": {}}})).await;
        let told = tokio::time::timeout(PATIENCE, listening.next("notifications/tasks/status")).await;
        let told = told.expect("nothing is told");
        assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!(id), &json!("completed")));
    }
}
