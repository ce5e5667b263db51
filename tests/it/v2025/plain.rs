//! Tests for plain calls: they wait within the call budget, and then answer with a handle.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation, Output};

use super::TOOLS;
use super::bench::{BUDGET, Server, read};
use super::tools::{all_tools, find_tool};

fn plain(arguments: &Value) -> Value {
    json!({"name": "work", "arguments": arguments})
}

#[tokio::test]
async fn quick_job_returns_result() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = client.open("tools/call", plain(&json!({}))).await;
    server.engine.job(1).await.succeed("in time");
    let answer = call.end().await.unwrap();
    assert_eq!(answer["content"][0]["text"], "in time");
    let meta = json!({"io.taskbridge/untrusted": ["/content/0"]});
    assert_eq!(answer["_meta"], meta, "it belongs to no task that the client knows");
}

/// The handle fits the output schema, and the job continues.
#[tokio::test]
async fn slow_job_returns_handle() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let answer = client.get("tools/call", json!({"name": "typed"})).await;
    assert_eq!(answer["isError"], false);
    let handle = &answer["structuredContent"];
    assert_eq!(handle["status"], "working");
    assert_eq!(handle["poll_after_seconds"], 1);
    let id = handle["task_id"].as_str().unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(id) && text.contains("task_wait"), "{text}");
    let tools = all_tools(&client).await;
    let schema = &find_tool(&tools, "typed")["outputSchema"];
    assert!(jsonschema::is_valid(schema, handle), "clients hold it against {schema}");
    assert_eq!(client.task(id).await["status"], "working");
    assert_eq!(server.engine.starts(), 1);
}

/// Progress that the job reports does not wait for the interval, and comes before the answer.
#[tokio::test]
async fn job_progress_is_sent_at_once() {
    let slow = [
        ("progress_every = \"100ms\"", "progress_every = \"1h\""),
        ("call_budget = \"2s\"", "call_budget = \"1h\""),
    ];
    let server = Server::configured(&slow, "[auth]\nsingle_user = true").await;
    let client = server.client().await;
    let mut params = plain(&json!({}));
    params["_meta"] = json!({"progressToken": 7});
    let mut call = client.open("tools/call", params).await;
    let job = server.engine.job(1).await;
    for done in [0.0, 5.0] {
        job.progress(done, 10.0);
        assert_eq!(call.message().await["params"]["progress"], done);
    }
    let output = JobState::Succeeded(Output::text("done"));
    job.show(Observation::new(output).with_progress(10.0, Some(10.0)));
    let (rest, answer) = call.all().await;
    assert_eq!((rest.len(), &rest[0]["params"]["progress"]), (1, &json!(10.0)));
    assert_eq!(answer.unwrap()["content"][0]["text"], "done");
}

/// After the answer, only status notifications of the task follow.
#[tokio::test]
async fn progress_increases_until_answer() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let mut params = plain(&json!({}));
    params["_meta"] = json!({"progressToken": "p-1"});
    let mut call = client.open("tools/call", params).await;
    let job = server.engine.job(1).await;
    let mut reports = vec![call.message().await];
    job.progress(5.0, 10.0);
    reports.push(call.message().await);
    job.progress(2.0, 10.0);
    let (rest, answer) = call.all().await;
    reports.extend(rest);
    let id = answer.unwrap()["structuredContent"]["task_id"].as_str().unwrap().to_owned();
    assert!(reports.len() >= 3, "one every 100 ms in two seconds: {}", reports.len());
    assert!(reports.iter().all(|report| report["params"]["progressToken"] == "p-1"));
    let values: Vec<f64> = reports.iter().map(|r| r["params"]["progress"].as_f64().unwrap()).collect();
    assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    assert!(reports.iter().any(|report| report["params"]["total"] == 10.0));
    assert!(reports.iter().all(|report| report["params"].get("_meta").is_none()));
    job.show(Observation::new(JobState::Running).with_message("on its own").with_progress(9.0, Some(10.0)));
    let mut expect_task_status = async |what: &str, value: &str| loop {
        let message = listening.message().await;
        assert_eq!(message["method"], "notifications/tasks/status", "nothing under the token of the call");
        assert_eq!(message["params"]["taskId"], id);
        if message["params"][what] == value {
            break;
        }
    };
    expect_task_status("statusMessage", "on its own").await;
    job.succeed("done");
    expect_task_status("status", "completed").await;
}

