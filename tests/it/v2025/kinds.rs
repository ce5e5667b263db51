//! Tests for every kind of question: which client is asked, and the effect of its answers.

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask, JobState, Observation};

use super::bench::{Client, Server};

const RELATED: &str = "io.modelcontextprotocol/related-task";
const PAGE: &str = "https://bank.example/pay?order=7";

fn page() -> Ask {
    Ask::Url(PAGE.to_owned())
}

fn sampling() -> Ask {
    let request = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}],
        "systemPrompt": "Be brief.",
        "maxTokens": 100
    });
    Ask::Sampling(request.as_object().unwrap().clone())
}

fn accepted(content: &Value) -> Answer {
    Answer::Accept(content.as_object().unwrap().clone())
}

async fn client_with_capabilities(server: &Server, capabilities: Value) -> Client {
    server.client_with("2025-11-25", capabilities, None).await
}

#[tokio::test]
async fn page_visit_completion_is_announced() {
    let server = Server::start().await;
    let client = client_with_capabilities(&server, json!({"elicitation": {"form": {}, "url": {}}})).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask_for("pay", "Pay the bill", page());
    let question = waiting.message().await;
    assert_eq!(question["method"], "elicitation/create");
    let params = &question["params"];
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!(PAGE)));
    assert_eq!(params["message"], "Pay the bill");
    assert_eq!(params["_meta"], json!({RELATED: {"taskId": id}}));
    assert!(params.get("requestedSchema").is_none());
    let elicitation = params["elicitationId"].as_str().unwrap();
    assert!(!elicitation.contains(&id));

    assert_eq!(client.reply(&question, json!({"action": "accept"})).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Accept(Default::default()));
    assert_eq!(client.task(&id).await["status"], "working", "the job goes on, and the person is at the page");
    job.show(Observation::new(JobState::Running).with_message("paid"));
    let completion = waiting.message().await;
    assert_eq!(completion["method"], "notifications/elicitation/complete");
    let meta = json!({RELATED: {"taskId": id}});
    assert_eq!(completion["params"], json!({"elicitationId": elicitation, "_meta": meta}));
    job.succeed("thanks");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "thanks");
}

/// The job continues before the client answers, so the question is withdrawn and a late answer has no effect.
#[tokio::test]
async fn observed_visit_needs_no_answer() {
    let server = Server::start().await;
    let client = client_with_capabilities(&server, json!({"elicitation": {"url": {}}})).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut listening = client.listen().await;
    job.ask_for("pay", "Pay the bill", page());
    let question = listening.next("elicitation/create").await;
    job.show(Observation::new(JobState::Running).with_message("paid"));
    let completion = listening.next("notifications/elicitation/complete").await;
    assert_eq!(completion["params"]["elicitationId"], question["params"]["elicitationId"]);
    let withdrawn = listening.next("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(withdrawn["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    client.wait_for_message(&id, "paid").await;
    assert_eq!(
        client.reply(&question, json!({"action": "accept"})).await,
        202,
        "a late answer changes nothing"
    );
    assert_eq!(job.answers().len(), 0);
}

#[tokio::test]
async fn declined_page_reaches_job() {
    let server = Server::start().await;
    let client = client_with_capabilities(&server, json!({"elicitation": {"url": {}}})).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask_for("pay", "Pay the bill", page());
    let question = waiting.message().await;
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Decline);
}

/// An invalid answer is refused, and the request is sent again.
#[tokio::test]
async fn sampling_and_roots_are_answered() {
    let server = Server::start().await;
    let client = client_with_capabilities(&server, json!({"sampling": {}, "roots": {}})).await;
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Because."}});
    let roots = json!({"roots": [{"uri": "file:///home/ana", "name": "Home"}]});
    for (n, ask, method, answer) in
        [(1, sampling(), "sampling/createMessage", result), (2, Ask::Roots, "roots/list", roots)]
    {
        let id = client.start("work", json!({})).await;
        let job = server.engine.job(n).await;
        let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
        job.ask_for("q", "Tell me", ask.clone());
        let question = waiting.message().await;
        assert_eq!(question["method"], method);
        let mut params = question["params"].as_object().unwrap().clone();
        assert_eq!(params.remove("_meta"), Some(json!({RELATED: {"taskId": id}})));
        let request = match ask {
            Ask::Sampling(request) => request,
            _ => Default::default(),
        };
        assert_eq!(params, request);
        assert_eq!(
            client.reply(&question, json!({"action": "accept"})).await,
            400,
            "this is no answer to it"
        );
        let repeated = waiting.message().await;
        assert_eq!(client.reply(&repeated, answer.clone()).await, 202);
        assert_eq!(job.wait_for_answer().await, accepted(&answer));
        job.succeed("done");
        waiting.end().await.unwrap();
    }
}

