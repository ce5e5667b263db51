//! Tests for tasks: how they begin, are polled, listed, waited for and cancelled.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::TOOLS;
use super::bench::{Server, read};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn ended_job_arguments() -> Value {
    json!({"end": {"succeeded": {"content": [{"type": "text", "text": "done"}]}}})
}

/// Returns a time of the wire format in milliseconds since the epoch.
fn millis(time: &Value) -> i64 {
    time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// It is answered at once, also if the job has already ended, and the task can be read at once.
#[tokio::test]
async fn task_call_returns_working_task() {
    let server = Server::start().await;
    let client = server.client().await;
    for arguments in [json!({}), ended_job_arguments()] {
        let params = json!({"name": "work", "arguments": arguments, "task": {}, "taskId": "mine"});
        let created = client.get("tools/call", params).await;
        let task = &created["task"];
        assert_eq!(task["status"], "working");
        let id = task["taskId"].as_str().unwrap();
        assert!(id.len() >= 26, "128 bits at least: {id}");
        assert!(task["createdAt"].as_str().unwrap().ends_with('Z'));
        assert_eq!(task["createdAt"], task["lastUpdatedAt"]);
        assert!(task["pollInterval"].as_u64().unwrap() > 0);
        assert_eq!(created["_meta"][RELATED], json!({ "taskId": id }));
        let line = &created["_meta"]["io.modelcontextprotocol/model-immediate-response"];
        assert!(line.as_str().unwrap().contains(id));
        let early = &created["_meta"]["modelcontextprotocol.io/task"];
        assert_eq!(early, &json!({"taskId": id, "status": "working"}), "for clients from before the release");
        assert_eq!(
            created["content"],
            json!([]),
            "they read the answer as a tool result, which must have it"
        );
        assert_eq!(created.get("structuredContent"), None, "the result is not in it");
        assert_eq!(client.task(id).await["taskId"], id, "it can be found at once");
    }
}

#[tokio::test]
async fn task_ids_are_never_the_same() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..20 {
        assert!(ids.insert(client.start("work", ended_job_arguments()).await));
    }
}

