//! Tests for questions, and for the streams that carry them.

use serde_json::{Value, json};
use taskbridge_sdk::Answer;

use super::TOOLS;
use super::bench::Server;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]})
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn accepted(name: &str) -> Answer {
    Answer::Accept(json!({ "name": name }).as_object().unwrap().clone())
}

/// The task continues before the answer is acknowledged, and a late answer has no effect.
#[tokio::test]
async fn waiting_stream_asks_question() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let question = waiting.message().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who?");
    assert_eq!(question["params"]["mode"], "form");
    assert_eq!(question["params"]["requestedSchema"], form());
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    assert!(question["params"].get("task").is_none());
    assert_eq!(client.task(&id).await["status"], "input_required");
    let notification = listening.message().await;
    assert_eq!(
        notification["params"]["status"], "input_required",
        "the listening stream tells the status only"
    );
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(client.task(&id).await["status"], "working", "moved on before the answer is acknowledged");
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
    assert_eq!(client.reply(&question, accept("bob")).await, 202, "a late answer changes nothing");
    assert_eq!(job.answers().len(), 1);
    job.succeed("hello ana");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello ana");
}

/// The question waits until a stream opens.
#[tokio::test]
async fn listening_stream_asks_question() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    client.wait_for_status(&id, "input_required").await;
    // The question waits while no stream is open, and goes out on the first that opens.
    let mut listening = client.listen().await;
    let question = listening.next("elicitation/create").await;
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Decline);
}

/// The new message has the reason. One stream asks at most three times, and the first message stays valid.
#[tokio::test]
async fn invalid_answer_repeats_question() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let first = waiting.message().await;
    let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": accept("x")});
    let response = client.send(&answer).await;
    assert_eq!(response.status(), 400, "202 would say that it was accepted");
    let error: Value = response.json().await.unwrap();
    assert_eq!((error.get("id"), &error["error"]["code"]), (None, &json!(-32600)));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the answer was not taken: ") && message.contains("name"), "{message}");
    let second = waiting.message().await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(
        client.reply_error(&second).await,
        202,
        "an error is no answer, and is what JSON-RPC has for that"
    );
    let third = waiting.message().await;
    assert_eq!(client.reply(&third, json!({"action": "perhaps"})).await, 400);
    assert_eq!(client.task(&id).await["status"], "input_required");
    // One stream asks at most three times; the answer to any of its messages still counts.
    assert_eq!(client.reply(&first, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
    job.succeed("hello ana");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello ana");
}

#[tokio::test]
async fn broken_stream_moves_question() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let first = waiting.message().await;
    drop(waiting);
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let second = waiting.message().await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(client.reply(&second, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
}

/// Two processes have a waiting stream, and one of them asks. Either accepts the answer.
#[tokio::test]
async fn question_is_asked_by_one_process() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let other = client.at(&twin);
    let params = json!({ "taskId": id });
    let (mut one, mut two) =
        (client.open("tasks/result", params.clone()).await, other.open("tasks/result", params).await);
    job.ask("who", "Who?", form());
    let (question, silent) = tokio::select! {
        question = one.message() => (question, two),
        question = two.message() => (question, one),
    };
    // Either process accepts the answer.
    assert_eq!(other.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
    job.succeed("hello");
    let (messages, answer) = silent.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(answer.unwrap()["content"][0]["text"], "hello");
}

#[tokio::test]
async fn cancelled_task_withdraws_question() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    server.engine.job(1).await.ask("who", "Who?", form());
    let question = waiting.message().await;
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    let withdrawn = waiting.message().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(withdrawn["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    assert_eq!(waiting.end().await.unwrap()["isError"], true);
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
}

#[tokio::test]
async fn unexpected_response_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for id in [json!(1), json!("x"), json!("")] {
        assert_eq!(client.reply(&json!({ "id": id }), accept("ana")).await, 400);
    }
}

/// If the user declines, nothing starts.
#[tokio::test]
async fn start_waits_for_consent() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let created = client.get("tools/call", json!({"name": "careful", "task": {}})).await;
    assert_eq!(created["task"]["status"], "working");
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(client.task(&id).await["status"], "input_required");
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let question = waiting.message().await;
    assert_eq!(question["params"]["message"], "Really?");
    assert_eq!(server.engine.starts(), 0);
    assert_eq!(client.reply(&question, json!({"action": "accept", "content": {}})).await, 202);
    server.engine.job(1).await.succeed("started");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "started");

    let mut call = client.open("tools/call", json!({"name": "careful"})).await;
    let question = call.message().await;
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    let declined = call.end().await.unwrap();
    assert_eq!(declined["isError"], true);
    assert!(declined["content"][0]["text"].as_str().unwrap().contains("declined"));
    assert_eq!(server.engine.starts(), 1);
}

