//! Tests for calls of clients without the extension: they wait within the call budget, and then answer with a
//! handle.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::ASKING;
use super::bench::{Client, Exchange, able, changed, server, text};
use crate::v2025::bench::{BUDGET, Server};

async fn use_tool(client: &Client, name: &str, arguments: Value) -> Value {
    client.call(name, arguments).await
}

/// Starts a server whose plain calls wait longer than any test runs.
async fn patient() -> Server {
    let long = [("call_budget = \"400ms\"", "call_budget = \"60s\"")];
    changed(&long, &format!("[auth]\nsingle_user = true\n{ASKING}")).await
}

fn reporting(tool: &str, token: Value) -> Value {
    json!({"name": tool, "_meta": {"progressToken": token}})
}

#[tokio::test]
async fn quick_job_returns_result() {
    let server = patient().await;
    let client = Client::plain(&server);
    let call = client.open("tools/call", json!({"name": "work"})).await;
    assert!(call.is_stream(), "what takes a while is a stream");
    server.stage.job(1).await.succeed("in time");
    assert_eq!(text(&call.end().await.unwrap()), "in time");
}

/// The companion tools continue from the handle, and its task is like any other.
#[tokio::test]
async fn slow_job_returns_handle() {
    let server = server("").await;
    let client = Client::plain(&server);
    let answer = client.call("work", json!({})).await;
    assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(false)));
    let id = answer["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    assert_eq!(answer["structuredContent"]["status"], "working");
    assert!(text(&answer).contains(&id) && text(&answer).contains("task_wait"), "{answer}");
    let still = use_tool(&client, "task_wait", json!({"task_id": id, "seconds": 0})).await;
    assert_eq!(still["structuredContent"]["task_id"], id);
    let params = json!({
        "name": "task_wait", "arguments": {"task_id": id}, "_meta": {"progressToken": "w"}
    });
    let mut waiting = client.open("tools/call", params).await;
    assert_eq!(waiting.message().await["params"]["progressToken"], "w");
    server.stage.job(1).await.succeed("there");
    assert_eq!(text(&waiting.all().await.1.unwrap()), "there");
    assert_eq!(text(&use_tool(&client, "task_wait", json!({"task_id": id})).await), "there");
    let listed = use_tool(&client, "task_list", json!({})).await;
    assert!(text(&listed).contains(&id), "{listed}");
    assert_eq!(Client::of(&server).task(&id).await["status"], "completed", "it is a task like any other");
}

#[tokio::test]
async fn a_handle_can_be_cancelled() {
    let server = server("").await;
    let client = Client::plain(&server);
    let answer = client.call("work", json!({})).await;
    let id = answer["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    let cancelled = use_tool(&client, "task_cancel", json!({"task_id": id})).await;
    assert_eq!(cancelled["structuredContent"]["status"], "cancelled");
    server.stage.job(1).await.cancelled().await;
    assert_eq!(Client::of(&server).task(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn task_wait_asks_open_question() {
    let server = server("").await;
    let client = Client::plain(&server);
    let answer = client.call("work", json!({})).await;
    let id = answer["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    let job = server.stage.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let arguments = json!({"task_id": id});
    let asked = use_tool(&client, "task_wait", arguments.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({
        "name": "task_wait", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": { &key: {"action": "accept", "content": {}} }
    });
    let waiting = client.open("tools/call", params).await;
    job.answered().await;
    job.succeed("sure");
    assert_eq!(text(&waiting.end().await.unwrap()), "sure");
}

#[tokio::test]
async fn call_progress_only_increases() {
    let server = patient().await;
    let client = Client::plain(&server);
    for (n, token) in [(1, json!("p-1")), (2, json!(7))] {
        let mut call = client.open("tools/call", reporting("work", token.clone())).await;
        let job = server.stage.job(n).await;
        let mut reports = vec![call.message().await];
        job.progress(5.0, 10.0);
        reports.push(call.message().await);
        job.progress(2.0, 10.0);
        reports.push(call.message().await);
        job.succeed("done");
        let (rest, answer) = call.all().await;
        reports.extend(rest);
        assert_eq!(text(&answer.unwrap()), "done");
        assert!(reports.iter().all(|report| report["method"] == "notifications/progress"));
        assert!(reports.iter().all(|report| report["params"]["progressToken"] == token));
        assert!(reports.iter().all(|report| report["params"].get("_meta").is_none()));
        let values: Vec<f64> = reports.iter().map(|r| r["params"]["progress"].as_f64().unwrap()).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        assert!(reports.iter().any(|report| report["params"]["total"] == 10.0));
    }
}

/// Neither a call without a token nor a task reports progress.
#[tokio::test]
async fn progress_requires_token_and_call() {
    let server = server("").await;
    // `Client::call` checks that nothing comes before the answer.
    Client::plain(&server).call("work", json!({})).await;
    let client = Client::of(&server);
    let created = client.get("tools/call", reporting("work", json!("p"))).await;
    assert_eq!(created["resultType"], "task");
    for wrong in [json!(1.5), json!({}), json!([])] {
        assert_eq!(client.refused("tools/call", reporting("work", wrong)).await.code, -32602);
    }
}

/// An equal call gets the result of the job. A tool can stop the job instead.
#[tokio::test]
async fn client_disconnect_keeps_job() {
    let server = server(ASKING).await;
    let client = Client::plain(&server);
    let call = client.open("tools/call", json!({"name": "work", "arguments": {"a": 1}})).await;
    let job = server.stage.job(1).await;
    drop(call);
    // The first call counts as abandoned when its budget is over, at the latest.
    tokio::time::sleep(BUDGET).await;
    let again = client.open("tools/call", json!({"name": "work", "arguments": {"a": 1}})).await;
    assert_eq!(server.stage.starts(), 1);
    job.succeed("once");
    let answer = again.end().await.unwrap();
    assert!(text(&answer).contains("nothing was started a second time"), "{answer}");
    assert_eq!(answer["content"][1]["text"], "once");

    let call = client.open("tools/call", json!({"name": "abandoned"})).await;
    let job = server.stage.job(2).await;
    drop(call);
    job.cancelled().await;
}

#[tokio::test]
async fn shutdown_answers_plain_calls() {
    let server = patient().await;
    let client = Client::plain(&server);
    let mut call = client.open("tools/call", reporting("abandoned", json!(1))).await;
    call.message().await;
    let job = server.stage.job(1).await;
    server.stop();
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let answer = ended(call).await;
    assert_eq!(answer["structuredContent"]["status"], "working", "{answer}");
}

/// Returns the answer, and ignores the reports before it.
async fn ended(call: Exchange) -> Value {
    call.all().await.1.unwrap()
}

#[tokio::test]
async fn capabilities_do_not_change_calls() {
    let server = server("").await;
    for able in [json!({}), able(), json!({"experimental": {"x": {}}})] {
        let client = Client::able(&server, able);
        assert_eq!(client.call("work", json!({})).await["structuredContent"]["status"], "working");
    }
}
