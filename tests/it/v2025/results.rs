//! Tests for the results of calls: the same for a plain call and for a task.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation, Output};

use super::TOOLS;
use super::bench::{Client, Failure, Server};

/// Returns the answer to a plain call, after a check that the same call as a task differs only in the
/// metadata.
async fn call_both_ways(client: &Client, tool: &str, arguments: Value) -> Result<Value, Failure> {
    // Messages come before the answer where the engine is away, or does not list a job at once.
    let call = client.open("tools/call", json!({"name": tool, "arguments": arguments})).await;
    let (_, plain) = call.all().await;
    let id = client.start(tool, arguments).await;
    let mut result = client.result(&id).await;
    if let Ok(result) = &mut result {
        let mut meta = result.as_object_mut().unwrap().remove("_meta").unwrap();
        let untrusted = meta.as_object_mut().unwrap().remove("io.taskbridge/untrusted");
        assert_eq!(untrusted.as_ref(), plain.as_ref().unwrap()["_meta"].get("io.taskbridge/untrusted"));
        assert_eq!(meta, json!({"io.modelcontextprotocol/related-task": {"taskId": id}}));
    }
    // The URIs of a task's log and files differ for each task.
    let without_links = |answer: &Result<Value, Failure>| match answer {
        Ok(result) => {
            let content = result["content"].as_array().unwrap();
            let blocks: Vec<&Value> =
                content.iter().filter(|block| block["type"] != "resource_link").collect();
            Ok((json!(blocks), result["structuredContent"].clone(), result["isError"].clone()))
        }
        Err(failure) => Err(failure.clone()),
    };
    assert_eq!(without_links(&plain), without_links(&result), "{tool}");
    plain
}

fn succeeded(output: Value) -> Value {
    json!({"end": {"succeeded": output}, "message": "all went well"})
}

#[tokio::test]
async fn job_content_is_unchanged() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let content = json!([
        {"type": "text", "text": "see:"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "hi"}},
        {"type": "resource_link", "uri": "https://example.org/x", "name": "x"}
    ]);
    let answer = call_both_ways(&client, "work", succeeded(json!({ "content": content }))).await.unwrap();
    let received = answer["content"].as_array().unwrap();
    assert_eq!(received[..5], content.as_array().unwrap()[..]);
    assert_eq!(received[5]["name"], "log");
    assert_eq!(answer["isError"], false);
    assert_eq!(answer.get("structuredContent"), None);
}

/// Other values are wrapped in an object. Text of the job replaces the generated text.
#[tokio::test]
async fn data_is_object_and_text() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let answer = call_both_ways(&client, "work", succeeded(json!({"structured": {"a": 1}}))).await.unwrap();
    assert_eq!(answer["structuredContent"], json!({"a": 1}));
    assert_eq!(answer["content"][0]["text"], "{\"a\":1}");
    let answer = call_both_ways(&client, "work", succeeded(json!({"structured": [1, 2]}))).await.unwrap();
    assert_eq!(answer["structuredContent"], json!({"result": [1, 2]}));
    let output = json!({"structured": {"a": 1}, "content": [{"type": "text", "text": "one"}]});
    let answer = call_both_ways(&client, "work", succeeded(output)).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "one", "the job's own text stands for the data");
    let answer = call_both_ways(&client, "work", succeeded(json!({}))).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "all went well", "an answer is never empty");
}

/// The status message has the reason.
#[tokio::test]
async fn failed_job_is_error_result() {
    let server = Server::with_long_budget_and(TOOLS).await;
    let client = server.client().await;
    let output =
        json!({"content": [{"type": "text", "text": "stderr: no space left"}], "structured": {"a": 1}});
    let failed = json!({"end": {"failed": output}, "message": "exit code 3"});
    let answer = call_both_ways(&client, "work", failed.clone()).await.unwrap();
    assert_eq!(answer["isError"], true);
    assert_eq!(answer["content"][0]["text"], "exit code 3");
    assert_eq!(answer["content"][1]["text"], "stderr: no space left");
    assert_eq!(answer["structuredContent"], json!({"a": 1}));
    let typed = call_both_ways(&client, "typed", failed.clone()).await.unwrap();
    assert_eq!(typed.get("structuredContent"), None, "it would not fit the schema, and hide the reason");
    let id = client.start("work", failed).await;
    assert_eq!(client.wait_for_status(&id, "failed").await["statusMessage"], "exit code 3");
}

