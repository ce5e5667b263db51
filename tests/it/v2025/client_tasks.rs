//! Tests for client tasks: a client that creates a task of its own for a request of the server. The tests
//! play this client by hand, and its messages are checked against the schema like those of the server.

mod cancels;
mod continued;
mod receiver;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask, JobState, Observation};

use super::TOOLS;
use super::bench::Server;
use crate::support::schema;
use receiver::{
    LONG_INTERVAL_MS, RELATED, Receiver, accept, accepted, form, sampling, task, task_created,
    task_with_interval,
};

/// The server polls the client's task and fetches the answer from it.
#[tokio::test]
async fn question_becomes_client_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    let question = user.accept_as_task("theirs").await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    let days = question["params"]["task"]["ttl"].as_f64().unwrap() / 86_400_000.0;
    assert!((6.9..=7.0).contains(&days), "for as long as the job may run: {days}");
    user.answer_next("tasks/get", "theirs", task("theirs", "working")).await;
    assert_eq!(user.client.task(&id).await["status"], "input_required", "nobody has answered yet");
    user.answer_next("tasks/get", "theirs", task("theirs", "completed")).await;
    user.answer_next("tasks/result", "theirs", accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
    assert_eq!(user.client.task(&id).await["status"], "working");
    job.succeed("hello ana");
    user.assert_no_request_before_end(&id).await;
    assert_eq!(job.answers().len(), 1);
}

/// The requested ttl fits into 32 bits, as timers of clients require.
#[tokio::test]
async fn client_task_ttl_is_bounded() {
    let long = "[tools.long]\nbackend = \"stage\"\ntarget = {}\nmax_runtime = \"60d\"\ninput_schema = { type = \"object\" }\n";
    let server = Server::with(long).await;
    let mut user = Receiver::of(&server).await;
    user.client.start("long", json!({})).await;
    server.engine.job(1).await.ask("who", "Who?", form());
    assert_eq!(user.request().await["params"]["task"], json!({"ttl": i32::MAX}));
}

#[tokio::test]
async fn client_may_answer_without_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    let question = user.request().await;
    assert!(question["params"]["task"].is_object());
    user.reply(&question, accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.assert_no_request_before_end(&id).await;
}

/// A declined answer reaches the job as a decline, and a cancelled client task as a cancel.
#[tokio::test]
async fn client_task_can_decline_or_cancel() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    for (n, status) in [(1, "completed"), (2, "cancelled")] {
        let id = user.client.start("work", json!({})).await;
        let job = server.engine.job(n).await;
        job.ask("who", "Who?", form());
        user.accept_as_task("theirs").await;
        user.answer_next("tasks/get", "theirs", task("theirs", status)).await;
        if status == "completed" {
            user.answer_next("tasks/result", "theirs", json!({"action": "decline"})).await;
            assert_eq!(job.wait_for_answer().await, Answer::Decline);
        } else {
            assert_eq!(job.wait_for_answer().await, Answer::Cancel, "closed without a choice");
        }
        job.succeed("bye");
        user.assert_no_request_before_end(&id).await;
    }
}

#[tokio::test]
async fn start_question_becomes_client_task() {
    let server = Server::with(TOOLS).await;
    let mut user = Receiver::of(&server).await;
    let created = user.client.get("tools/call", json!({"name": "careful", "task": {}})).await;
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    user.accept_as_task("theirs").await;
    user.answer_next("tasks/get", "theirs", task("theirs", "completed")).await;
    assert_eq!(server.engine.starts(), 0);
    user.answer_next("tasks/result", "theirs", json!({"action": "accept", "content": {}})).await;
    server.engine.job(1).await.succeed("started");
    user.assert_no_request_before_end(&id).await;
}

/// Makes two client tasks end without a result: they fail, or the client does not know them.
async fn check_task_without_result(fails: bool) {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    let mut question_ids = Vec::new();
    for task_id in ["one", "two"] {
        question_ids.push(user.accept_as_task(task_id).await["id"].clone());
        let request = if fails {
            user.answer_next("tasks/get", task_id, task(task_id, "failed")).await;
            user.expect_request("tasks/result", task_id).await
        } else {
            let request = user.expect_request("tasks/get", task_id).await;
            assert_eq!(user.client.reply_with_error(&request, -32603).await, 202, "no word on the task");
            user.expect_request("tasks/get", task_id).await
        };
        assert_eq!(user.client.reply_with_error(&request, -32602).await, 202);
    }
    assert_ne!(question_ids[0], question_ids[1]);
    // This stream does not ask a third time. The question stays open, and another stream asks.
    let other = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.assert_no_request_before_end(&other).await;
    assert_eq!(user.client.task(&id).await["status"], "input_required");
    user.stream = user.client.listen().await;
    let question = user.request().await;
    assert!(!question_ids.contains(&question["id"]));
    user.reply(&question, accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
}

#[tokio::test]
async fn failed_client_task_repeats_question() {
    check_task_without_result(true).await;
}

#[tokio::test]
async fn forgotten_client_task_repeats_question() {
    check_task_without_result(false).await;
}

/// The new question has the reason why the answer was not accepted.
#[tokio::test]
async fn invalid_answer_needs_new_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    for task_id in ["one", "two"] {
        user.accept_as_task(task_id).await;
        user.answer_next("tasks/get", task_id, task(task_id, "completed")).await;
        let request = user.expect_request("tasks/result", task_id).await;
        assert_eq!(user.client.reply(&request, accept("x")).await, 400);
    }
    let question = user.accept_as_task("three").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Who?\n\nThe last answer was not taken: `name`"), "{message}");
    user.answer_next("tasks/get", "three", task("three", "completed")).await;
    user.answer_next("tasks/result", "three", accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
}

/// The user of the model can refuse.
#[tokio::test]
async fn sampling_uses_client_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Because."}});
    schema::check_client_message("CreateMessageResult", &result);
    for n in [1, 2] {
        user.client.start("work", json!({})).await;
        let job = server.engine.job(n).await;
        job.ask_for("why", "Why?", sampling());
        let question = user.accept_as_task("theirs").await;
        assert_eq!(question["method"], "sampling/createMessage");
        if n == 1 {
            user.answer_next("tasks/get", "theirs", task("theirs", "completed")).await;
            let mut related = result.clone();
            related["_meta"] = json!({RELATED: {"taskId": "theirs"}});
            user.answer_next("tasks/result", "theirs", related).await;
            assert_eq!(job.wait_for_answer().await, accepted(&result));
        } else {
            user.answer_next("tasks/get", "theirs", task("theirs", "failed")).await;
            let request = user.expect_request("tasks/result", "theirs").await;
            assert_eq!(user.client.reply_with_error(&request, -1).await, 202);
            assert_eq!(job.wait_for_answer().await, Answer::Decline);
        }
        job.succeed("done");
    }
}