/// A client that cannot be asked is refused, and nothing starts.
#[tokio::test]
async fn consent_requires_elicitation_capability() {
    let server = Server::with(TOOLS).await;
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let client = server.client_with("2025-11-25", capabilities, None).await;
        let answer = client.get("tools/call", json!({"name": "careful"})).await;
        assert_eq!(answer["isError"], true);
        assert_eq!(client.expect_error("tools/call", json!({"name": "careful", "task": {}})).await.0, -32602);
        assert_eq!(client.get("tasks/list", json!({})).await["tasks"], json!([]));
    }
    let oldest_client = server.client_with("2025-03-26", json!({"elicitation": {}}), None).await;
    let answer = oldest_client.get("tools/call", json!({"name": "careful"})).await;
    assert_eq!(answer["isError"], true, "that revision has no such thing");
}

/// A client that cannot be asked sees who can answer, and another client of the owner is asked.
#[tokio::test]
async fn another_client_answers_question() {
    let server = Server::start().await;
    let (incapable_client, client) = (server.client_without_capabilities().await, server.client().await);
    let id = incapable_client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let waiting = incapable_client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let task = client.wait_for_status(&id, "input_required").await;
    assert_eq!(task["statusMessage"], "Who?");
    let incapable_view = incapable_client.task(&id).await;
    assert_eq!(incapable_view["status"], "working");
    assert!(incapable_view["statusMessage"].as_str().unwrap().contains("A person can answer it"));
    let mut second_waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let question = second_waiting.message().await;
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
    job.succeed("hello");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello");
}

/// The question stays open after the handle, and is not asked a second time.
#[tokio::test]
async fn plain_call_asks_on_its_stream() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    let question = call.message().await;
    let handle = call.end().await.unwrap()["structuredContent"].clone();
    assert_eq!(handle["status"], "input_required");
    client.start("work", json!({})).await;
    server.engine.job(2).await.ask("what", "What?", form());
    let other = listening.next("elicitation/create").await;
    assert_eq!(other["params"]["message"], "What?", "the first is not asked twice");
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
}

/// The job is cancelled, and receives no answer.
#[tokio::test]
async fn refusal_ends_task_if_configured() {
    let server = Server::with(
        r#"
[tools.fails]
backend = "stage"
target = {}
on_decline = "fail"
on_dismiss = "cancel"
input_schema = { type = "object" }
"#,
    )
    .await;
    let client = server.client().await;
    for (n, action, status, expected) in
        [(1, "decline", "failed", "was declined"), (2, "cancel", "cancelled", "was closed without an answer")]
    {
        let id = client.start("fails", json!({})).await;
        let job = server.engine.job(n).await;
        let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
        job.ask("who", "Who?", form());
        let question = waiting.message().await;
        assert_eq!(client.reply(&question, json!({ "action": action })).await, 202);
        let task = client.task(&id).await;
        assert_eq!(task["status"], status);
        assert_eq!(task["statusMessage"], format!("the question \"Who?\" {expected}, so the job is stopped"));
        let result = waiting.end().await.unwrap();
        assert_eq!(result["isError"], true);
        assert!(result["content"].to_string().contains(expected), "{result}");
        job.wait_for_cancel().await;
        assert_eq!(job.answers().len(), 0, "the job is stopped, and not told");
    }
}

