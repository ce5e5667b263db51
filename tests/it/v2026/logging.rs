//! Tests for the log level of a request, and for `notifications/message`: the log messages of a task go only
//! to the request that waits for it.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Level, Observation};

use super::bench::{Client, changed, text, unhurried};
use crate::v2025::bench::Server;

/// The metadata field by which a request asks for log messages.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Starts a server whose plain calls wait longer than any test runs.
async fn patient() -> Server {
    changed(&[("call_budget = \"400ms\"", "call_budget = \"60s\"")], "[auth]\nsingle_user = true\n").await
}

/// Returns the level and the text of a log message.
fn said(message: &Value) -> (&str, &str) {
    assert_eq!(message["method"], "notifications/message", "{message}");
    (message["params"]["level"].as_str().unwrap(), message["params"]["data"].as_str().unwrap())
}

#[tokio::test]
async fn call_gets_logs_from_its_level() {
    let server = patient().await;
    let client = Client::plain(&server).saying(LOG_LEVEL, json!("warning"));
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    for level in Level::ALL {
        job.say(level, level.as_str());
    }
    for level in ["warning", "error", "critical", "alert", "emergency"] {
        let message = call.message().await;
        assert_eq!(said(&message), (level, level));
        assert_eq!(message["params"]["logger"], "work");
    }
    job.hide(Some("the queue is closed for today"));
    let warning = call.message().await;
    assert_eq!(said(&warning), ("warning", "the queue is closed for today"));
    assert_eq!(warning["params"]["logger"], "taskbridge");
    job.hide(None);
    job.say(Level::Error, "at last");
    job.succeed("done");
    let (rest, answer) = call.all().await;
    assert_eq!(rest.iter().map(said).collect::<Vec<_>>(), [("error", "at last")]);
    assert_eq!(text(&answer.unwrap()), "done");
}

#[tokio::test]
async fn request_without_level_gets_nothing() {
    let server = patient().await;
    let (asking, silent) = (Client::plain(&server).saying(LOG_LEVEL, json!("debug")), Client::plain(&server));
    let mut heard = asking.open("tools/call", json!({"name": "work", "arguments": {"n": 1}})).await;
    let first = server.stage.job(1).await;
    let unheard = silent.open("tools/call", json!({"name": "work", "arguments": {"n": 2}})).await;
    let second = server.stage.job(2).await;
    for job in [&first, &second] {
        job.say(Level::Emergency, "everything burns");
    }
    assert_eq!(said(&heard.message().await).1, "everything burns");
    for job in [first, second] {
        job.succeed("done");
    }
    heard.end().await.unwrap();
    // `Exchange::end` checks that nothing comes before the answer.
    assert_eq!(text(&unheard.end().await.unwrap()), "done");
}

/// Neither a subscription nor a poll has log messages.
#[tokio::test]
async fn task_sends_no_log_messages() {
    let server = super::bench::server("").await;
    let client = Client::of(&server).saying(LOG_LEVEL, json!("debug"));
    let id = client.start("work", json!({})).await;
    let mut told = client.listen(json!({ "taskIds": [id] })).await;
    let job = server.stage.job(1).await;
    job.say(Level::Error, "unheard");
    job.show(Observation::new(JobState::Running).with_message("it goes on"));
    while told.task().await["statusMessage"] != "it goes on" {}
    job.succeed("done");
    // Any message other than a notification of the task would fail the test.
    assert_eq!(text(&told.until("completed").await["result"]), "done");
    assert_eq!(client.task(&id).await["status"], "completed", "nor to a poll");
}

#[tokio::test]
async fn quick_job_logs_precede_result() {
    let server = unhurried("20s", "").await;
    let client = Client::of(&server).saying(LOG_LEVEL, json!("info"));
    let work = async {
        let job = server.stage.job(1).await;
        job.say(Level::Debug, "unheard");
        job.say(Level::Info, "it was quick");
        job.succeed("done");
    };
    // Whether the call becomes a task is known only with the answer: until then there is no stream.
    let (call, ()) = tokio::join!(client.open("tools/call", json!({"name": "work"})), work);
    let (told, answer) = call.all().await;
    assert_eq!(told.iter().map(said).collect::<Vec<_>>(), [("info", "it was quick")]);
    assert_eq!(text(&answer.unwrap()), "done");
}

/// No message is repeated, and none is lost.
#[tokio::test]
async fn call_logs_continue_after_question() {
    let server = patient().await;
    let client = Client::plain(&server).saying(LOG_LEVEL, json!("info"));
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.stage.job(1).await;
    job.say(Level::Info, "one");
    assert_eq!(said(&call.message().await), ("info", "one"));
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let asked = call.end().await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    job.say(Level::Info, "two");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let params = json!({
        "name": "work", "requestState": asked["requestState"],
        "inputResponses": { key: {"action": "accept", "content": {}} }
    });
    let mut call = client.open("tools/call", params).await;
    assert_eq!(said(&call.message().await), ("info", "two"));
    job.answered().await;
    job.succeed("sure");
    assert_eq!(text(&call.end().await.unwrap()), "sure");
}

/// The server declares the capability. A call with an unknown level starts nothing.
#[tokio::test]
async fn unknown_log_level_is_refused() {
    let server = super::bench::server("").await;
    let found = Client::plain(&server).get("server/discover", json!({})).await;
    assert_eq!(found["capabilities"]["logging"], json!({}));
    let loud = Client::plain(&server).saying(LOG_LEVEL, json!("loud"));
    let refused = loud.refused("tools/call", json!({"name": "work"})).await;
    assert_eq!(refused.code, -32602);
    assert!(refused.message.contains("\"emergency\""), "{}", refused.message);
    assert_eq!(server.stage.starts(), 0);
}