/// The server fetches the result of a client task that is `input_required` at once, and only once.
#[tokio::test]
async fn blocked_client_task_is_fetched_once() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    user.accept_as_task("theirs").await;
    user.answer_next("tasks/get", "theirs", task("theirs", "input_required")).await;
    let blocked = user.expect_request("tasks/result", "theirs").await;
    user.answer_next("tasks/get", "theirs", task("theirs", "input_required")).await;
    user.reply(&blocked, accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.assert_no_request_before_end(&id).await;
}

/// Notifications about other tasks have no effect.
#[tokio::test]
async fn status_notification_replaces_polling() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    user.accept_with_task(task_with_interval("theirs", "working", LONG_INTERVAL_MS)).await;
    // Its notifications about other tasks have no effect.
    user.client
        .notify("notifications/tasks/status", task_with_interval("another", "completed", LONG_INTERVAL_MS))
        .await;
    user.client.notify("notifications/tasks/status", json!({"taskId": 5})).await;
    user.client
        .notify("notifications/tasks/status", task_with_interval("theirs", "completed", LONG_INTERVAL_MS))
        .await;
    user.answer_next("tasks/result", "theirs", accept("ana")).await;
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.assert_no_request_before_end(&id).await;
}

/// The client is notified when the visit is complete.
#[tokio::test]
async fn page_visit_uses_client_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask_for("pay", "Pay the bill", Ask::Url("https://bank.example/pay".to_owned()));
    let question = user.accept_as_task("theirs").await;
    user.answer_next("tasks/get", "theirs", task("theirs", "completed")).await;
    user.answer_next("tasks/result", "theirs", json!({"action": "accept"})).await;
    assert_eq!(job.wait_for_answer().await, Answer::Accept(Default::default()));
    job.show(Observation::new(JobState::Running).with_message("paid"));
    let completion = user.stream.next("notifications/elicitation/complete").await;
    assert_eq!(completion["params"]["elicitationId"], question["params"]["elicitationId"]);
}

/// Only requests that the client declared for tasks, in 2025-11-25, ask for one.
#[tokio::test]
async fn undeclared_kind_uses_no_task() {
    let long_budget = [("call_budget = \"2s\"", "call_budget = \"30s\"")];
    let server = Server::configured(&long_budget, "[auth]\nsingle_user = true\n").await;
    let capabilities = |requests: &Value| json!({"elicitation": {}, "sampling": {}, "roots": {}, "tasks": {"cancel": {}, "requests": requests}});
    let both = json!({"elicitation": {"create": {}}, "sampling": {"createMessage": {}}});
    let asks = [Ask::Form(form()), sampling(), Ask::Roots];
    let mut jobs = 0;
    for (revision, requests, as_tasks) in [
        ("2025-11-25", json!({}), [false, false, false]),
        ("2025-11-25", json!({"sampling": {"createMessage": {}}}), [false, true, false]),
        ("2025-11-25", json!({"elicitation": {"create": {}}}), [true, false, false]),
        ("2025-11-25", both.clone(), [true, true, false]),
        ("2025-06-18", both, [false, false, false]),
    ] {
        let client = server.client_with(revision, capabilities(&requests), None).await;
        for (ask, as_task) in asks.iter().zip(as_tasks) {
            jobs += 1;
            let mut call = client.open("tools/call", json!({"name": "work", "arguments": {"n": jobs}})).await;
            let job = server.engine.job(jobs).await;
            job.ask_for("q", "Well?", ask.clone());
            let question = call.message().await;
            assert_eq!(question["params"].get("task").is_some(), as_task, "{question}");
            if !as_task {
                // The server requested no task, so this is no valid answer.
                assert_eq!(client.reply(&question, task_created(task("theirs", "working"))).await, 400);
                let repeated = call.message().await;
                assert_eq!(repeated["method"], question["method"]);
            }
            job.succeed("done");
        }
    }
}