/// An error of the client is no refusal, so the request is sent again.
#[tokio::test]
async fn sampling_refusal_is_decline() {
    let server = Server::start().await;
    let client = client_with_capabilities(&server, json!({"sampling": {}})).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask_for("q", "Tell me", sampling());
    let question = waiting.message().await;
    assert_eq!(client.reply_with_error(&question, -32603).await, 202, "a fault says nothing");
    let question = waiting.message().await;
    assert_eq!(client.reply_with_error(&question, -1).await, 202);
    assert_eq!(job.wait_for_answer().await, Answer::Decline);
}

/// A client that cannot be asked sees in the status which clients can answer.
#[tokio::test]
async fn question_requires_declared_capability() {
    let server = Server::start().await;
    let asks = [
        (Ask::Form(json!({"type": "object", "properties": {}})), "shows forms (elicitation)"),
        (page(), "sends its user to pages (elicitation.url)"),
        (sampling(), "lends its model (sampling)"),
        (Ask::Roots, "tells its roots (roots)"),
    ];
    let capabilities = [
        json!({"elicitation": {}}),
        json!({"elicitation": {"url": {}}}),
        json!({"sampling": {}}),
        json!({"roots": {}}),
    ];
    let mut clients = Vec::new();
    for capability in capabilities {
        let client = client_with_capabilities(&server, capability).await;
        let listening = client.listen().await;
        clients.push((client, listening));
    }
    for (n, (ask, expected)) in asks.into_iter().enumerate() {
        // A client that cannot be asked starts the job; the one that can be asks for its result.
        let id = clients[(n + 1) % 4].0.start("work", json!({})).await;
        let job = server.engine.job(n + 1).await;
        job.ask_for("q", "Well?", ask);
        let (client, _) = &clients[n];
        client.wait_for_status(&id, "input_required").await;
        let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
        let question = waiting.message().await;
        for (m, (other, _)) in clients.iter().enumerate().filter(|(m, _)| *m != n) {
            let task = other.task(&id).await;
            assert_eq!(task["status"], "working", "{m} {task}");
            assert!(task["statusMessage"].as_str().unwrap().contains(expected), "{m} {task}");
        }
        let answer = json!({
            "action": "decline", "roots": [],
            "role": "assistant", "content": {"type": "text", "text": "Well."}, "model": "m",
        });
        assert_eq!(client.reply(&question, answer).await, 202);
        job.succeed("done");
        for (other, _) in &clients {
            other.wait_for_status(&id, "completed").await;
        }
    }
    for (client, mut listening) in clients {
        // Listening streams carry status notifications only: no client was asked for what it did not declare.
        client.start("work", json!({})).await;
        let last = client.start("work", json!({"end": {"succeeded": {}}})).await;
        loop {
            let message = listening.message().await;
            assert_eq!(message["method"], "notifications/tasks/status", "{message}");
            if message["params"]["taskId"] == last.as_str() {
                break;
            }
        }
    }
}

/// Before 2025-11-25, an elicitation has no mode.
#[tokio::test]
async fn older_revisions_only_get_forms() {
    let server = Server::with_long_budget().await;
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    for (n, capabilities) in
        [(1, json!({"elicitation": {}})), (3, json!({"elicitation": {"url": {}, "form": {}}}))]
    {
        let client = server.client_with("2025-06-18", capabilities, None).await;
        let mut call = client.open("tools/call", json!({"name": "work"})).await;
        server.engine.job(n).await.ask("who", "Who?", form.clone());
        let question = call.message().await;
        let params = &question["params"];
        assert_eq!((params.get("mode"), &params["requestedSchema"]), (None, &form));
        call.all().await.1.unwrap();

        let call = client.open("tools/call", json!({"name": "work", "arguments": {"n": n}})).await;
        server.engine.job(n + 1).await.ask_for("pay", "Pay", page());
        let (messages, handle) = call.all().await;
        assert_eq!(messages, Vec::<Value>::new());
        let handle = &handle.unwrap()["structuredContent"];
        assert_eq!(handle["status"], "working");
        let message = handle["status_message"].as_str().unwrap();
        assert!(message.contains("sends its user to pages"), "{message}");
    }
}

#[tokio::test]
async fn invalid_answer_gets_reason() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let age = json!({"type": "integer", "title": "Age", "minimum": 18});
    job.ask("age", "How old?", json!({"type": "object", "properties": {"age": age}, "required": ["age"]}));
    let question = waiting.message().await;
    assert_eq!(question["params"]["message"], "How old?");
    assert_eq!(client.reply(&question, json!({"action": "accept", "content": {"age": 7}})).await, 400);
    let question = waiting.message().await;
    assert_eq!(
        question["params"]["message"],
        "How old?\n\nThe last answer was not taken: `age` (Age) must be 18 or more."
    );
    assert_eq!(client.task(&id).await["statusMessage"], "How old?");
    assert_eq!(client.reply(&question, json!({"action": "accept", "content": {"age": 70}})).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"age": 70})));
}
