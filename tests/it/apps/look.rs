//! Tests for `task_view`: who may look, what is shown, what has not changed, and how large an answer can be.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::{with_views, with_views_and_tasks};
use crate::access::raw::Protocol::{Stateful, Stateless};
use crate::access::raw::{Protocol, RawClient};
use crate::access::{keys, with_timeout};
use crate::v2025::bench::Server;

const TOOLS: &str = r#"
[tools.deploy]
title = "Deploy it"
backend = "stage"
target = {}
answer_by_model = true
input_schema = { type = "object" }
access.answer = { groups = ["approvers"], not_caller = true }
access.see = { groups = ["ops"] }

[tools.free]
backend = "stage"
target = {}
answer_by_model = true
input_schema = { type = "object" }

"#;

async fn server() -> Server {
    server_with("").await
}

/// Starts a server with these additional tables.
async fn server_with(more: &str) -> Server {
    let keys = keys(&[
        ("ann", "groups = [\"approvers\"]"),
        ("bob", "groups = [\"approvers\"]"),
        ("cid", "groups = [\"ops\"]"),
        ("dan", ""),
    ]);
    let changes = [("max_log_bytes = 200", "max_log_bytes = 1000000"), ("page_size = 3", "page_size = 50")];
    Server::configured(&changes, &format!("{keys}{TOOLS}{more}")).await
}

async fn client(server: &Server, name: &str) -> RawClient {
    RawClient::open_with(&server.url, name, with_views_and_tasks()).await
}

async fn call(client: &RawClient, protocol: Protocol, name: &str, arguments: Value) -> Value {
    client.expect_result(protocol, "tools/call", json!({"name": name, "arguments": arguments})).await
}

/// Looks at a task, and returns what is shown.
async fn look(client: &RawClient, protocol: Protocol, arguments: Value) -> Value {
    let answer = call(client, protocol, "task_view", arguments).await;
    assert!(answer["content"][0]["text"].is_string(), "{answer}");
    answer["structuredContent"].clone()
}

