//! Tests for tasks: how they are polled, end, are cancelled and expire.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation, Output};

use super::bench::{Client, TASKS, all_capabilities, assert_acknowledged, configured, id_of, server, text};

/// Returns a time of the wire format in milliseconds since the epoch.
fn millis(time: &Value) -> i64 {
    time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

#[tokio::test]
async fn poll_returns_status_then_result() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let first = client.task(&id).await;
    assert_eq!((&first["status"], &first["resultType"]), (&json!("working"), &json!("complete")));
    for field in ["result", "error", "inputRequests", "requestState"] {
        assert_eq!(first.get(field), None, "{first}");
    }
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("half way"));
    let later = client.poll(&id, |task| task["statusMessage"] == "half way").await;
    assert!(millis(&later["lastUpdatedAt"]) >= millis(&first["lastUpdatedAt"]));
    assert_eq!(later["createdAt"], first["createdAt"]);
    let mut output = Output::text("done");
    output.structured = Some(json!({"n": 1}));
    job.show(Observation::new(JobState::Succeeded(output)));
    let last = client.wait_for_status(&id, "completed").await;
    assert_eq!(last["resultType"], "complete");
    let result = &last["result"];
    assert_eq!((&result["resultType"], &result["isError"]), (&json!("complete"), &json!(false)));
    assert_eq!((text(result), &result["structuredContent"]), ("done", &json!({"n": 1})));
    assert_eq!(client.task(&id).await, last, "it stays");
}

#[tokio::test]
async fn failed_job_completes_with_error_result() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let mut observation = Observation::new(JobState::Failed(Output::text("the disk is full")));
    observation.message = Some("boom".to_owned());
    server.engine.job(1).await.show(observation);
    let task = client.wait_for_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert!(task["result"]["content"].to_string().contains("the disk is full"), "{task}");
    assert_eq!(task.get("error"), None);
}

/// Covers a job that exceeds its maximum runtime, and one that the engine no longer has.
#[tokio::test]
async fn lost_job_fails_with_error() {
    let server = server(
        r#"
        [tools.short]
        backend = "stage"
        target = {}
        max_runtime = "300ms"
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = Client::new(&server);
    let id = client.start("short", json!({})).await;
    let task = client.wait_for_status(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32603);
    let (reason, message) = (&task["error"]["message"], &task["statusMessage"]);
    assert!(reason.as_str().is_some_and(|reason| reason.contains("max_runtime (300ms)")), "{task}");
    assert!(message.as_str().is_some_and(|message| !message.is_empty()), "{task}");
    assert_eq!(task.get("result"), None);
    let lost = client.start("work", json!({})).await;
    server.engine.job(2).await.show(Observation::new(JobState::Gone));
    assert_eq!(client.wait_for_status(&lost, "failed").await["error"]["code"], -32603);
}

/// The cancellation is acknowledged at once, and the task is cancelled when the job is.
#[tokio::test]
async fn cancel_waits_for_job() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let params = json!({ "taskId": id });
    assert_acknowledged(&client.get("tasks/cancel", params.clone()).await);
    job.wait_for_cancel().await;
    assert_eq!(client.task(&id).await["status"], "working", "the job has not ended yet");
    assert_acknowledged(&client.get("tasks/cancel", params.clone()).await);
    job.show(Observation::new(JobState::Cancelled(Output::default())));
    let task = client.wait_for_status(&id, "cancelled").await;
    for field in ["result", "error"] {
        assert_eq!(task.get(field), None, "{task}");
    }
    for _ in 0..2 {
        assert_acknowledged(&client.get("tasks/cancel", params.clone()).await);
    }
    let done = client.call("work", json!({"n": 2})).await;
    let done = id_of(&done);
    server.engine.job(2).await.succeed("done");
    client.wait_for_status(&done, "completed").await;
    assert_acknowledged(&client.get("tasks/cancel", json!({ "taskId": done })).await);
    assert_eq!(client.task(&done).await["status"], "completed", "what has ended stays as it is");
}

/// The client reads that the engine cannot stop the job, and gets the result.
#[tokio::test]
async fn unstoppable_job_continues() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({"unstoppable": true})).await;
    let job = server.engine.job(1).await;
    assert_acknowledged(&client.get("tasks/cancel", json!({ "taskId": id })).await);
    let is_reported = |task: &Value| {
        task["statusMessage"].as_str().is_some_and(|message| message.contains("cannot stop this job"))
    };
    let task = client.poll(&id, is_reported).await;
    assert_eq!(task["status"], "working");
    job.succeed("finished all the same");
    let task = client.wait_for_status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "finished all the same");
}