#[tokio::test]
async fn ttl_is_bounded_and_expires_task() {
    let server = Server::with(
        r#"
        [auth]
        single_user = true
        [lifetime]
        default_ttl = "1h"
        min_ttl = "1s"
        max_ttl = "2h"
        keep_result = "1s"
        [tools.short]
        backend = "stage"
        target = {}
        max_runtime = "10m"
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = server.client().await;
    let ttl = async |ttl: Value| {
        let params = json!({"name": "short", "arguments": ended_job_arguments(), "task": {"ttl": ttl}});
        let created = client.get("tools/call", params).await;
        let id = created["task"]["taskId"].as_str().unwrap();
        let task = client.wait_for_status(id, "completed").await;
        task["ttl"].as_u64().unwrap()
    };
    assert_eq!(ttl(Value::Null).await, 3_600_000);
    assert_eq!(ttl(json!(60_000)).await, 60_000);
    assert_eq!(ttl(json!(60_000.0)).await, 60_000);
    assert_eq!(ttl(json!(999_999_999_999_u64)).await, 7_200_000);
    let running = client.start("short", json!({})).await;
    let task = client.task(&running).await;
    assert_eq!(task["ttl"], 3_600_000);

    let params = json!({"name": "short", "arguments": ended_job_arguments(), "task": {"ttl": 1}});
    let id = client.get("tools/call", params).await["task"]["taskId"].as_str().unwrap().to_owned();
    let kept_ttl = client.wait_for_status(&id, "completed").await["ttl"].as_u64().unwrap();
    assert!((1000..3000).contains(&kept_ttl), "the result is kept for keep_result at least: {kept_ttl}");
    tokio::time::sleep(Duration::from_millis(kept_ttl)).await;
    let expired = client.expect_error("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(expired, client.expect_error("tasks/get", json!({"taskId": "never-was"})).await);
    assert_eq!(client.expect_error("tasks/result", json!({ "taskId": id })).await, expired);
    let listed = client.get("tasks/list", json!({})).await["tasks"].to_string();
    assert!(!listed.contains(&id), "what cannot be got is not listed");
}

#[tokio::test]
async fn created_task_has_requested_ttl() {
    let server = Server::with(
        r#"
        [auth]
        single_user = true
        [lifetime]
        keep_result = "1m"
        [tools.short]
        backend = "stage"
        target = {}
        max_runtime = "10m"
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = server.client().await;
    let params = json!({"name": "short", "task": {"ttl": 60_000}});
    let created = client.get("tools/call", params).await;
    assert_eq!(created["task"]["ttl"], 60_000, "as requested");
}

/// The expiry moves while the job runs, and the last announced expiry applies after the end.
#[tokio::test]
async fn running_task_extends_its_ttl() {
    let server = Server::with(
        r#"
        [auth]
        single_user = true
        [lifetime]
        min_ttl = "1s"
        keep_result = "1s"
        [tools.short]
        backend = "stage"
        target = {}
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = server.client().await;
    let params = json!({"name": "short", "task": {"ttl": 1000}});
    let created = client.get("tools/call", params).await["task"].clone();
    assert_eq!(created["ttl"], 1000);
    let id = created["taskId"].as_str().unwrap();
    let (started, mut last) = (Instant::now(), 1000);
    while started.elapsed() < Duration::from_millis(2500) {
        let ttl = client.task(id).await["ttl"].as_u64().unwrap();
        let age = u64::try_from(started.elapsed().as_millis()).unwrap();
        assert!(ttl >= last && ttl > age.saturating_sub(100), "{ttl} at {age} after {last}");
        last = ttl;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(last > 2500 && last < 10_000, "{last}");
    server.engine.job(1).await.succeed("done");
    let final_ttl = client.wait_for_status(id, "completed").await["ttl"].as_u64().unwrap();
    assert!(final_ttl >= last, "{final_ttl} after {last}");
    assert_eq!(client.task(id).await["ttl"], final_ttl, "it stands from the end on");
}

#[tokio::test]
async fn poll_returns_latest_status() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let first = client.task(&id).await;
    assert_eq!(first["status"], "working");
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let mut stream = client.listen().await;
    job.show(Observation::new(JobState::Running).with_message("nearly there"));
    while stream.next("notifications/tasks/status").await["params"]["statusMessage"] != "nearly there" {}
    let later = client.task(&id).await;
    assert_eq!(later["statusMessage"], "nearly there");
    assert!(millis(&later["lastUpdatedAt"]) > millis(&first["lastUpdatedAt"]));
    assert_eq!(later["createdAt"], first["createdAt"]);
    job.succeed("done");
    let last = client.wait_for_status(&id, "completed").await;
    assert_eq!(last.get("_meta"), None, "the task is named in the answer itself");
}

#[tokio::test]
async fn task_id_parameter_overrides_metadata() {
    let server = Server::start().await;
    let client = server.client().await;
    let (one, two) =
        (client.start("work", ended_job_arguments()).await, client.start("work", json!({})).await);
    client.wait_for_status(&one, "completed").await;
    let meta = json!({RELATED: {"taskId": two}, "progressToken": 1});
    let params = json!({"taskId": one, "_meta": meta, "task": {"ttl": 5}});
    assert_eq!(client.get("tasks/get", params.clone()).await["taskId"], *one);
    let result = client.get("tasks/result", params.clone()).await;
    assert_eq!(result["_meta"][RELATED], json!({"taskId": one}));
    let (_, message) = client.expect_error("tasks/cancel", params).await;
    assert_eq!(message, "Cannot cancel task: already in terminal status 'completed'");
}

/// Other requests are answered while it waits.
#[tokio::test]
async fn result_waits_and_can_be_repeated() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    assert!(waiting.stream.is_some(), "it waits on a stream");
    assert_eq!(client.task(&id).await["status"], "working", "polling goes on beside it");
    assert_eq!(client.get("ping", json!({})).await, json!({}));
    server.engine.job(1).await.succeed("done");
    let result = waiting.end().await.unwrap();
    assert_eq!(result["content"][0], json!({"type": "text", "text": "done"}));
    assert_eq!(result["isError"], false);
    assert_eq!(result["_meta"], json!({RELATED: {"taskId": id}, "io.taskbridge/untrusted": ["/content/0"]}));
    assert_eq!(client.result(&id).await.unwrap(), result);
}

/// The open question is asked again on the resumed stream.
#[tokio::test]
async fn broken_wait_resumes_after_restart() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let request = waiting.request.clone();
    let job = server.engine.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    waiting.message().await;
    let last = waiting.stream.as_ref().unwrap().last();
    drop(waiting);
    let server = server.restart().await;
    let client = client.at(&server);
    let mut stream = client.resume(&last).await;
    let repeated = stream.message().await;
    assert_eq!(repeated["method"], "elicitation/create", "the question is still open");
    job.succeed("after all");
    let withdrawn = stream.message().await;
    assert_eq!(withdrawn["params"]["requestId"], repeated["id"]);
    let answer = stream.any().await.unwrap();
    let result = read(&request, answer).unwrap();
    assert_eq!(result["content"][0]["text"], "after all");
    assert_eq!(stream.any().await, None);
}

#[tokio::test]
async fn cancelled_wait_leaves_task_running() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let mut waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    client.notify("notifications/cancelled", json!({"requestId": waiting.request["id"]})).await;
    assert_eq!(waiting.stream.as_mut().unwrap().any().await, None);
    assert_eq!(client.task(&id).await["status"], "working");
}

/// The task is cancelled at once. Its status message then reports that the engine cannot stop the job.
#[tokio::test]
async fn cancelled_task_reports_unstoppable_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({"unstoppable": true})).await;
    server.engine.job(1).await;
    assert_eq!(client.get("tasks/cancel", json!({ "taskId": id })).await["status"], "cancelled");
    let message = "cancelled by request; the engine cannot stop this job, so it runs to its end";
    assert_eq!(client.wait_for_message(&id, message).await["status"], "cancelled");
}

