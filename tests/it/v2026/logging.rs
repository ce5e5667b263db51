//! Tests for the log level of a request, and for `notifications/message`: the log messages of a task go only
//! to the request that waits for it.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Level, Observation};

use super::bench::{Client, configured, text, with_quick_wait};
use crate::v2025::bench::Server;

/// The metadata field by which a request asks for log messages.
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Starts a server whose plain calls wait longer than any test runs.
async fn long_budget_server() -> Server {
    configured(&[("call_budget = \"2s\"", "call_budget = \"60s\"")], "[auth]\nsingle_user = true\n").await
}

/// Returns the level and the text of a log message.
fn level_and_text(message: &Value) -> (&str, &str) {
    assert_eq!(message["method"], "notifications/message", "{message}");
    (message["params"]["level"].as_str().unwrap(), message["params"]["data"].as_str().unwrap())
}

#[tokio::test]
async fn call_gets_logs_from_its_level() {
    let server = long_budget_server().await;
    let client = Client::plain(&server).with_meta(LOG_LEVEL, json!("warning"));
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    for level in Level::ALL {
        job.add_note(level, level.as_str());
    }
    for level in ["warning", "error", "critical", "alert", "emergency"] {
        let message = call.message().await;
        assert_eq!(level_and_text(&message), (level, level));
        assert_eq!(message["params"]["logger"], "work");
    }
    job.fail_polls(Some("the queue is closed for today"));
    let warning = call.message().await;
    assert_eq!(level_and_text(&warning), ("warning", "the queue is closed for today"));
    assert_eq!(warning["params"]["logger"], "taskbridge");
    job.fail_polls(None);
    job.add_note(Level::Error, "at last");
    job.succeed("done");
    let (rest, answer) = call.all().await;
    assert_eq!(rest.iter().map(level_and_text).collect::<Vec<_>>(), [("error", "at last")]);
    assert_eq!(text(&answer.unwrap()), "done");
}

#[tokio::test]
async fn request_without_level_gets_nothing() {
    let server = long_budget_server().await;
    let (with_level, without_level) =
        (Client::plain(&server).with_meta(LOG_LEVEL, json!("debug")), Client::plain(&server));
    let mut logged_call = with_level.open("tools/call", json!({"name": "work", "arguments": {"n": 1}})).await;
    let first = server.engine.job(1).await;
    let silent_call = without_level.open("tools/call", json!({"name": "work", "arguments": {"n": 2}})).await;
    let second = server.engine.job(2).await;
    for job in [&first, &second] {
        job.add_note(Level::Emergency, "everything burns");
    }
    assert_eq!(level_and_text(&logged_call.message().await).1, "everything burns");
    for job in [first, second] {
        job.succeed("done");
    }
    logged_call.end().await.unwrap();
    // `Exchange::end` checks that nothing comes before the answer.
    assert_eq!(text(&silent_call.end().await.unwrap()), "done");
}

/// Neither a subscription nor a poll has log messages.
#[tokio::test]
async fn task_sends_no_log_messages() {
    let server = super::bench::server("").await;
    let client = Client::new(&server).with_meta(LOG_LEVEL, json!("debug"));
    let id = client.start("work", json!({})).await;
    let mut subscription = client.listen(json!({ "taskIds": [id] })).await;
    let job = server.engine.job(1).await;
    job.add_note(Level::Error, "unheard");
    job.show(Observation::new(JobState::Running).with_message("it goes on"));
    while subscription.task().await["statusMessage"] != "it goes on" {}
    job.succeed("done");
    // Any message other than a notification of the task would fail the test.
    assert_eq!(text(&subscription.wait_for_status("completed").await["result"]), "done");
    assert_eq!(client.task(&id).await["status"], "completed", "nor to a poll");
}

#[tokio::test]
async fn quick_job_logs_precede_result() {
    let server = with_quick_wait("20s", "").await;
    let client = Client::new(&server).with_meta(LOG_LEVEL, json!("info"));
    let work = async {
        let job = server.engine.job(1).await;
        job.add_note(Level::Debug, "unheard");
        job.add_note(Level::Info, "it was quick");
        job.succeed("done");
    };
    // Whether the call becomes a task is known only with the answer: until then there is no stream.
    let (call, ()) = tokio::join!(client.open("tools/call", json!({"name": "work"})), work);
    let (messages, answer) = call.all().await;
    assert_eq!(messages.iter().map(level_and_text).collect::<Vec<_>>(), [("info", "it was quick")]);
    assert_eq!(text(&answer.unwrap()), "done");
}

/// No message is repeated, and none is lost.
#[tokio::test]
async fn call_logs_continue_after_question() {
    let server = long_budget_server().await;
    let client = Client::plain(&server).with_meta(LOG_LEVEL, json!("info"));
    let mut call = client.open("tools/call", json!({"name": "work"})).await;
    let job = server.engine.job(1).await;
    job.add_note(Level::Info, "one");
    assert_eq!(level_and_text(&call.message().await), ("info", "one"));
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    let question = call.end().await.unwrap();
    assert_eq!(question["resultType"], "input_required", "{question}");
    job.add_note(Level::Info, "two");
    let key = question["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let params = json!({
        "name": "work", "requestState": question["requestState"],
        "inputResponses": { key: {"action": "accept", "content": {}} }
    });
    let mut call = client.open("tools/call", params).await;
    assert_eq!(level_and_text(&call.message().await), ("info", "two"));
    job.wait_for_answer().await;
    job.succeed("sure");
    assert_eq!(text(&call.end().await.unwrap()), "sure");
}

/// The server declares the capability. A call with an unknown level starts nothing.
#[tokio::test]
async fn unknown_log_level_is_refused() {
    let server = super::bench::server("").await;
    let discovery = Client::plain(&server).get("server/discover", json!({})).await;
    assert_eq!(discovery["capabilities"]["logging"], json!({}));
    let loud = Client::plain(&server).with_meta(LOG_LEVEL, json!("loud"));
    let refused = loud.expect_error("tools/call", json!({"name": "work"})).await;
    assert_eq!(refused.code, -32602);
    assert!(refused.message.contains("\"emergency\""), "{}", refused.message);
    assert_eq!(server.engine.starts(), 0);
}
