//! Tests that a client is asked nothing before it sends `notifications/initialized`.

use serde_json::{Value, json};
use taskbridge_sdk::Answer;

use super::bench::{Client, Server};

fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}})
}

async fn uninitialized_client(server: &Server) -> Client {
    server.uninitialized_client("2025-11-25", json!({"elicitation": {}}), None).await
}

async fn send_initialized(client: &Client) {
    client.notify("notifications/initialized", json!({})).await;
}

#[tokio::test]
async fn nothing_is_asked_before_initialized() {
    let server = Server::start().await;
    let client = uninitialized_client(&server).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let (mut waiting, mut listening) =
        (client.open("tasks/result", json!({ "taskId": id })).await, client.listen().await);
    job.ask("who", "Who?", form());
    client.wait_for_status(&id, "input_required").await;
    // A stream sends the status after it has handled the questions, so this proves that none was sent before.
    let notification = listening.message().await;
    assert_eq!(notification["params"]["status"], "input_required");
    // Another session, which is ready, is asked. Then it disconnects, so that the first one can be asked.
    let other = server.client().await;
    let mut theirs = other.open("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(theirs.message().await["method"], "elicitation/create");
    drop(theirs);
    send_initialized(&client).await;
    let question = waiting.message().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Decline);
}

#[tokio::test]
async fn listening_stream_asks_once_initialized() {
    let server = Server::start().await;
    let client = uninitialized_client(&server).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut listening = client.listen().await;
    job.ask("who", "Who?", form());
    assert_eq!(listening.message().await["params"]["status"], "input_required");
    client.wait_for_status(&id, "input_required").await;
    send_initialized(&client).await;
    assert_eq!(listening.message().await["method"], "elicitation/create");
}

/// Its client will not send the notification again.
#[tokio::test]
async fn restart_counts_sessions_as_ready() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let server = server.restart().await;
    let client = client.at(&server);
    job.ask("who", "Who?", form());
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(waiting.message().await["method"], "elicitation/create");
}
