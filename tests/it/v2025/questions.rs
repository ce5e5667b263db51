//! Questions, and who carries them.

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

#[tokio::test]
async fn a_question_goes_out_on_the_stream_that_waits_and_the_answer_moves_the_task_on() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
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
    let told = listening.message().await;
    assert_eq!(told["params"]["status"], "input_required", "the listening stream tells the status only");
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(client.task(&id).await["status"], "working", "moved on before the answer is acknowledged");
    assert_eq!(job.answered().await, accepted("ana"));
    assert_eq!(client.reply(&question, accept("bob")).await, 202, "a late answer changes nothing");
    assert_eq!(job.answers().len(), 1);
    job.succeed("hello ana");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello ana");
}

#[tokio::test]
async fn without_a_waiting_stream_the_listening_one_carries_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    client.until(&id, "input_required").await;
    // It waits for as long as no stream is open, and goes out on the first that opens.
    let mut listening = client.listen().await;
    let question = listening.next("elicitation/create").await;
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    assert_eq!(job.answered().await, Answer::Decline);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_in_a_new_message() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let first = waiting.message().await;
    let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": accept("x")});
    let response = client.send(&answer).await;
    assert_eq!(response.status(), 400, "202 would say that it was accepted");
    let why: Value = response.json().await.unwrap();
    assert_eq!((why.get("id"), &why["error"]["code"]), (None, &json!(-32600)));
    let words = why["error"]["message"].as_str().unwrap();
    assert!(words.starts_with("the answer was not taken: ") && words.contains("name"), "{words}");
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
    // Three times is enough for one stream; the answer to any of its messages still counts.
    assert_eq!(client.reply(&first, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
    job.succeed("hello ana");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello ana");
}

#[tokio::test]
async fn a_question_whose_stream_broke_is_asked_on_the_next() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let first = waiting.message().await;
    drop(waiting);
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let second = waiting.message().await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(client.reply(&second, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
}

#[tokio::test]
async fn one_question_is_on_one_stream_also_with_two_processes() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let other = client.at(&twin);
    let params = json!({ "taskId": id });
    let (mut one, mut two) =
        (client.open("tasks/result", params.clone()).await, other.open("tasks/result", params).await);
    job.ask("who", "Who?", form());
    let (question, silent) = tokio::select! {
        question = one.message() => (question, two),
        question = two.message() => (question, one),
    };
    // The answer may come back to either.
    assert_eq!(other.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
    job.succeed("hello");
    let (messages, answer) = silent.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(answer.unwrap()["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_question_that_nobody_needs_any_more_is_withdrawn() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    server.stage.job(1).await.ask("who", "Who?", form());
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
async fn responses_to_nothing_that_was_asked_are_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for id in [json!(1), json!("x"), json!("")] {
        assert_eq!(client.reply(&json!({ "id": id }), accept("ana")).await, 400);
    }
}

#[tokio::test]
async fn a_tool_that_asks_before_it_starts_starts_when_its_user_agrees() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let created = client.get("tools/call", json!({"name": "careful", "task": {}})).await;
    assert_eq!(created["task"]["status"], "working");
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(client.task(&id).await["status"], "input_required");
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let question = waiting.message().await;
    assert_eq!(question["params"]["message"], "Really?");
    assert_eq!(server.stage.starts(), 0);
    assert_eq!(client.reply(&question, json!({"action": "accept", "content": {}})).await, 202);
    server.stage.job(1).await.succeed("started");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "started");

    let mut call = client.open("tools/call", json!({"name": "careful"})).await;
    let question = call.message().await;
    assert_eq!(client.reply(&question, json!({"action": "decline"})).await, 202);
    let declined = call.end().await.unwrap();
    assert_eq!(declined["isError"], true);
    assert!(declined["content"][0]["text"].as_str().unwrap().contains("declined"));
    assert_eq!(server.stage.starts(), 1);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_refused_before_anything_starts() {
    let server = Server::with(TOOLS).await;
    for able in [json!({}), json!({"elicitation": {"url": {}}})] {
        let client = server.client_with("2025-11-25", able, None).await;
        let answer = client.get("tools/call", json!({"name": "careful"})).await;
        assert_eq!(answer["isError"], true);
        assert_eq!(client.refused("tools/call", json!({"name": "careful", "task": {}})).await.0, -32602);
        assert_eq!(client.get("tasks/list", json!({})).await["tasks"], json!([]));
    }
    let march = server.client_with("2025-03-26", json!({"elicitation": {}}), None).await;
    let answer = march.get("tools/call", json!({"name": "careful"})).await;
    assert_eq!(answer["isError"], true, "that revision has no such thing");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_asked_and_another_of_the_owner_is() {
    let server = Server::start().await;
    let (deaf, client) = (server.deaf_client().await, server.client().await);
    let id = deaf.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let waiting = deaf.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let task = client.until(&id, "input_required").await;
    assert_eq!(task["statusMessage"], "Who?");
    let seen = deaf.task(&id).await;
    assert_eq!(seen["status"], "working");
    assert!(seen["statusMessage"].as_str().unwrap().contains("A person can answer it"));
    let mut carrying = client.open("tasks/result", json!({ "taskId": id })).await;
    let question = carrying.message().await;
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
    job.succeed("hello");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_question_of_a_plain_call_is_asked_on_its_stream_and_can_be_answered_after_it() {
    let server = Server::unhurried().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    let question = call.message().await;
    let handle = call.end().await.unwrap()["structuredContent"].clone();
    assert_eq!(handle["status"], "input_required");
    client.start("work", json!({})).await;
    server.stage.job(2).await.ask("what", "What?", form());
    let other = listening.next("elicitation/create").await;
    assert_eq!(other["params"]["message"], "What?", "the first is not asked twice");
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
}

#[tokio::test]
async fn a_refusal_ends_the_task_where_its_tool_says_so() {
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
    for (n, action, status, words) in
        [(1, "decline", "failed", "was declined"), (2, "cancel", "cancelled", "was closed without an answer")]
    {
        let id = client.start("fails", json!({})).await;
        let job = server.stage.job(n).await;
        let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
        job.ask("who", "Who?", form());
        let question = waiting.message().await;
        assert_eq!(client.reply(&question, json!({ "action": action })).await, 202);
        let task = client.task(&id).await;
        assert_eq!(task["status"], status);
        assert_eq!(task["statusMessage"], format!("the question \"Who?\" {words}, so the job is stopped"));
        let result = waiting.end().await.unwrap();
        assert_eq!(result["isError"], true);
        assert!(result["content"].to_string().contains(words), "{result}");
        job.cancelled().await;
        assert_eq!(job.answers().len(), 0, "the job is stopped, and not told");
    }
}

#[tokio::test]
async fn what_a_form_was_left_without_is_filled_in() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
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
    assert_eq!(job.answered().await, Answer::Accept(content.as_object().unwrap().clone()));
}

#[tokio::test]
async fn a_secret_is_never_asked_for_in_a_form() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("login", "Log in", json!({"type": "object", "properties": {"apiKey": {"type": "string"}}}));
    let (messages, result) = waiting.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(result.unwrap()["isError"], true);
    let task = client.task(&id).await;
    assert_eq!(task["status"], "failed");
    let why = task["statusMessage"].as_str().unwrap();
    assert!(
        why.contains("its field `apiKey` asks for a secret") && why.contains("ask with a `url`"),
        "{why}"
    );
    job.cancelled().await;
}

/// A client that was restarted has a new session, and knows the task by its id.
#[tokio::test]
async fn polling_session_is_asked_while_listening() {
    let server = Server::start().await;
    let id = server.client().await.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let server = server.restart().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    job.ask("who", "Who?", form());
    client.until(&id, "input_required").await;
    let question = listening.message().await;
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (&json!("elicitation/create"), &json!("Who?"))
    );
    assert_eq!(client.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
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
    let job = server.stage.job(1).await;
    // One polls and cannot be asked, one can be asked and does not poll.
    let (deaf, idle) = (server.deaf_client().await, server.client().await);
    let (mut unable, mut unpolled) = (deaf.listen().await, idle.listen().await);
    let (one, two) = (server.client().await, server.client().await);
    let (mut first, mut second) = (one.listen().await, two.listen().await);
    job.ask("who", "Who?", form());
    one.until(&id, "input_required").await;
    two.until(&id, "input_required").await;
    assert_eq!(deaf.task(&id).await["status"], "working");
    let (question, asked, other, mut silent) = tokio::select! {
        question = first.message() => (question, first, &two, second),
        question = second.message() => (question, second, &one, first),
    };
    assert_eq!(question["method"], "elicitation/create");
    for (client, stream) in [(&deaf, &mut unable), (&idle, &mut unpolled), (other, &mut silent)] {
        let last = client.start("work", json!({"end": {"succeeded": {}}})).await;
        let told = stream.message().await;
        assert_eq!(told["method"], "notifications/tasks/status", "{told}");
        assert_eq!(told["params"]["taskId"], last.as_str());
    }
    // A message whose stream broke was perhaps never seen.
    drop(asked);
    let question = silent.next("elicitation/create").await;
    assert_eq!(other.reply(&question, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted("ana"));
}
