//! Tests for streams at one replica about events at others.

use futures_util::future::join_all;
use serde_json::{Value, json};
use taskbridge_sdk::Answer;

use super::{TIMEOUT, modern_clients, result_text, sessions, start_three};
use crate::support::Events;

async fn next_message(events: &mut Events) -> Value {
    let next = tokio::time::timeout(TIMEOUT, events.next()).await.expect("nothing is heard");
    next.unwrap().expect("the stream ended")
}

#[tokio::test]
async fn waiting_requests_end_at_all_replicas() {
    let server = start_three("").await;
    let clients = sessions(&server).await;
    for round in 1..=3 {
        let id = clients[round % 3].start("work", json!({ "n": round })).await;
        // Two of the three replicas do not watch the job. NOTIFY informs them; without it they would notice
        // after 30 seconds.
        let waiting = clients.iter().map(|client| client.open("tasks/result", json!({ "taskId": id })));
        let waiting = join_all(waiting).await;
        server.engine.job(round).await.succeed("over");
        for waiting in waiting {
            assert_eq!(result_text(&waiting.end().await.unwrap()), "over");
        }
    }
}

#[tokio::test]
async fn broken_stream_resumes_at_another_replica() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = a.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
    let question = waiting.message().await;
    let (request, last) = (waiting.request.clone(), waiting.stream.as_ref().unwrap().last());
    drop(waiting);
    // The answer goes to one replica, and the stream is resumed at another.
    assert_eq!(b.reply(&question, json!({"action": "accept", "content": {"name": "ana"}})).await, 202);
    assert!(matches!(job.wait_for_answer().await, Answer::Accept(fields) if fields["name"] == "ana"));
    let mut stream = c.resume(&last).await;
    job.succeed("hello ana");
    let answer = stream.any().await.unwrap();
    assert_eq!((&answer["id"], result_text(&answer["result"])), (&request["id"], "hello ana"));
    assert_eq!(stream.any().await, None);
}

/// A listening stream delivers events of other replicas, and can be resumed at another one.
#[tokio::test]
async fn listening_stream_crosses_replicas() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let mut listening = a.listen().await;
    let id = b.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
    let question = listening.next("elicitation/create").await;
    assert_eq!(c.reply(&question, json!({"action": "decline"})).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Decline);
    let last = listening.last();
    drop(listening);
    let mut listening = b.resume(&last).await;
    job.succeed("over");
    loop {
        // All replicas offer the same, so no list changes are reported, although another replica sealed the
        // offers.
        let message = listening.message().await;
        assert_eq!(message["method"], "notifications/tasks/status", "{message}");
        assert_eq!(message["params"]["taskId"], id);
        if message["params"]["status"] == "completed" {
            break;
        }
    }
}

#[tokio::test]
async fn subscription_reports_remote_task() {
    let server = start_three("").await;
    let [a, b, c] = modern_clients(&server);
    let created = b.call("work", &json!({}), json!({})).await.unwrap();
    let id = created["taskId"].as_str().unwrap().to_owned();
    let (mut at_a, mut at_c) = (
        a.subscribe_to_tasks(std::slice::from_ref(&id)).await.unwrap(),
        c.subscribe_to_tasks(std::slice::from_ref(&id)).await.unwrap(),
    );
    server.engine.job(1).await.succeed("over");
    for events in [&mut at_a, &mut at_c] {
        loop {
            let message = next_message(events).await;
            if message["params"]["status"] == "completed" {
                assert_eq!(result_text(&message["params"]["result"]), "over");
                break;
            }
        }
    }
}
