//! Tests for permitted reads, cancellations and answers of tasks of other owners, and for the four-eyes rule.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::raw::{Of, Raw};
use super::{in_time, keys};
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

async fn until(raw: &Raw, id: &str, enough: impl Fn(&Value) -> bool) -> Value {
    let looks = async {
        loop {
            let task = raw.get(Of::Alone, "tasks/get", json!({"taskId": id})).await;
            if enough(&task) {
                return task;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    in_time(looks).await
}

/// The owner cannot answer her own question. Another person can, and the engine receives his name.
#[tokio::test]
async fn four_eyes_requires_another_person() {
    let server = server().await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    for (n, of) in [(1, Of::Alone), (2, Of::Sessions)] {
        let id = ann.start(of, "deploy", json!({})).await;
        let hers = ann.get(of, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(hers["status"], "working", "there is nothing for her to do: {hers}");
        assert!(hers["statusMessage"].as_str().unwrap().contains("not yours to answer"), "{hers}");
        let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
        let refused = ann.ask(Of::Alone, "tasks/update", params.clone()).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("by somebody else"), "{refused}");
        let answer = json!({"name": "task_answer", "arguments": {"task_id": id, "content": {}}});
        let refused = ann.get(Of::Sessions, "tools/call", answer).await;
        assert!(refused.to_string().contains("by somebody else"), "{refused}");
        assert_eq!(server.stage.starts(), n - 1, "nothing starts on one's own word");

        let his = bob.get(Of::Alone, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(his["inputRequests"]["q1"]["params"]["message"], "Really deploy?", "{his}");
        match of {
            Of::Alone => {
                bob.get(Of::Alone, "tasks/update", params).await;
            }
            Of::Sessions => {
                let question = bob.first(of, "tasks/result", json!({"taskId": id})).await;
                assert_eq!(question["method"], "elicitation/create", "{question}");
                let stolen = ann.reply(question["id"].as_str().unwrap(), yes()).await;
                assert_eq!(stolen.status, 400, "it is not taken");
                let why = stolen.body["error"]["message"].as_str().unwrap();
                assert!(
                    why.starts_with("the answer was not taken: ") && why.contains("by somebody else"),
                    "{why}"
                );
                assert_eq!(server.stage.starts(), n - 1);
                assert_eq!(bob.reply(question["id"].as_str().unwrap(), yes()).await.status, 202);
            }
        }
        let job = server.stage.job(n).await;
        job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
        let asked = until(&bob, &id, |task| task["inputRequests"].get("q2").is_some()).await;
        assert_eq!(asked["status"], "input_required");
        let params = json!({"taskId": id, "inputResponses": {"q2": yes()}});
        assert!(ann.ask(Of::Alone, "tasks/update", params.clone()).await.body.get("error").is_some());
        bob.get(Of::Alone, "tasks/update", params).await;
        job.answered().await;
        assert_eq!(job.answered_as(), ["bob"], "the engine hears it from him, though the task is hers");
    }
}

/// An answer to a question of one's own task reaches the engine under the name of the owner.
#[tokio::test]
async fn own_answer_carries_owner_name() {
    let server = server().await;
    let ann = Raw::of(&server.url, "ann").await;
    let id = ann.start(Of::Alone, "batch", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("sure", "Sure?", json!({"type": "object", "properties": {}}));
    until(&ann, &id, |task| task["inputRequests"].get("q1").is_some()).await;
    let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
    ann.get(Of::Alone, "tasks/update", params).await;
    job.answered().await;
    assert_eq!(job.answered_as(), ["ann"]);
}

/// A caller with read permission sees the task of another owner, and cannot cancel, answer or list it.
#[tokio::test]
async fn reader_cannot_cancel_or_answer() {
    let server = server().await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    let (cid, dan) = (Raw::of(&server.url, "cid").await, Raw::of(&server.url, "dan").await);
    let id = ann.start(Of::Alone, "deploy", json!({})).await;
    bob.get(Of::Alone, "tasks/update", json!({"taskId": id, "inputResponses": {"q1": yes()}})).await;
    let job = server.stage.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    let seen = until(&cid, &id, |task| task["statusMessage"] == "it runs").await;
    assert_eq!(seen["status"], "working");
    let log = format!("taskbridge://tasks/{id}/log");
    for of in [Of::Sessions, Of::Alone] {
        cid.get(of, "resources/read", json!({ "uri": log })).await;
        let refused = cid.ask(of, "tasks/cancel", json!({"taskId": id})).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("not cancel this task"), "{refused}");
        let unknown = dan.ask(of, "tasks/cancel", json!({"taskId": "never-was"})).await;
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(dan.ask(of, method, json!({"taskId": id})).await, unknown, "{method}");
        }
        assert_eq!(dan.ask(of, "resources/read", json!({ "uri": log })).await.body["result"], Value::Null);
    }
    let params = json!({"taskId": id, "inputResponses": {"q1": yes()}});
    let refused = cid.ask(Of::Alone, "tasks/update", params).await.body;
    assert!(refused.to_string().contains("not answer what this task asks"), "{refused}");
    for raw in [&bob, &cid] {
        let listed = raw.get(Of::Sessions, "tasks/list", json!({})).await;
        assert_eq!(listed["tasks"], json!([]), "a list is of one's own");
    }
    assert_eq!(ann.get(Of::Alone, "tasks/get", json!({"taskId": id})).await["status"], "working");
}

/// The rule applies to the owner as well.
#[tokio::test]
async fn cancel_rule_decides_who_cancels() {
    let server = server().await;
    let (ann, cid) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "cid").await);
    for of in [Of::Sessions, Of::Alone] {
        let id = ann.start(of, "batch", json!({})).await;
        let refused = ann.ask(of, "tasks/cancel", json!({"taskId": id})).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("not cancel this task"), "{refused}");
        cid.get(of, "tasks/cancel", json!({"taskId": id})).await;
    }
}