/// A result that the job reports later has no effect.
#[tokio::test]
async fn cancel_ends_task_and_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let waiting = client.open("tasks/result", json!({ "taskId": id })).await;
    let task = client.get("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!("cancelled")));
    assert_eq!(task.get("_meta"), None);
    let result = waiting.end().await.unwrap();
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Cancelled by request."), "{text}");
    job.wait_for_cancel().await;
    job.succeed("too late");
    let (code, message) = client.expect_error("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(
        (code, message.as_str()),
        (-32602, "Cannot cancel task: already in terminal status 'cancelled'")
    );
    assert_eq!(client.task(&id).await["status"], "cancelled");
    assert_eq!(client.result(&id).await.unwrap()["isError"], true, "what the job did later changes nothing");
}

#[tokio::test]
async fn ended_task_cannot_be_cancelled() {
    let server = Server::start().await;
    let client = server.client().await;
    let failed = json!({"end": {"failed": {}}, "message": "boom"});
    for (arguments, status) in [(ended_job_arguments(), "completed"), (failed, "failed")] {
        let id = client.start("work", arguments).await;
        client.wait_for_status(&id, status).await;
        let (code, message) = client.expect_error("tasks/cancel", json!({ "taskId": id })).await;
        assert_eq!(code, -32602);
        assert_eq!(message, format!("Cannot cancel task: already in terminal status '{status}'"));
    }
}

/// Pages stay consistent while tasks are added.
#[tokio::test]
async fn task_list_is_stable_newest_first() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let mut started = Vec::new();
    for n in 0..7 {
        if n % 2 == 0 {
            started.push(client.start("work", json!({})).await);
        } else {
            let answer = client.get("tools/call", json!({"name": "work", "arguments": {"n": n}})).await;
            started.push(answer["structuredContent"]["task_id"].as_str().unwrap().to_owned());
        }
    }
    started.reverse();
    let other = server.client().await;
    let (mut listed, mut cursor, mut sizes) = (Vec::new(), Value::Null, Vec::new());
    loop {
        let page = other.get("tasks/list", json!({ "cursor": cursor })).await;
        let tasks = page["tasks"].as_array().unwrap().clone();
        sizes.push(tasks.len());
        for task in &tasks {
            let (mut listed, mut alone) = (task.clone(), other.task(task["taskId"].as_str().unwrap()).await);
            // It grows with the age of a task.
            listed["pollInterval"] = Value::Null;
            alone["pollInterval"] = Value::Null;
            assert_eq!(listed, alone);
            assert_eq!(task.get("_meta"), None);
        }
        listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        client.start("work", ended_job_arguments()).await;
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(listed, started);
    assert_eq!(sizes, [3, 3, 1]);
}

/// Every method gives the same error for an unknown id, and for an id of a wrong type.
#[tokio::test]
async fn bad_task_id_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let unknown = client.expect_error(method, json!({"taskId": "never-was"})).await;
        assert_eq!(unknown, (-32602, "Failed to retrieve task: Task not found".to_owned()));
        for (params, expected) in [
            (json!({}), "`taskId` is missing"),
            (json!({"taskId": 5}), "`taskId` is 5"),
            (json!({"taskId": null}), "`taskId` is null"),
        ] {
            let (code, message) = client.expect_error(method, params).await;
            assert_eq!(code, -32602);
            assert!(message.starts_with(expected), "{message}");
        }
    }
}

#[tokio::test]
async fn tasks_survive_restart() {
    let server = Server::start().await;
    let client = server.client().await;
    let (done, open) =
        (client.start("work", ended_job_arguments()).await, client.start("work", json!({})).await);
    client.wait_for_status(&done, "completed").await;
    server.engine.job(2).await;
    let server = server.restart().await;
    let client = client.at(&server);
    assert_eq!(client.result(&done).await.unwrap()["content"][0]["text"], "done");
    assert_eq!(client.task(&open).await["status"], "working");
    server.engine.job(2).await.succeed("later");
    assert_eq!(client.result(&open).await.unwrap()["content"][0]["text"], "later");
    assert_eq!(server.engine.starts(), 2);
}