#[tokio::test]
async fn ended_job_ignores_cancellation() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    job.wait_for_cancel().await;
    job.succeed("finished all the same");
    let task = client.wait_for_status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "finished all the same");
}

/// Every method gives the same error for an unknown id, and for an id of a wrong type.
#[tokio::test]
async fn bad_task_id_is_refused() {
    let server = server("").await;
    let client = Client::new(&server);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = |id: Value| json!({"taskId": id, "inputResponses": {}});
        let unknown = client.expect_error(method, params(json!("never-was"))).await;
        assert_eq!(unknown.code, -32602);
        assert_eq!(unknown.message, "Failed to retrieve task: Task not found");
        for (id, expected) in
            [(json!(5), "`taskId` is 5"), (json!(null), "`taskId` is null"), (json!({}), "`taskId` is")]
        {
            let wrong = client.expect_error(method, params(id)).await;
            assert_eq!(wrong.code, -32602);
            assert!(wrong.message.starts_with(expected), "{wrong:?}");
        }
    }
}

#[tokio::test]
async fn tasks_require_declared_extension() {
    let server = server("").await;
    let id = Client::new(&server).start("work", json!({})).await;
    let client = Client::with_capabilities(&server, all_capabilities());
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in [id.as_str(), "never-was"] {
            let failure = client.expect_error(method, json!({"taskId": id, "inputResponses": {}})).await;
            assert_eq!((failure.status, failure.code), (400, -32021), "{method}");
            assert_eq!(failure.data, json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}));
        }
    }
    let params = json!({"notifications": {"taskIds": [id]}});
    let failure = client.expect_error("subscriptions/listen", params).await;
    assert_eq!((failure.status, failure.code), (400, -32021));
    assert_eq!(failure.data, json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}));
}

/// It does not expire while its job runs.
#[tokio::test]
async fn task_expires_after_its_ttl() {
    let server = server(
        r#"
        [lifetime]
        default_ttl = "1s"
        min_ttl = "1s"
        keep_result = "1s"
        "#,
    )
    .await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let first = client.task(&id).await["ttlMs"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let running_ttl = client.task(&id).await["ttlMs"].as_u64().unwrap();
    assert!(
        running_ttl > 1500 && running_ttl > first,
        "a task does not expire under its job: {first}, {running_ttl}"
    );
    server.engine.job(1).await.succeed("done");
    let done = client.wait_for_status(&id, "completed").await;
    let kept_ttl = done["ttlMs"].as_u64().unwrap();
    assert!((1000..10_000).contains(&kept_ttl), "{kept_ttl}");
    let mut listening = client.listen(json!({"taskIds": [id]})).await;
    assert_eq!(listening.task().await["status"], "completed");
    tokio::time::sleep(Duration::from_millis(kept_ttl)).await;
    let expired = client.expect_error("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(expired, client.expect_error("tasks/get", json!({"taskId": "never-was"})).await);
}

#[tokio::test]
async fn tasks_survive_restart() {
    let server = server("").await;
    let client = Client::new(&server);
    let (done, open) = (client.start("work", json!({})).await, client.start("work", json!({"n": 2})).await);
    server.engine.job(1).await.succeed("done");
    let before = client.wait_for_status(&done, "completed").await;
    server.engine.job(2).await;
    let server = server.restart().await;
    let client = Client::new(&server);
    assert_eq!(client.task(&done).await, before);
    assert_eq!(client.task(&open).await["status"], "working");
    server.engine.job(2).await.succeed("later");
    assert_eq!(text(&client.wait_for_status(&open, "completed").await["result"]), "later");
    assert_eq!(server.engine.starts(), 2);
}

/// They are delayed, then refused with `Retry-After`.
#[tokio::test]
async fn fast_polls_are_throttled() {
    let server = configured(
        &[("max_polls_per_second = 10000", "max_polls_per_second = 2")],
        "[auth]\nsingle_user = true",
    )
    .await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let request = client.request("tasks/get", json!({ "taskId": id }));
    // Each replica counts separately, so N replicas accept N times as many polls.
    let replicas = server.replicas.len();
    let polls = (0..30 * replicas).map(|_| client.post(&request).send());
    let answers = futures_util::future::join_all(polls).await;
    let refused: Vec<_> = answers.into_iter().map(Result::unwrap).filter(|a| a.status() == 429).collect();
    assert!(refused.len() >= 10 * replicas, "two at once, eight held, the others refused: {}", refused.len());
    for response in refused {
        assert!(response.headers().contains_key("retry-after"));
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["id"], request["id"]);
        assert_eq!(body["error"]["code"], 429, "no code of the specification's, nor near them");
    }
    assert_eq!(client.call("work", json!({"n": 2})).await["resultType"], "task", "only polls are counted");
}