/// A result that violates the output schema is an error result with the reason.
#[tokio::test]
async fn invalid_result_is_reported() {
    let server = Server::with_long_budget_and(TOOLS).await;
    let client = server.client().await;
    let answer =
        call_both_ways(&client, "typed", succeeded(json!({"structured": {"answer": 42}}))).await.unwrap();
    assert_eq!(answer["structuredContent"], json!({"answer": 42}));
    let answer =
        call_both_ways(&client, "typed", succeeded(json!({"structured": {"answer": "42"}}))).await.unwrap();
    assert_eq!((&answer["isError"], answer.get("structuredContent")), (&json!(true), None));
    let text = answer["content"].to_string();
    assert!(text.contains("answer") && text.contains("integer"), "{text}");
}

/// Applies to plain calls and to tasks.
#[tokio::test]
async fn lost_job_is_protocol_error() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let (code, message) = call_both_ways(&client, "work", json!({"end": "gone"})).await.unwrap_err();
    assert_eq!(code, -32603);
    assert!(message.contains("no longer knows the job"), "{message}");
    let id = client.start("work", json!({"end": "gone"})).await;
    let task = client.wait_for_status(&id, "failed").await;
    assert_eq!(task["statusMessage"], message);
}

#[tokio::test]
async fn refused_job_is_error_result() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let answer = call_both_ways(&client, "work", json!({"end": "no such state"})).await.unwrap();
    assert_eq!(answer["isError"], true);
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("unknown variant"));
}

#[tokio::test]
async fn engine_cancellation_is_error_result() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let output = json!({"content": [{"type": "text", "text": "stopped at 7"}]});
    let cancelled = json!({"end": {"cancelled": output}, "message": "cancelled by ana"});
    let answer = call_both_ways(&client, "work", cancelled).await.unwrap();
    assert_eq!(answer["isError"], true);
    assert_eq!(answer["content"][0]["text"], "Cancelled by ana. Its job is no longer running.");
    assert_eq!(answer["content"][1]["text"], "stopped at 7");
}

#[tokio::test]
async fn artifacts_and_the_log_are_links() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let output = json!({"artifacts": [{"name": "out/a b.txt", "mime_type": "text/plain", "size": 5}]});
    let id = client.start("work", succeeded(output)).await;
    let result = client.result(&id).await.unwrap();
    let links = &result["content"].as_array().unwrap()[1..];
    assert_eq!(links[0]["uri"], format!("taskbridge://tasks/{id}/artifacts/out/a%20b.txt"));
    assert_eq!((&links[0]["name"], &links[0]["size"]), (&json!("out/a b.txt"), &json!(5)));
    assert_eq!(links[1]["uri"], format!("taskbridge://tasks/{id}/log"));
    assert_eq!(links.len(), 2);
}

#[tokio::test]
async fn oldest_revision_gets_text_only() {
    let server = Server::with_long_budget().await;
    let client = server.client_with("2025-03-26", json!({}), None).await;
    let arguments = succeeded(json!({"structured": {"a": 1}}));
    let answer = client.get("tools/call", json!({"name": "work", "arguments": arguments})).await;
    assert_eq!(answer.get("structuredContent"), None);
    let content = answer["content"].as_array().unwrap();
    assert!(content.iter().all(|block| block["type"] == "text"));
    assert!(content[1]["text"].as_str().unwrap().starts_with("log: taskbridge://"));
}

/// Applies to plain calls and to tasks.
#[tokio::test]
async fn each_call_runs_one_job() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    call_both_ways(&client, "work", succeeded(json!({}))).await.unwrap();
    assert_eq!(server.engine.starts(), 2);
    let id = client.start("work", json!({})).await;
    server.engine.job(3).await.show(Observation::new(JobState::Succeeded(Output::text("x"))));
    assert_eq!(client.result(&id).await.unwrap()["content"][0]["text"], "x");
    assert_eq!(server.engine.starts(), 3);
}