#[tokio::test]
async fn no_token_means_no_progress() {
    let server = Server::start().await;
    let client = server.client().await;
    client.get("tools/call", plain(&json!({}))).await;
}

/// A call with equal arguments gets the task of a call whose client went away without an answer.
#[tokio::test]
async fn equal_call_adopts_abandoned_task() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = client.open("tools/call", plain(&json!({"a": 1, "b": 2}))).await;
    let job = server.engine.job(1).await;
    client.notify("notifications/cancelled", json!({"requestId": call.request["id"]})).await;
    drop(call);
    // The first call counts as abandoned when its budget is over, at the latest.
    tokio::time::sleep(BUDGET).await;
    let second = client.open("tools/call", plain(&json!({"b": 2, "a": 1}))).await;
    assert_eq!(server.engine.starts(), 1);
    job.succeed("once");
    let answer = second.end().await.unwrap();
    let texts: Vec<&str> =
        answer["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
    assert!(texts[0].contains("nothing was started a second time"), "{texts:?}");
    assert_eq!(texts[1], "once");
    let other = client.get("tools/call", plain(&json!({"a": 1, "b": 3}))).await;
    assert!(other["structuredContent"]["task_id"].is_string());
    assert_eq!(server.engine.starts(), 2, "other arguments are another call");
}

#[tokio::test]
async fn answered_call_is_not_adopted() {
    let server = Server::start().await;
    let client = server.client().await;
    client.get("tools/call", plain(&json!({}))).await;
    client.get("tools/call", plain(&json!({}))).await;
    assert_eq!(server.engine.starts(), 2);
}

#[tokio::test]
async fn abandoned_call_stops_job_if_configured() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let call = client.open("tools/call", json!({"name": "abandoned"})).await;
    let job = server.engine.job(1).await;
    drop(call);
    job.wait_for_cancel().await;

    let second_call = client.open("tools/call", json!({"name": "work"})).await;
    let second_job = server.engine.job(2).await;
    drop(second_call);
    second_job.succeed("done all the same");
    let listed = loop {
        let listed = client.get("tasks/list", json!({})).await["tasks"].clone();
        if listed[0]["status"] != "working" {
            break listed;
        }
    };
    assert_eq!((&listed[0]["status"], &listed[1]["status"]), (&json!("completed"), &json!("cancelled")));
}