#[tokio::test]
async fn missing_fields_get_defaults() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let colours = json!([{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]);
    let schema = json!({"type": "object", "properties": {
        "colour": {"type": "string", "oneOf": colours, "default": "#0f0"},
        "sizes": {"type": "array", "items": {"anyOf": colours}, "default": []},
        "name": {"type": "string", "default": "ana"}
    }});
    job.ask("how", "How?", schema.clone());
    let question = waiting.message().await;
    assert_eq!(question["params"]["requestedSchema"], schema);
    assert_eq!(client.reply(&question, json!({"action": "accept", "content": {"name": "bob"}})).await, 202);
    let content = json!({"colour": "#0f0", "sizes": [], "name": "bob"});
    assert_eq!(job.wait_for_answer().await, Answer::Accept(content.as_object().unwrap().clone()));
}

/// A form that asks for a secret is not sent, and the job is cancelled.
#[tokio::test]
async fn form_with_secret_fails_task() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("login", "Log in", json!({"type": "object", "properties": {"apiKey": {"type": "string"}}}));
    let (messages, result) = waiting.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(result.unwrap()["isError"], true);
    let task = client.task(&id).await;
    assert_eq!(task["status"], "failed");
    let message = task["statusMessage"].as_str().unwrap();
    assert!(
        message.contains("its field `apiKey` asks for a secret") && message.contains("ask with a `url`"),
        "{message}"
    );
    job.wait_for_cancel().await;
}

/// A restarted client has a new session, and knows the task by its id.
#[tokio::test]
async fn polling_session_is_asked_while_listening() {
    let server = Server::start().await;
    let id = server.client().await.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let server = server.restart().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    job.ask("who", "Who?", form());
    client.wait_for_status(&id, "input_required").await;
    let question = listening.message().await;
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
    // From then on it is asked without a poll, also on a new stream.
    drop(listening);
    let mut listening = client.listen().await;
    job.ask("again", "Who else?", form());
    let question = listening.message().await;
    assert_eq!(question["params"]["message"], "Who else?", "how the task stands is told to its own session");
    job.succeed("hello ana");
    let withdrawn = listening.message().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
}

#[tokio::test]
async fn polled_question_is_on_one_stream() {
    let server = Server::start().await;
    let id = server.client().await.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    // One client polls and cannot be asked; the other can be asked and does not poll.
    let (incapable_client, idle) = (server.client_without_capabilities().await, server.client().await);
    let (mut unable, mut unpolled) = (incapable_client.listen().await, idle.listen().await);
    let (one, two) = (server.client().await, server.client().await);
    let (mut first, mut second) = (one.listen().await, two.listen().await);
    job.ask("who", "Who?", form());
    one.wait_for_status(&id, "input_required").await;
    two.wait_for_status(&id, "input_required").await;
    assert_eq!(incapable_client.task(&id).await["status"], "working");
    let (question, asked_stream, other, mut silent) = tokio::select! {
        question = first.message() => (question, first, &two, second),
        question = second.message() => (question, second, &one, first),
    };
    assert_eq!(question["method"], "elicitation/create");
    for (client, stream) in [(&incapable_client, &mut unable), (&idle, &mut unpolled), (other, &mut silent)] {
        let last = client.start("work", json!({"end": {"succeeded": {}}})).await;
        let notification = stream.message().await;
        assert_eq!(notification["method"], "notifications/tasks/status", "{notification}");
        assert_eq!(notification["params"]["taskId"], last.as_str());
    }
    // The client may never have seen a message whose stream broke.
    drop(asked_stream);
    let question = silent.next("elicitation/create").await;
    assert_eq!(other.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted("ana"));
}