/// A read by another caller is no delivery: the owner's repeated call still gets the result of the first one.
#[tokio::test]
async fn foreign_read_keeps_abandoned_call() {
    for of in [Of::Sessions, Of::Alone] {
        let server = server().await;
        let (ann, cid) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "cid").await);
        let call = || json!({"name": "shown", "arguments": {}});
        tokio::select! {
            answer = ann.ask(of, "tools/call", call()) => panic!("nobody was to answer it: {answer:?}"),
            job = server.stage.job(1) => job.succeed("done"),
        }
        // The call counts as abandoned when its budget is over, at the latest.
        tokio::time::sleep(BUDGET).await;
        let id = ann.get(Of::Sessions, "tasks/list", json!({})).await["tasks"][0]["taskId"].clone();
        until(&cid, id.as_str().unwrap(), |task| task["status"] == "completed").await;
        cid.get(Of::Sessions, "tasks/result", json!({"taskId": id})).await;
        let wait = json!({"name": "task_wait", "arguments": {"task_id": id}});
        cid.get(Of::Sessions, "tools/call", wait).await;
        let again = ann.get(of, "tools/call", call()).await.to_string();
        assert!(again.contains("nothing was started a second time") && again.contains("done"), "{again}");
        assert_eq!(server.stage.starts(), 1);
        // The owner has received the result, so the next call starts a new job.
        tokio::select! {
            answer = ann.ask(of, "tools/call", call()) => panic!("nobody was to answer it: {answer:?}"),
            _ = server.stage.job(2) => {}
        }
    }
}

/// A session that polls is asked on its listening stream, except for questions that others must answer.
#[tokio::test]
async fn polling_owner_is_not_asked() {
    let server = server().await;
    let (ann, again) = (server.client_of("key-of-ann").await, server.client_of("key-of-ann").await);
    let bob = server.client_of("key-of-bob").await;
    let (mut hers, mut his) = (again.listen().await, bob.listen().await);
    let id = ann.start("deploy", json!({})).await;
    assert_eq!(again.task(&id).await["status"], "working");
    bob.until(&id, "input_required").await;
    let question = his.message().await;
    assert_eq!(question["params"]["message"], "Really deploy?", "{question}");
    let last = again.start("batch", json!({"end": {"succeeded": {}}})).await;
    let told = hers.message().await;
    assert_eq!(told["params"]["taskId"], last.as_str(), "{told}");
    assert_eq!(bob.reply(&question, yes()).await, 202);
}
