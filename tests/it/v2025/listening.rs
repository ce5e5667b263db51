//! Tests for notifications on listening streams: status, progress, and that each message goes to one stream
//! only.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation, Output};

use super::bench::{Server, Stream};
use crate::stage::ScriptedJob;

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn with_token(token: Value) -> Value {
    json!({"name": "work", "task": {}, "_meta": {"progressToken": token}})
}

/// Sets a status message and waits until the stream delivers it, which proves that the stream listens.
async fn wait_until_listening(stream: &mut Stream, job: &ScriptedJob) {
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    while stream.next("notifications/tasks/status").await["params"]["statusMessage"] != "it runs" {}
}

#[tokio::test]
async fn status_notification_has_whole_task() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    wait_until_listening(&mut stream, &job).await;
    job.show(Observation::new(JobState::Running).with_message("building"));
    let notification = stream.message().await;
    assert_eq!(notification["method"], "notifications/tasks/status");
    assert_eq!(notification["params"], client.task(&id).await, "what a poll says");
    assert_eq!(notification["params"].get("_meta"), None);
    job.show(Observation::new(JobState::Failed(Output::default())).with_message("exit code 1"));
    let notification = stream.message().await;
    assert_eq!(notification["params"]["status"], "failed");
    assert_eq!(notification["params"]["statusMessage"], "exit code 1");
}

/// Progress is reported until the task ends, not only until the call is answered.
#[tokio::test]
async fn task_progress_only_increases() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    for (n, token) in [(1, json!("text")), (2, json!(7))] {
        let created = client.get("tools/call", with_token(token.clone())).await;
        let id = created["task"]["taskId"].clone();
        let job = server.engine.job(n).await;
        wait_until_listening(&mut stream, &job).await;
        job.progress(1.5, 10.0);
        let report = stream.next("notifications/progress").await;
        assert_eq!(report["params"]["progressToken"], token);
        assert_eq!((&report["params"]["progress"], &report["params"]["total"]), (&json!(1.5), &json!(10.0)));
        assert_eq!(report["params"]["_meta"], json!({RELATED: {"taskId": id}}));
        job.progress(0.5, 10.0);
        job.progress(3.0, 10.0);
        assert_eq!(stream.next("notifications/progress").await["params"]["progress"], 3.0);
        job.show(Observation::new(JobState::Succeeded(Output::text("x"))).with_progress(10.0, Some(10.0)));
        let notification = stream.message().await;
        assert_eq!(
            notification["params"]["status"], "completed",
            "nothing is reported of a task that has ended"
        );
    }
}

/// Covers a new stream, and a restart of the server.
#[tokio::test]
async fn progress_is_never_repeated() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    client.get("tools/call", with_token(json!("t"))).await;
    let job = server.engine.job(1).await;
    wait_until_listening(&mut stream, &job).await;
    job.progress(4.0, 10.0);
    assert_eq!(stream.next("notifications/progress").await["params"]["progress"], 4.0);
    drop(stream);
    let server = server.restart().await;
    let client = client.at(&server);
    let mut stream = client.listen().await;
    let current = stream.message().await;
    assert_eq!(current["params"]["statusMessage"], "it runs", "a new stream tells where its tasks stand");
    let back = Observation::new(JobState::Running).with_message("a step back").with_progress(2.0, Some(10.0));
    job.show(back);
    assert_eq!(stream.message().await["params"]["statusMessage"], "a step back");
    job.progress(5.0, 10.0);
    assert_eq!(stream.message().await["params"]["progress"], 5.0);
}

/// The progress token of a poll has no effect.
#[tokio::test]
async fn progress_requires_token_of_call() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    client.get("tasks/get", json!({"taskId": id, "_meta": {"progressToken": "poll"}})).await;
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("it runs").with_progress(1.0, Some(2.0)));
    client.wait_for_message(&id, "it runs").await;
    assert_eq!(stream.message().await["params"]["statusMessage"], "it runs");
    job.succeed("done");
    assert_eq!(stream.message().await["params"]["status"], "completed");
}

/// Two tasks with one progress token each report their own progress.
#[tokio::test]
async fn shared_token_keeps_progress_apart() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let mut ids = Vec::new();
    for n in 1..=2 {
        let created = client.get("tools/call", with_token(json!("same"))).await;
        ids.push(created["task"]["taskId"].clone());
        wait_until_listening(&mut stream, &server.engine.job(n).await).await;
    }
    server.engine.job(1).await.progress(9.0, 10.0);
    let first = stream.next("notifications/progress").await;
    server.engine.job(2).await.progress(1.0, 10.0);
    let second = stream.next("notifications/progress").await;
    let task_of = |report: &Value| report["params"]["_meta"][RELATED]["taskId"].clone();
    assert_eq!([task_of(&first), task_of(&second)], ids[..]);
}

/// The older stream is silent until the newer one closes.
#[tokio::test]
async fn newest_stream_gets_each_message() {
    let server = Server::start().await;
    let client = server.client().await;
    client.get("tools/call", with_token(json!("t"))).await;
    let job = server.engine.job(1).await;
    let mut older = client.listen().await;
    wait_until_listening(&mut older, &job).await;
    let mut newer = client.listen().await;
    // From some change on, the newer stream delivers.
    for n in 0.. {
        job.show(Observation::new(JobState::Running).with_message(format!("change {n}")));
        tokio::select! {
            _ = newer.message() => break,
            _ = older.message() => {}
        }
    }
    // Earlier messages of the older stream may still be in transit.
    while !is_silent(&mut older).await {}
    job.progress(1.0, 3.0);
    newer.next("notifications/progress").await;
    job.ask("q", "Really?", json!({"type": "object", "properties": {}}));
    newer.next("elicitation/create").await;
    assert!(is_silent(&mut older).await, "the older stream is silent while the newer is open");
    drop(newer);
    job.progress(2.0, 3.0);
    assert_eq!(older.next("notifications/progress").await["params"]["progress"], 2.0);
}

/// Returns true if nothing arrives within the maximum delay between a change and its message.
async fn is_silent(stream: &mut Stream) -> bool {
    tokio::time::timeout(Duration::from_secs(1), stream.message()).await.is_err()
}

#[tokio::test]
async fn other_sessions_get_no_messages() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let (mut stream, mut others) = (client.listen().await, other.listen().await);
    let older = server.client_with("2025-06-18", json!({}), None).await;
    let mut olders = older.listen().await;
    older.get("tools/call", json!({"name": "work", "arguments": {"end": {"succeeded": {}}}})).await;
    client.start("work", json!({})).await;
    wait_until_listening(&mut stream, &server.engine.job(2).await).await;
    assert!(is_silent(&mut others).await);
    assert!(is_silent(&mut olders).await, "a session without tasks is told of none");
}

/// Another process ends the task.
#[tokio::test]
async fn remote_task_end_is_announced() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    server.engine.job(1).await;
    let twin = server.twin().await;
    client.at(&twin).get("tasks/cancel", json!({ "taskId": id })).await;
    let notification = stream.next("notifications/tasks/status").await;
    assert_eq!(
        (&notification["params"]["taskId"], &notification["params"]["status"]),
        (&json!(id), &json!("cancelled"))
    );
}
