//! Tests for calls of clients without the extension: they wait within the call budget, and then answer with a
//! handle.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::ASK_TOOLS;
use super::bench::{Client, Exchange, all_capabilities, configured, server, text};
use crate::v2025::bench::{BUDGET, Server};

async fn use_tool(client: &Client, name: &str, arguments: Value) -> Value {
    client.call(name, arguments).await
}

/// Starts a server whose plain calls wait longer than any test runs.
async fn long_budget_server() -> Server {
    let long = [("call_budget = \"2s\"", "call_budget = \"60s\"")];
    configured(&long, &format!("[auth]\nsingle_user = true\n{ASK_TOOLS}")).await
}

fn params_with_token(tool: &str, token: Value) -> Value {
    json!({"name": tool, "_meta": {"progressToken": token}})
}

#[tokio::test]
async fn quick_job_returns_result() {
    let server = long_budget_server().await;
    let client = Client::plain(&server);
    let call = client.open("tools/call", json!({"name": "work"})).await;
    assert!(call.is_stream(), "what takes a while is a stream");
    server.engine.job(1).await.succeed("in time");
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
    let pending = use_tool(&client, "task_wait", json!({"task_id": id, "seconds": 0})).await;
    assert_eq!(pending["structuredContent"]["task_id"], id);
    let params = json!({
        "name": "task_wait", "arguments": {"task_id": id}, "_meta": {"progressToken": "w"}
    });
    let mut waiting = client.open("tools/call", params).await;
    assert_eq!(waiting.message().await["params"]["progressToken"], "w");
    server.engine.job(1).await.succeed("there");
    assert_eq!(text(&waiting.all().await.1.unwrap()), "there");
    assert_eq!(text(&use_tool(&client, "task_wait", json!({"task_id": id})).await), "there");
    let listed = use_tool(&client, "task_list", json!({})).await;
    assert!(text(&listed).contains(&id), "{listed}");
    assert_eq!(Client::new(&server).task(&id).await["status"], "completed", "it is a task like any other");
}

#[tokio::test]
async fn a_handle_can_be_cancelled() {
    let server = server("").await;
    let client = Client::plain(&server);
    let answer = client.call("work", json!({})).await;
    let id = answer["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    let cancelled = use_tool(&client, "task_cancel", json!({"task_id": id})).await;
    assert_eq!(cancelled["structuredContent"]["status"], "cancelled");
    server.engine.job(1).await.wait_for_cancel().await;
    assert_eq!(Client::new(&server).task(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn task_wait_asks_open_question() {
    let server = server("").await;
    let client = Client::plain(&server);
    let answer = client.call("work", json!({})).await;
    let id = answer["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    let job = server.engine.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let arguments = json!({"task_id": id});
    let question = use_tool(&client, "task_wait", arguments.clone()).await;
    assert_eq!(question["resultType"], "input_required", "{question}");
    let key = question["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({
        "name": "task_wait", "arguments": arguments, "requestState": question["requestState"],
        "inputResponses": { &key: {"action": "accept", "content": {}} }
    });
    let waiting = client.open("tools/call", params).await;
    job.wait_for_answer().await;
    job.succeed("sure");
    assert_eq!(text(&waiting.end().await.unwrap()), "sure");
}

#[tokio::test]
async fn call_progress_only_increases() {
    let server = long_budget_server().await;
    let client = Client::plain(&server);
    for (n, token) in [(1, json!("p-1")), (2, json!(7))] {
        let mut call = client.open("tools/call", params_with_token("work", token.clone())).await;
        let job = server.engine.job(n).await;
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
    let client = Client::new(&server);
    let created = client.get("tools/call", params_with_token("work", json!("p"))).await;
    assert_eq!(created["resultType"], "task");
    for wrong in [json!(1.5), json!({}), json!([])] {
        assert_eq!(client.expect_error("tools/call", params_with_token("work", wrong)).await.code, -32602);
    }
}

/// An equal call gets the result of the job. A tool can stop the job instead.
#[tokio::test]
async fn client_disconnect_keeps_job() {
    let server = server(ASK_TOOLS).await;
    let client = Client::plain(&server);
    let call = client.open("tools/call", json!({"name": "work", "arguments": {"a": 1}})).await;
    let job = server.engine.job(1).await;
    drop(call);
    // The first call counts as abandoned when its budget is over, at the latest.
    tokio::time::sleep(BUDGET).await;
    let second = client.open("tools/call", json!({"name": "work", "arguments": {"a": 1}})).await;
    assert_eq!(server.engine.starts(), 1);
    job.succeed("once");
    let answer = second.end().await.unwrap();
    assert!(text(&answer).contains("nothing was started a second time"), "{answer}");
    assert_eq!(answer["content"][1]["text"], "once");

    let call = client.open("tools/call", json!({"name": "abandoned"})).await;
    let job = server.engine.job(2).await;
    drop(call);
    job.wait_for_cancel().await;
}

#[tokio::test]
async fn shutdown_answers_plain_calls() {
    let server = long_budget_server().await;
    let client = Client::plain(&server);
    let mut call = client.open("tools/call", params_with_token("abandoned", json!(1))).await;
    call.message().await;
    let job = server.engine.job(1).await;
    server.stop();
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let answer = final_answer(call).await;
    assert_eq!(answer["structuredContent"]["status"], "working", "{answer}");
}

/// Returns the answer, and ignores the reports before it.
async fn final_answer(call: Exchange) -> Value {
    call.all().await.1.unwrap()
}

#[tokio::test]
async fn capabilities_do_not_change_calls() {
    let server = server("").await;
    for capabilities in [json!({}), all_capabilities(), json!({"experimental": {"x": {}}})] {
        let client = Client::with_capabilities(&server, capabilities);
        assert_eq!(client.call("work", json!({})).await["structuredContent"]["status"], "working");
    }
}
