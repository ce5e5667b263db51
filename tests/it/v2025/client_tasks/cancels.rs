//! The server cancels a client task whose answer it no longer needs.

use serde_json::json;
use taskbridge_sdk::{JobState, Observation};

use super::super::TOOLS;
use super::super::bench::Server;
use super::receiver::{
    LONG_INTERVAL_MS, Receiver, accept, accepted, all_capabilities, assert_about, form, task, task_created,
    task_with_interval,
};

/// Covers an answer by a model, and a job that continues without an answer.
#[tokio::test]
async fn settled_question_cancels_client_task() {
    let server = Server::with(TOOLS).await;
    let mut user = Receiver::of(&server).await;
    let other = server.client().await;
    let id = user.client.start("modelled", json!({})).await;
    let job = server.engine.job(1).await;

    // A model answered.
    job.ask("who", "Who?", form());
    user.accept_with_task(task_with_interval("one", "working", LONG_INTERVAL_MS)).await;
    let arguments = json!({"task_id": id, "question": "q1", "content": {"name": "bob"}});
    other.get("tools/call", json!({"name": "task_answer", "arguments": arguments})).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "bob"})));
    user.answer_next("tasks/cancel", "one", task("one", "cancelled")).await;

    // No answer was given: the job has continued.
    job.ask("again", "Who else?", form());
    user.accept_with_task(task_with_interval("two", "working", LONG_INTERVAL_MS)).await;
    job.show(Observation::new(JobState::Running).with_message("never mind"));
    user.answer_next("tasks/cancel", "two", task("two", "cancelled")).await;

    // Another client of the owner answered, which is asked when it waits for the task.
    job.ask("last", "And who else?", form());
    user.accept_with_task(task_with_interval("three", "working", LONG_INTERVAL_MS)).await;
    let mut waiting = other.open("tasks/result", json!({ "taskId": id })).await;
    let question = waiting.message().await;
    assert!(question["params"].get("task").is_none(), "it makes no tasks");
    assert_eq!(other.reply(&question, accept("eve")).await, 202);
    let request = user.expect_request("tasks/cancel", "three").await;
    assert_eq!(user.client.reply_with_error(&request, -32602).await, 202, "it is done with all the same");

    user.stream = user.client.listen().await;
    job.succeed("done");
    user.assert_no_request_before_end(&id).await;
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "done");
    assert_eq!(job.answers().len(), 2);
}

/// The cancellation is sent on a stream that opens after the end, and again if the answer to it is lost.
#[tokio::test]
async fn late_stream_cancels_client_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    server.engine.job(1).await.ask("who", "Who?", form());
    user.accept_with_task(task_with_interval("theirs", "working", LONG_INTERVAL_MS)).await;
    let Receiver { client, stream, .. } = user;
    drop(stream);
    let server = server.restart().await;
    let client = client.at(&server);
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    for attempt in 1..=2 {
        let mut stream = client.listen().await;
        let request = stream.next("tasks/cancel").await;
        assert_about(&request, "tasks/cancel", "theirs");
        // The first time, the client's answer is lost.
        if attempt == 2 {
            assert_eq!(client.reply(&request, task("theirs", "cancelled")).await, 202);
        }
    }
    let mut user = Receiver::listening(client).await;
    let last = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.assert_no_request_before_end(&last).await;
}

/// The client creates its task after the question is withdrawn, and the server cancels it then.
#[tokio::test]
async fn withdrawn_question_cancels_later_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    server.engine.job(1).await.ask("who", "Who?", form());
    let question = user.request().await;
    user.client.get("tasks/cancel", json!({ "taskId": id })).await;
    user.assert_no_request_before_end(&id).await;
    let other = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    // The server sends no notifications/cancelled, because that does not apply to tasks.
    user.assert_no_request_before_end(&other).await;
    user.reply(&question, task_created(task("theirs", "working"))).await;
    user.answer_next("tasks/cancel", "theirs", task("theirs", "cancelled")).await;
}

#[tokio::test]
async fn cancel_requires_client_capability() {
    let server = Server::start().await;
    let mut capabilities = all_capabilities();
    capabilities["tasks"].as_object_mut().unwrap().remove("cancel");
    let mut user = Receiver::with(&server, capabilities).await;
    let id = user.client.start("work", json!({})).await;
    server.engine.job(1).await.ask("who", "Who?", form());
    user.accept_with_task(task_with_interval("theirs", "working", LONG_INTERVAL_MS)).await;
    user.client.get("tasks/cancel", json!({ "taskId": id })).await;
    user.assert_no_request_before_end(&id).await;
    let last = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.assert_no_request_before_end(&last).await;
}
