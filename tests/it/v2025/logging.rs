//! Tests for `logging/setLevel` and `notifications/message`: the log messages of a task, which clients
//! receive them, and from which level on.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Level, Observation};

use super::bench::{Client, Server, Stream};

/// Returns the level and the text of a log message.
fn level_and_text(message: &Value) -> (&str, &str) {
    assert_eq!(message["method"], "notifications/message", "{message}");
    (message["params"]["level"].as_str().unwrap(), message["params"]["data"].as_str().unwrap())
}

async fn set_level(client: &Client, level: &str) {
    assert_eq!(client.get("logging/setLevel", json!({ "level": level })).await, json!({}));
}

/// Returns the next log message, and skips other notifications about tasks.
async fn next_log(stream: &mut Stream) -> (String, String) {
    let message = stream.next("notifications/message").await;
    let (level, text) = level_and_text(&message);
    (level.to_owned(), text.to_owned())
}

/// They come before the answer, and the listening stream has none of them.
#[tokio::test]
async fn waiting_call_streams_job_logs() {
    let server =
        Server::configured(&[("call_budget = \"2s\"", "call_budget = \"1h\"")], "[auth]\nsingle_user = true")
            .await;
    let client = server.client().await;
    let mut listening = client.listen().await;
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    job.add_note(Level::Debug, "unheard, since nobody asked for so much");
    job.add_note(Level::Info, "it begins");
    let first = call.message().await;
    assert_eq!(level_and_text(&first), ("info", "it begins"));
    assert_eq!(first["params"]["logger"], "work");
    assert_eq!(first["params"].get("_meta"), None, "its client knows no task");
    job.add_note(Level::Error, "it hurts");
    job.succeed("done");
    let (rest, answer) = call.all().await;
    assert_eq!(rest.iter().map(level_and_text).collect::<Vec<_>>(), [("error", "it hurts")]);
    assert_eq!(answer.unwrap()["content"][0]["text"], "done");
    client.start("work", json!({})).await;
    server.engine.job(2).await.add_note(Level::Notice, "another");
    assert_eq!(
        next_log(&mut listening).await,
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
    let job = server.engine.job(1).await;
    for level in Level::ALL {
        job.add_note(level, level.as_str());
    }
    for level in ["warning", "error", "critical", "alert", "emergency"] {
        assert_eq!(next_log(&mut stream).await, (level.to_owned(), level.to_owned()));
    }
    set_level(&client.at(&twin), "debug").await;
    job.add_note(Level::Debug, "finely");
    assert_eq!(next_log(&mut stream).await, ("debug".to_owned(), "finely".to_owned()));
    other.start("work", json!({})).await;
    let mut stream = other.listen().await;
    let job = server.engine.job(2).await;
    job.add_note(Level::Debug, "unheard");
    job.add_note(Level::Info, "usual");
    assert_eq!(
        next_log(&mut stream).await,
        ("info".to_owned(), "usual".to_owned()),
        "each session has its own"
    );
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
    let job = server.engine.job(1).await;
    job.add_note(Level::Alert, "unheard");
    job.add_note(Level::Emergency, "heard");
    assert_eq!(next_log(&mut stream).await, ("emergency".to_owned(), "heard".to_owned()));
}

#[tokio::test]
async fn unknown_log_level_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for params in
        [json!({"level": "loud"}), json!({"level": "Info"}), json!({"level": 3}), json!({}), json!(null)]
    {
        let (code, message) = client.expect_error("logging/setLevel", params).await;
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
    let job = server.engine.job(1).await;
    job.add_note(Level::Info, "one");
    let first = stream.next("notifications/message").await;
    assert_eq!(level_and_text(&first), ("info", "one"));
    assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    let mut newer = client.listen().await;
    job.add_note(Level::Info, "two");
    assert_eq!(next_log(&mut newer).await.1, "two");
    drop((stream, newer));
    let server = server.restart().await;
    let client = client.at(&server);
    let mut stream = client.listen().await;
    // A stream begins with the current status of the task. After this message the stream is known to listen.
    job.show(Observation::new(JobState::Running).with_message("it goes on"));
    stream.next("notifications/tasks/status").await;
    job.add_note(Level::Info, "three");
    assert_eq!(next_log(&mut stream).await.1, "three", "nothing of it twice");
    job.succeed("done");
    assert_eq!(stream.next("notifications/tasks/status").await["params"]["status"], "completed");
}

/// After the handle, the next messages go to the listening stream, and none is repeated.
#[tokio::test]
async fn handle_logs_continue_after_call() {
    let server = Server::with_long_budget().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    let call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    job.add_note(Level::Info, "one");
    let (messages, answer) = call.all().await;
    assert_eq!(messages.iter().map(level_and_text).collect::<Vec<_>>(), [("info", "one")]);
    assert_eq!(answer.unwrap()["structuredContent"]["status"], "working");
    job.add_note(Level::Info, "two");
    assert_eq!(next_log(&mut stream).await.1, "two");
}

/// An engine outage is a warning, and a lost job an error, of the logger `taskbridge`.
#[tokio::test]
async fn engine_faults_are_log_messages() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut stream = client.listen().await;
    client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.fail_polls(Some("the queue is closed for today"));
    let warning = stream.next("notifications/message").await;
    assert_eq!(level_and_text(&warning), ("warning", "the queue is closed for today"));
    assert_eq!(warning["params"]["logger"], "taskbridge");
    job.fail_polls(None);
    job.show(Observation::new(JobState::Gone));
    // The job counts as lost after a few polls that do not find it. The first of them is a warning.
    let mut error = stream.next("notifications/message").await;
    while level_and_text(&error).0 == "warning" {
        assert!(level_and_text(&error).1.contains("does not list the job"), "{error}");
        error = stream.next("notifications/message").await;
    }
    assert_eq!(level_and_text(&error).0, "error");
    assert!(level_and_text(&error).1.contains("no longer knows the job"), "{error}");
}

#[tokio::test]
async fn older_revisions_get_log_messages() {
    let server =
        Server::configured(&[("call_budget = \"2s\"", "call_budget = \"1h\"")], "[auth]\nsingle_user = true")
            .await;
    for revision in ["2025-06-18", "2025-03-26"] {
        let client = server.client_with(revision, json!({}), None).await;
        let mut call = client.open("tools/call", json!({"name": "work"})).await;
        let job = server.engine.job(server.engine.starts()).await;
        job.add_note(Level::Info, "it begins");
        assert_eq!(level_and_text(&call.message().await), ("info", "it begins"));
        job.succeed("done");
        call.end().await.unwrap();
    }
}
