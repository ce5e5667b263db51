//! Tests for `logging/setLevel` and `notifications/message`: the log messages of a task, which clients
//! receive them, and from which level on.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Level, Observation};

use super::bench::{Client, Server, Stream};

/// Returns the level and the text of a log message.
fn said(message: &Value) -> (&str, &str) {
    assert_eq!(message["method"], "notifications/message", "{message}");
    (message["params"]["level"].as_str().unwrap(), message["params"]["data"].as_str().unwrap())
}

async fn set_level(client: &Client, level: &str) {
    assert_eq!(client.get("logging/setLevel", json!({ "level": level })).await, json!({}));
}

/// Returns the next log message, and skips other notifications about tasks.
async fn heard(stream: &mut Stream) -> (String, String) {
    let message = stream.next("notifications/message").await;
    let (level, text) = said(&message);
    (level.to_owned(), text.to_owned())
}

/// They come before the answer, and the listening stream has none of them.
#[tokio::test]
async fn waiting_call_streams_job_logs() {
    let server = Server::configured(&[("400ms", "1h")], "[auth]\nsingle_user = true").await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    job.say(Level::Debug, "unheard, since nobody asked for so much");
    job.say(Level::Info, "it begins");
    let first = call.message().await;
    assert_eq!(said(&first), ("info", "it begins"));
    assert_eq!(first["params"]["logger"], "work");
    assert_eq!(first["params"].get("_meta"), None, "its client knows no task");
    job.say(Level::Error, "it hurts");
    job.succeed("done");
    let (rest, answer) = call.all().await;
    assert_eq!(rest.iter().map(said).collect::<Vec<_>>(), [("error", "it hurts")]);
    assert_eq!(answer.unwrap()["content"][0]["text"], "done");
    client.start("work", json!({})).await;
    server.stage.job(2).await.say(Level::Notice, "another");
    assert_eq!(
        heard(&mut listening).await,
        ("notice".to_owned(), "another".to_owned()),
        "nothing of the call"
    );
}

/// A session gets messages of its level and above. Each session has its own level.
#[tokio::test]
async fn log_level_applies_at_every_process() {
    let server = Server::start().await;
    let client = server.client().await;
    let other = server.client().await;
    set_level(&client, "warning").await;
    client.start("work", json!({})).await;
    let twin = server.twin().await;
    let mut stream = client.at(&twin).listen().await;
    let job = server.stage.job(1).await;
    for level in Level::ALL {
        job.say(level, level.as_str());
    }
    for level in ["warning", "error", "critical", "alert", "emergency"] {
        assert_eq!(heard(&mut stream).await, (level.to_owned(), level.to_owned()));
    }
    set_level(&client.at(&twin), "debug").await;
    job.say(Level::Debug, "finely");
    assert_eq!(heard(&mut stream).await, ("debug".to_owned(), "finely".to_owned()));
    other.start("work", json!({})).await;
    let mut stream = other.listen().await;
    let job = server.stage.job(2).await;
    job.say(Level::Debug, "unheard");
    job.say(Level::Info, "usual");
    assert_eq!(heard(&mut stream).await, ("info".to_owned(), "usual".to_owned()), "each session has its own");
}

#[tokio::test]
async fn log_level_survives_restart() {
    let server = Server::start().await;
    let client = server.client().await;
    set_level(&client, "emergency").await;
    let server = server.restart().await;
    let client = client.at(&server);
    client.start("work", json!({})).await;
    let mut stream = client.listen().await;
    let job = server.stage.job(1).await;
    job.say(Level::Alert, "unheard");
    job.say(Level::Emergency, "heard");
    assert_eq!(heard(&mut stream).await, ("emergency".to_owned(), "heard".to_owned()));
}

#[tokio::test]
async fn unknown_log_level_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for params in
        [json!({"level": "loud"}), json!({"level": "Info"}), json!({"level": 3}), json!({}), json!(null)]
    {
        let (code, message) = client.refused("logging/setLevel", params).await;
        assert_eq!(code, -32602);
        assert!(message.starts_with("`level` is ") && message.contains("\"emergency\""), "{message}");
    }
}

/// They go to the newest listening stream. A restart repeats none of them.
#[tokio::test]
async fn task_logs_are_delivered_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.say(Level::Info, "one");
    let first = stream.next("notifications/message").await;
    assert_eq!(said(&first), ("info", "one"));
    assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    let mut newer = client.listen().await;
    job.say(Level::Info, "two");
    assert_eq!(heard(&mut newer).await.1, "two");
    drop((stream, newer));
    let server = server.restart().await;
    let client = client.at(&server);
    let mut stream = client.listen().await;
    // A stream begins with the current status of the task. After this message the stream is known to listen.
    job.show(Observation::new(JobState::Running).with_message("it goes on"));
    stream.next("notifications/tasks/status").await;
    job.say(Level::Info, "three");
    assert_eq!(heard(&mut stream).await.1, "three", "nothing of it twice");
    job.succeed("done");
    assert_eq!(stream.next("notifications/tasks/status").await["params"]["status"], "completed");
}

/// After the handle, the next messages go to the listening stream, and none is repeated.
#[tokio::test]
async fn handle_logs_continue_after_call() {
    let server = Server::unhurried().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    job.say(Level::Info, "one");
    let (told, answer) = call.all().await;
    assert_eq!(told.iter().map(said).collect::<Vec<_>>(), [("info", "one")]);
    assert_eq!(answer.unwrap()["structuredContent"]["status"], "working");
    job.say(Level::Info, "two");
    assert_eq!(heard(&mut stream).await.1, "two");
}

/// An engine outage is a warning, and a lost job an error, of the logger `taskbridge`.
#[tokio::test]
async fn engine_faults_are_log_messages() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.hide(Some("the queue is closed for today"));
    let warning = stream.next("notifications/message").await;
    assert_eq!(said(&warning), ("warning", "the queue is closed for today"));
    assert_eq!(warning["params"]["logger"], "taskbridge");
    job.hide(None);
    job.show(Observation::new(JobState::Gone));
    let error = stream.next("notifications/message").await;
    assert_eq!(said(&error).0, "error");
    assert!(said(&error).1.contains("no longer knows the job"), "{error}");
}

#[tokio::test]
async fn older_revisions_get_log_messages() {
    let server = Server::configured(&[("400ms", "1h")], "[auth]\nsingle_user = true").await;
    for revision in ["2025-06-18", "2025-03-26"] {
        let client = server.client_with(revision, json!({}), None).await;
        let mut call = client.open("tools/call", json!({"name": "work"})).await;
        let job = server.stage.job(server.stage.starts()).await;
        job.say(Level::Info, "it begins");
        assert_eq!(said(&call.message().await), ("info", "it begins"));
        job.succeed("done");
        call.end().await.unwrap();
    }
}
