//! Tests for permitted reads, cancellations and answers of tasks of other owners, and for the four-eyes rule.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::raw::{Protocol, RawClient};
use super::{keys, with_timeout};
use crate::v2025::bench::{BUDGET, Server};

/// Config with one tool that needs two people, and one that its callers cannot cancel.
const SHARED: &str = r#"
[tools.deploy]
backend = "stage"
target = {}
confirm = "Really deploy?"
input_schema = { type = "object" }
access.answer = { groups = ["approvers"], not_caller = true }
access.see = { groups = ["ops"] }

[tools.shown]
backend = "stage"
target = {}
input_schema = { type = "object" }
task_support = "forbidden"
access.see = { groups = ["ops"] }

[tools.batch]
backend = "stage"
target = {}
input_schema = { type = "object" }
access.cancel = { groups = ["ops"] }
"#;

async fn server() -> Server {
    let keys = keys(&[
        ("ann", "groups = [\"approvers\"]"),
        ("bob", "groups = [\"approvers\"]"),
        ("cid", "groups = [\"ops\"]"),
        ("dan", ""),
    ]);
    Server::with(&format!("{keys}{SHARED}")).await
}

fn yes() -> Value {
    json!({"action": "accept", "content": {}})
}

async fn wait_for_task(raw: &RawClient, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let polls = async {
        loop {
            let task = raw.expect_result(Protocol::Stateless, "tasks/get", json!({"taskId": id})).await;
            if condition(&task) {
                return task;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    with_timeout(polls).await
}

/// The owner cannot answer her own question. Another person can, and the engine receives his name.
#[tokio::test]
async fn four_eyes_requires_another_person() {
    let server = server().await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    for (n, protocol) in [(1, Protocol::Stateless), (2, Protocol::Stateful)] {
        let id = ann.start(protocol, "deploy", json!({})).await;
        let ann_view = ann.expect_result(protocol, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(ann_view["status"], "working", "there is nothing for her to do: {ann_view}");
        assert!(ann_view["statusMessage"].as_str().unwrap().contains("not yours to answer"), "{ann_view}");
        let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
        let refused = ann.send(Protocol::Stateless, "tasks/update", params.clone()).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("by somebody else"), "{refused}");
        let answer = json!({"name": "task_answer", "arguments": {"task_id": id, "content": {}}});
        let refused = ann.expect_result(Protocol::Stateful, "tools/call", answer).await;
        assert!(refused.to_string().contains("by somebody else"), "{refused}");
        assert_eq!(server.engine.starts(), n - 1, "nothing starts on one's own word");

        let bob_view = bob.expect_result(Protocol::Stateless, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(bob_view["inputRequests"]["q1"]["params"]["message"], "Really deploy?", "{bob_view}");
        match protocol {
            Protocol::Stateless => {
                bob.expect_result(Protocol::Stateless, "tasks/update", params).await;
            }
            Protocol::Stateful => {
                let question = bob.first_message(protocol, "tasks/result", json!({"taskId": id})).await;
                assert_eq!(question["method"], "elicitation/create", "{question}");
                let foreign_reply = ann.reply(question["id"].as_str().unwrap(), yes()).await;
                assert_eq!(foreign_reply.status, 400, "it is not taken");
                let reason = foreign_reply.body["error"]["message"].as_str().unwrap();
                assert!(
                    reason.starts_with("the answer was not taken: ") && reason.contains("by somebody else"),
                    "{reason}"
                );
                assert_eq!(server.engine.starts(), n - 1);
                assert_eq!(bob.reply(question["id"].as_str().unwrap(), yes()).await.status, 202);
            }
        }
        let job = server.engine.job(n).await;
        job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
        let updated = wait_for_task(&bob, &id, |task| task["inputRequests"].get("q2").is_some()).await;
        assert_eq!(updated["status"], "input_required");
        let params = json!({"taskId": id, "inputResponses": {"q2": yes()}});
        assert!(
            ann.send(Protocol::Stateless, "tasks/update", params.clone()).await.body.get("error").is_some()
        );
        bob.expect_result(Protocol::Stateless, "tasks/update", params).await;
        job.wait_for_answer().await;
        assert_eq!(job.answering_users(), ["bob"], "the engine hears it from him, though the task is hers");
    }
}

/// An answer to a question of one's own task reaches the engine under the name of the owner.
#[tokio::test]
async fn own_answer_carries_owner_name() {
    let server = server().await;
    let ann = RawClient::open(&server.url, "ann").await;
    let id = ann.start(Protocol::Stateless, "batch", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    wait_for_task(&ann, &id, |task| task["inputRequests"].get("q1").is_some()).await;
    let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
    ann.expect_result(Protocol::Stateless, "tasks/update", params).await;
    job.wait_for_answer().await;
    assert_eq!(job.answering_users(), ["ann"]);
}

/// A caller with read permission sees the task of another owner, and cannot cancel, answer or list it.
#[tokio::test]
async fn reader_cannot_cancel_or_answer() {
    let server = server().await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    let (cid, dan) = (RawClient::open(&server.url, "cid").await, RawClient::open(&server.url, "dan").await);
    let id = ann.start(Protocol::Stateless, "deploy", json!({})).await;
    bob.expect_result(
        Protocol::Stateless,
        "tasks/update",
        json!({"taskId": id, "inputResponses": {"q1": yes()}}),
    )
    .await;
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    let cid_view = wait_for_task(&cid, &id, |task| task["statusMessage"] == "it runs").await;
    assert_eq!(cid_view["status"], "working");
    let log = format!("taskbridge://tasks/{id}/log");
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        cid.expect_result(protocol, "resources/read", json!({ "uri": log })).await;
        let refused = cid.send(protocol, "tasks/cancel", json!({"taskId": id})).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("not cancel this task"), "{refused}");
        let unknown = dan.send(protocol, "tasks/cancel", json!({"taskId": "never-was"})).await;
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(dan.send(protocol, method, json!({"taskId": id})).await, unknown, "{method}");
        }
        assert_eq!(
            dan.send(protocol, "resources/read", json!({ "uri": log })).await.body["result"],
            Value::Null
        );
    }
    let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
    let refused = cid.send(Protocol::Stateless, "tasks/update", params).await.body;
    assert!(refused.to_string().contains("not answer what this task asks"), "{refused}");
    for raw in [&bob, &cid] {
        let listed = raw.expect_result(Protocol::Stateful, "tasks/list", json!({})).await;
        assert_eq!(listed["tasks"], json!([]), "a list is of one's own");
    }
    assert_eq!(
        ann.expect_result(Protocol::Stateless, "tasks/get", json!({"taskId": id})).await["status"],
        "working"
    );
}

/// The rule applies to the owner as well.
#[tokio::test]
async fn cancel_rule_decides_who_cancels() {
    let server = server().await;
    let (ann, cid) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "cid").await);
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        let id = ann.start(protocol, "batch", json!({})).await;
        let refused = ann.send(protocol, "tasks/cancel", json!({"taskId": id})).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("not cancel this task"), "{refused}");
        cid.expect_result(protocol, "tasks/cancel", json!({"taskId": id})).await;
    }
}