/// Looks until the condition holds.
async fn look_until(client: &RawClient, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let looks = async {
        loop {
            let shown = look(client, Stateless, json!({"task_id": id})).await;
            if condition(&shown) {
                return shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    with_timeout(looks).await
}

fn form() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

/// A look shows the state, the drawing, and what the caller may do. The drawing escapes what an engine says.
#[tokio::test]
async fn look_shows_task() {
    let server = server().await;
    let ann = client(&server, "ann").await;
    for (n, protocol) in [(1, Stateful), (2, Stateless)] {
        let id = ann.start(protocol, "free", json!({})).await;
        let job = server.engine.job(n).await;
        job.ask("<b>key</b>", "How \u{1b}[31mmany?", form());
        let shown = look_until(&ann, &id, |shown| shown["questions"][0].is_object()).await;
        assert_eq!(
            (&shown["status"], &shown["class"]),
            (&json!("input_required"), &json!("asks")),
            "{shown}"
        );
        assert_eq!(shown["mayCancel"], true, "{shown}");
        let question = &shown["questions"][0];
        assert_eq!((&question["text"], &question["schema"]), (&json!("How many?"), &form()), "{shown}");
        assert_eq!(question.get("elsewhere"), None, "{shown}");
        let drawing = shown["drawing"].as_str().unwrap();
        assert!(drawing.contains("<svg") && !drawing.contains("<b>"), "{drawing}");

        let answer = json!({"task_id": id, "question": question["question"], "content": {"n": 7}});
        let answered = call(&ann, protocol, "task_answer", answer).await;
        assert_eq!(answered["isError"], false, "{answered}");
        job.wait_for_answer().await;
        job.set_log("printed\n");
        job.succeed("done \u{202e}so");
        let shown = look_until(&ann, &id, |shown| shown["outcome"].is_object()).await;
        let outcome = json!({"succeeded": true, "text": "done so", "cut": false, "files": []});
        assert_eq!(shown["outcome"], outcome, "{shown}");
        assert_eq!((shown.get("pollAfterMs"), &shown["mayCancel"]), (None, &json!(false)), "{shown}");
        let with_log = look(&ann, protocol, json!({"task_id": id, "log": true})).await;
        assert_eq!(with_log["log"], json!({"text": "printed\n", "cut": false}), "{with_log}");
    }
}

/// What has not changed is answered in a few bytes, and a change in full. A mark that is none counts as none.
#[tokio::test]
async fn unchanged_task_is_answered_briefly() {
    let server = server().await;
    let ann = client(&server, "ann").await;
    let id = ann.start(Stateless, "free", json!({})).await;
    let job = server.engine.job(1).await;
    job.succeed("done");
    // The last change: that this result was read is written behind the answer.
    let is_read = |shown: &Value| shown["drawing"].as_str().is_some_and(|text| text.contains("result read"));
    let ended = look_until(&ann, &id, is_read).await;
    let again = look(&ann, Stateless, json!({"task_id": id, "since": ended["mark"]})).await;
    assert_eq!(again, json!({"task": id, "unchanged": true, "mark": ended["mark"]}));
    for since in ["", "1.2.3", "no mark", "0.0"] {
        let whole = look(&ann, Stateless, json!({"task_id": id, "since": since})).await;
        assert!(whole["outcome"].is_object(), "{since}: {whole}");
    }
    let wrong = call(&ann, Stateless, "task_view", json!({"task_id": id, "since": 5})).await;
    assert!(
        wrong["isError"] == true && wrong["content"][0]["text"].as_str().unwrap().contains("`since` is 5")
    );
}

/// Nothing hinges on that a host hides the tool: another owner's task is not there, and what a caller may not
/// do is neither offered nor done.
#[tokio::test]
async fn look_follows_access_rules() {
    let server = server().await;
    let (ann, bob) = (client(&server, "ann").await, client(&server, "bob").await);
    let (cid, dan) = (client(&server, "cid").await, client(&server, "dan").await);
    let id = ann.start(Stateless, "deploy", json!({})).await;
    server.engine.job(1).await.ask("go", "Go?", form());
    let own = look_until(&ann, &id, |shown| shown["questions"][0].is_object()).await;
    assert_eq!(own["title"], "Deploy it");
    let four_eyes = own["questions"][0]["elsewhere"].as_str().unwrap();
    assert!(four_eyes.contains("answered by somebody else"), "{own}");
    assert_eq!((own["questions"][0].get("schema"), &own["mayCancel"]), (None, &json!(true)), "{own}");

    for protocol in [Stateful, Stateless] {
        let seen = look(&bob, protocol, json!({"task_id": id})).await;
        assert!(seen["questions"][0]["schema"].is_object() && seen["mayCancel"] == false, "{seen}");
        assert!(seen["whyNoCancel"].as_str().unwrap().contains("others may"), "{seen}");

        let seen = look(&cid, protocol, json!({"task_id": id, "log": true})).await;
        assert!(seen["questions"][0]["elsewhere"].as_str().unwrap().contains("you may look"), "{seen}");
        for (name, arguments) in [
            ("task_cancel", json!({"task_id": id})),
            ("task_answer", json!({"task_id": id, "content": {"n": 1}})),
        ] {
            for client in [&cid, &dan] {
                assert_eq!(call(client, protocol, name, arguments.clone()).await["isError"], true, "{name}");
            }
        }
        for (client, id) in [(&dan, id.as_str()), (&ann, "0000"), (&ann, "")] {
            let answer = call(client, protocol, "task_view", json!({"task_id": id, "log": true})).await;
            let gone = json!({"task": id, "gone": true});
            assert_eq!((&answer["isError"], &answer["structuredContent"]), (&json!(true), &gone), "{answer}");
        }
    }
    assert_eq!(look(&ann, Stateless, json!({"task_id": id})).await["status"], "input_required");
}

/// A model must not answer for a person, and the view looks like a model: it says where to answer.
#[tokio::test]
async fn question_for_person_is_answered_elsewhere() {
    let server = server().await;
    let ann = client(&server, "ann").await;
    let id = ann.start(Stateless, "work", json!({})).await;
    server.engine.job(1).await.ask("go", "Go?", form());
    let shown = look_until(&ann, &id, |shown| shown["questions"][0].is_object()).await;
    let question = &shown["questions"][0];
    let elsewhere = question["elsewhere"].as_str().unwrap();
    assert!(elsewhere.contains("A person must answer this") && elsewhere.contains("elicitation"), "{shown}");
    assert_eq!(question.get("schema"), None, "{shown}");
    let refused = call(&ann, Stateless, "task_answer", json!({"task_id": id, "content": {"n": 1}})).await;
    assert!(refused["isError"] == true, "{refused}");
}

#[tokio::test]
async fn expired_task_is_gone() {
    let server =
        server_with("[lifetime]\ndefault_ttl = \"1s\"\nmin_ttl = \"1s\"\nkeep_result = \"1s\"\n").await;
    let ann = client(&server, "ann").await;
    let id = ann.start(Stateless, "free", json!({})).await;
    server.engine.job(1).await.succeed("done");
    let gone = look_until(&ann, &id, |shown| shown["gone"] == true).await;
    assert_eq!(gone, json!({"task": id, "gone": true}));
}

/// Each read of the log has a line in the audit log, whatever a client says that its view has.
#[tokio::test]
async fn each_read_of_log_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let audit = format!("[audit]\nto = [\"file\"]\npath = {file:?}\non_failure = \"refuse\"\n");
    let server = server_with(&audit).await;
    let ann = client(&server, "ann").await;
    let id = ann.start(Stateless, "free", json!({})).await;
    server.engine.job(1).await.set_log("printed\n");
    let shown = look_until(&ann, &id, |shown| shown["hasLog"] == true).await;
    for since in [shown["mark"].as_str().unwrap(), "1.1"] {
        let asked = json!({"task_id": id, "since": since, "log": true});
        assert_eq!(look(&ann, Stateless, asked).await["log"]["text"], "printed\n");
    }
    let lines = std::fs::read_to_string(file).unwrap();
    assert_eq!(lines.matches("\"event\":\"log.read\"").count(), 2, "{lines}");
}

/// Whatever an engine says, an answer stays below 256 KiB, and mostly far below.
#[tokio::test]
async fn look_is_bounded() {
    let server = server().await;
    let ann = client(&server, "ann").await;
    let id = ann.start(Stateless, "free", json!({})).await;
    let job = server.engine.job(1).await;
    let large = "<&\"x".repeat(25_000);
    job.set_log(&large);
    let properties: serde_json::Map<String, Value> =
        (0..900).map(|n| (format!("field{n}"), json!({"type": "string", "title": "t".repeat(60)}))).collect();
    job.ask("big", &large, json!({"type": "object", "properties": properties}));
    let shown = look_until(&ann, &id, |shown| shown["questions"][0].is_object()).await;
    let question = &shown["questions"][0];
    assert!(question.get("schema").is_none() && question["elsewhere"].is_string(), "the form is too large");
    assert_eq!(question["text"].as_str().unwrap().chars().count(), 4_000);
    let mut observation = Observation::new(JobState::Running);
    observation.message = Some(large.clone());
    job.show(observation);
    for n in 0..500 {
        job.progress(f64::from(n), 500.0);
    }
    job.succeed(&large);
    look_until(&ann, &id, |shown| shown["outcome"].is_object()).await;
    let answer = call(&ann, Stateless, "task_view", json!({"task_id": id, "log": true})).await;
    let shown = &answer["structuredContent"];
    assert!(shown["outcome"]["cut"] == true && shown["outcome"]["text"].as_str().unwrap().len() <= 4096);
    assert!(shown["log"]["cut"] == true && shown["log"]["text"].as_str().unwrap().len() <= 8192);
    assert!(answer.to_string().len() < 256 * 1024, "{} bytes", answer.to_string().len());
}

/// A client without tasks gets the handle in two seconds, and the view goes on from there.
#[tokio::test]
async fn handle_comes_early_for_view() {
    let budget = [("call_budget = \"2s\"", "call_budget = \"1h\"")];
    let server = Server::configured(&budget, &keys(&[("ann", "")])).await;
    let ann = RawClient::open_with(&server.url, "ann", with_views()).await;
    for protocol in [Stateful, Stateless] {
        let handle = with_timeout(call(&ann, protocol, "work", json!({}))).await;
        let id = handle["structuredContent"]["task_id"].as_str().unwrap();
        assert_eq!(look(&ann, protocol, json!({"task_id": id})).await["status"], "working");
    }
}