#[tokio::test]
async fn broken_call_resumes_within_budget() {
    let server =
        Server::configured(&[("call_budget = \"2s\"", "call_budget = \"1h\"")], "[auth]\nsingle_user = true")
            .await;
    let client = server.client().await;
    let mut params = plain(&json!({}));
    params["_meta"] = json!({"progressToken": 1});
    let mut call = client.open("tools/call", params).await;
    call.message().await;
    let request = call.request.clone();
    let last = call.stream.as_ref().unwrap().last();
    drop(call);
    let mut stream = client.resume(&last).await;
    server.engine.job(1).await.succeed("still heard");
    let answer = loop {
        let message = stream.any().await.unwrap();
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!(read(&request, answer).unwrap()["content"][0]["text"], "still heard");
}

/// Covers tasks and plain calls, also after the end. The same key with other arguments is refused.
#[tokio::test]
async fn repeated_key_returns_same_task() {
    let server = Server::start().await;
    let client = server.client().await;
    let keyed = |arguments: Value, task: bool| {
        let mut params = plain(&arguments);
        params["_meta"] = json!({"io.taskbridge/idempotency-key": "k1"});
        if task {
            params["task"] = json!({});
        }
        params
    };
    let first = client.get("tools/call", keyed(json!({"a": 1}), true)).await;
    let id = first["task"]["taskId"].clone();
    let repeated = client.get("tools/call", keyed(json!({"a": 1}), true)).await;
    assert_eq!(repeated["task"]["taskId"], id);
    let handle = client.get("tools/call", keyed(json!({"a": 1}), false)).await;
    assert_eq!(handle["structuredContent"]["task_id"], id);
    let (code, message) = client.expect_error("tools/call", keyed(json!({"a": 2}), true)).await;
    assert_eq!(code, -32602);
    assert!(message.contains("k1"), "{message}");
    server.engine.job(1).await.succeed("once");
    client.wait_for_status(id.as_str().unwrap(), "completed").await;
    let ended = client.get("tools/call", keyed(json!({"a": 1}), true)).await;
    assert_eq!(ended["task"]["status"], "completed", "a final state is not taken back");
    let result = client.get("tools/call", keyed(json!({"a": 1}), false)).await;
    assert_eq!(result["content"][0]["text"], "once");
    assert_eq!(server.engine.starts(), 1);
}

/// Starts a server whose plain calls wait longer than any test runs.
async fn long_budget_server() -> Server {
    Server::configured(&[("call_budget = \"2s\"", "call_budget = \"60s\"")], TOOLS).await
}

/// Another call or task with the same key keeps the job running.
#[tokio::test]
async fn abandoned_call_leaves_shared_job() {
    for as_task in [false, true] {
        let server = long_budget_server().await;
        let client = server.client().await;
        let mut params =
            json!({"name": "abandoned", "_meta": {"io.taskbridge/idempotency-key": "k", "progressToken": 1}});
        let first = client.open("tools/call", params.clone()).await;
        let job = server.engine.job(1).await;
        let second = if as_task {
            params["task"] = json!({});
            Err(client.get("tools/call", params).await["task"]["taskId"].as_str().unwrap().to_owned())
        } else {
            let mut second = client.open("tools/call", params).await;
            second.message().await;
            Ok(second)
        };
        client.notify("notifications/cancelled", json!({"requestId": first.request["id"]})).await;
        drop(first);
        // The server records that the first call was abandoned before it has stopped.
        let id = match &second {
            Ok(_) => {
                client.get("tasks/list", json!({})).await["tasks"][0]["taskId"].as_str().unwrap().to_owned()
            }
            Err(id) => id.clone(),
        };
        drop(second);
        let server = server.restart().await;
        let client = client.at(&server);
        assert_eq!(client.task(&id).await["status"], "working");
        job.succeed("kept");
        client.wait_for_status(&id, "completed").await;
        assert_eq!(server.engine.starts(), 1);
    }
}

/// The job of an open call continues, and the call is answered after the restart.
#[tokio::test]
async fn shutdown_keeps_jobs_of_calls() {
    let server = long_budget_server().await;
    let client = server.client().await;
    let params = json!({"name": "abandoned", "_meta": {"progressToken": 1}});
    let mut call = client.open("tools/call", params).await;
    call.message().await;
    let job = server.engine.job(1).await;
    let server = server.restart().await;
    let client = client.at(&server);
    let listed = client.get("tasks/list", json!({})).await["tasks"].clone();
    assert_eq!(listed[0]["status"], "working");
    job.succeed("heard after the restart");
    let mut stream = client.resume(&call.stream.as_ref().unwrap().last()).await;
    let answer = read(&call.request, stream.any().await.unwrap()).unwrap();
    assert_eq!(answer["content"][0]["text"], "heard after the restart");
}

/// Progress on the new stream only increases.
#[tokio::test]
async fn resumed_stream_replaces_old_one() {
    let server = long_budget_server().await;
    let client = server.client().await;
    let mut params = json!({"name": "abandoned"});
    params["_meta"] = json!({"progressToken": 1});
    let mut call = client.open("tools/call", params).await;
    let job = server.engine.job(1).await;
    job.progress(5.0, 10.0);
    let progress = loop {
        let progress = call.message().await["params"]["progress"].as_f64().unwrap();
        if progress >= 5.0 {
            break progress;
        }
    };
    job.progress(1.0, 10.0);
    let mut old = call.stream.take().unwrap();
    let mut stream = client.resume(&old.last()).await;
    let mut newest = progress;
    while let Some(message) = old.any().await {
        newest = message["params"]["progress"].as_f64().expect("the answer goes to the newer stream");
    }
    for _ in 0..2 {
        let next = stream.message().await["params"]["progress"].as_f64().unwrap();
        assert!(next > newest, "{next} after {newest}");
        newest = next;
    }
    job.succeed("still wanted");
    let answer = loop {
        let message = stream.any().await.unwrap();
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!(read(&call.request, answer).unwrap()["content"][0]["text"], "still wanted");
}