/// A read by another caller is no delivery: the owner's repeated call still gets the result of the first one.
#[tokio::test]
async fn foreign_read_keeps_abandoned_call() {
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        let server = server().await;
        let (ann, cid) =
            (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "cid").await);
        let call = || json!({"name": "shown", "arguments": {}});
        tokio::select! {
            answer = ann.send(protocol, "tools/call", call()) => panic!("nobody was to answer it: {answer:?}"),
            job = server.engine.job(1) => job.succeed("done"),
        }
        // The call counts as abandoned when its budget is over, at the latest.
        tokio::time::sleep(BUDGET).await;
        let id = ann.expect_result(Protocol::Stateful, "tasks/list", json!({})).await["tasks"][0]["taskId"]
            .clone();
        wait_for_task(&cid, id.as_str().unwrap(), |task| task["status"] == "completed").await;
        cid.expect_result(Protocol::Stateful, "tasks/result", json!({"taskId": id})).await;
        let wait = json!({"name": "task_wait", "arguments": {"task_id": id}});
        cid.expect_result(Protocol::Stateful, "tools/call", wait).await;
        let repeated = ann.expect_result(protocol, "tools/call", call()).await.to_string();
        assert!(
            repeated.contains("nothing was started a second time") && repeated.contains("done"),
            "{repeated}"
        );
        assert_eq!(server.engine.starts(), 1);
        // The owner has received the result, so the next call starts a new job.
        tokio::select! {
            answer = ann.send(protocol, "tools/call", call()) => panic!("nobody was to answer it: {answer:?}"),
            _ = server.engine.job(2) => {}
        }
    }
}

/// A session that polls is asked on its listening stream, except for questions that others must answer.
#[tokio::test]
async fn polling_owner_is_not_asked() {
    let server = server().await;
    let (ann, other_session) =
        (server.client_with_key("key-of-ann").await, server.client_with_key("key-of-ann").await);
    let bob = server.client_with_key("key-of-bob").await;
    let (mut ann_stream, mut bob_stream) = (other_session.listen().await, bob.listen().await);
    let id = ann.start("deploy", json!({})).await;
    assert_eq!(other_session.task(&id).await["status"], "working");
    bob.wait_for_status(&id, "input_required").await;
    let question = bob_stream.message().await;
    assert_eq!(question["params"]["message"], "Really deploy?", "{question}");
    let last = other_session.start("batch", json!({"end": {"succeeded": {}}})).await;
    let notification = ann_stream.message().await;
    assert_eq!(notification["params"]["taskId"], last.as_str(), "{notification}");
    assert_eq!(bob.reply(&question, yes()).await, 202);
}
