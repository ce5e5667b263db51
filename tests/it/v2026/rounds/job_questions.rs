//! Questions of a job in a call that is not a task, and requests that never return questions.

use serde_json::json;
use taskbridge_sdk::{Answer, Question};

use super::super::ASK_TOOLS;
use super::super::bench::{Client, all_capabilities, configured, server, text};
use super::{accept, continue_call, keys, questions_and_state, retry_params};
use crate::v2025::bench::Server;

/// Starts a server whose plain calls wait longer than any test runs.
async fn long_budget_server() -> Server {
    let long = [("call_budget = \"2s\"", "call_budget = \"60s\"")];
    configured(&long, &format!("[auth]\nsingle_user = true\n{ASK_TOOLS}")).await
}

/// The next round continues the call, and the result can be read again.
#[tokio::test]
async fn plain_call_returns_job_question() {
    let server = long_budget_server().await;
    let client = Client::plain(&server);
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", name.clone());
    let (requests, state) = questions_and_state(&call.end().await.unwrap());
    let key = keys(&requests)[0].to_owned();
    assert_eq!(requests[&key]["params"]["message"], "Who?");
    // Without an answer the call asks again; an invalid answer is refused.
    let (same, state) =
        questions_and_state(&continue_call(&client, "work", json!({}), &state).await.unwrap());
    assert_eq!(same, requests);
    let refused = continue_call(&client, "work", json!({ &key: accept(json!({"name": 5})) }), &state).await;
    assert_eq!(refused.unwrap_err().code, -32602);
    let params = retry_params("work", &json!({}), &json!({ &key: accept(json!({"name": "ana"})) }), &state);
    let call = client.open("tools/call", params.clone()).await;
    assert!(matches!(job.wait_for_answer().await, Answer::Accept(content) if content["name"] == "ana"));
    job.set_questions(vec![Question::form("next", "And then?", name)]);
    let (requests, next_state) = questions_and_state(&call.end().await.unwrap());
    let second = keys(&requests)[0].to_owned();
    assert_ne!(second, key);
    let call = client.open(
        "tools/call",
        retry_params("work", &json!({}), &json!({ &second: {"action": "decline"} }), &next_state),
    );
    let call = call.await;
    while job.answers().len() < 2 {
        tokio::task::yield_now().await;
    }
    job.succeed("hello ana");
    assert_eq!(text(&call.end().await.unwrap()), "hello ana");
    for state in [&state, &next_state] {
        let params = retry_params("work", &json!({}), &json!({}), state);
        assert_eq!(text(&client.get("tools/call", params).await), "hello ana", "it can be had again");
    }
    assert_eq!(server.engine.starts(), 1);
}

/// The call returns a handle instead.
#[tokio::test]
async fn unsupported_question_is_left_out() {
    let server = server("").await;
    let client = Client::with_capabilities(&server, json!({"roots": {}}));
    let call = client.open("tools/call", json!({"name": "work"})).await;
    server.engine.job(1).await.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let answer = call.end().await.unwrap();
    assert_eq!(answer["resultType"], "complete");
    assert_eq!(answer["structuredContent"]["status"], "working");
    let id = answer["structuredContent"]["task_id"].as_str().unwrap();
    Client::new(&server).wait_for_status(id, "input_required").await;
    let waited = client.call("task_wait", json!({"task_id": id})).await;
    assert_eq!(waited["resultType"], "complete");
    assert!(text(&waited).contains("waiting for an answer to \"Who?\""), "{waited}");
}

#[tokio::test]
async fn only_calls_return_questions() {
    let server = server("").await;
    let client = Client::with_capabilities(&server, all_capabilities()).with_tasks();
    let id = client.start("work", json!({})).await;
    server.engine.job(1).await.ask("who", "Who?", json!({"type": "object", "properties": {}}));
    let task = client.wait_for_status(&id, "input_required").await;
    assert_eq!(task["resultType"], "complete");
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": format!("taskbridge://tasks/{id}/log")})),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ("tasks/cancel", json!({ "taskId": id })),
    ] {
        assert_eq!(client.get(method, params).await["resultType"], "complete", "{method}");
    }
}
