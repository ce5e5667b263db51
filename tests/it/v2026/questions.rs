//! Tests for questions of a running task: `inputRequests`, and `tasks/update`.

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Ask, JobState, Observation, Question};

use super::bench::{Client, all_capabilities, server, text};

fn form(name: &str) -> Value {
    json!({"type": "object", "properties": {name: {"type": "string", "minLength": 2}}, "required": [name]})
}

fn accept(name: &str, value: &str) -> Value {
    json!({"action": "accept", "content": {name: value}})
}

fn accepted(name: &str, value: &str) -> Answer {
    Answer::Accept(json!({ name: value }).as_object().unwrap().clone())
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Returns the keys of a task's questions, ordered by their messages.
fn keys(task: &Value) -> Vec<String> {
    let mut requests: Vec<_> = task["inputRequests"].as_object().unwrap().iter().collect();
    requests.sort_by_key(|(_, request)| request["params"]["message"].to_string());
    requests.into_iter().map(|(key, _)| key.clone()).collect()
}

/// The question is in the task until it is answered. Later and unknown answers have no effect.
#[tokio::test]
async fn answer_applies_before_acknowledgement() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form("name"));
    let task = client.wait_for_status(&id, "input_required").await;
    let keys = keys(&task);
    let params = json!({"mode": "form", "message": "Who?", "requestedSchema": form("name")});
    assert_eq!(
        task["inputRequests"],
        json!({ &keys[0]: {"method": "elicitation/create", "params": params} })
    );
    assert_eq!(task.get("requestState"), None);
    assert_eq!(client.task(&id).await["inputRequests"], task["inputRequests"], "until it is answered");
    client.update(&id, json!({ &keys[0]: accept("name", "ana") })).await;
    let after = client.task(&id).await;
    assert_eq!((&after["status"], after.get("inputRequests")), (&json!("working"), None));
    assert_eq!(job.wait_for_answer().await, accepted("name", "ana"));
    // A second answer, and an answer to a question that was never asked, change nothing.
    client.update(&id, json!({ &keys[0]: accept("name", "bob"), "never-asked": accept("x", "y") })).await;
    client.update(&id, json!({})).await;
    assert_eq!(job.answers().len(), 1);
    job.succeed("hello ana");
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "hello ana");
    client.update(&id, json!({ &keys[0]: accept("name", "cid") })).await;
}

/// A key is never used again, and the answer to a withdrawn question is ignored.
#[tokio::test]
async fn questions_are_answered_independently() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.set_questions(vec![Question::form("a", "1?", form("a")), Question::form("b", "2?", form("b"))]);
    let task = client.poll(&id, |task| task["inputRequests"].as_object().is_some_and(|r| r.len() == 2)).await;
    let first = keys(&task);
    client.update(&id, json!({ &first[1]: accept("b", "two") })).await;
    let task = client.task(&id).await;
    assert_eq!(task["status"], "input_required");
    assert_eq!(keys(&task), first[..1], "the other one is open still");
    client.update(&id, json!({ &first[0]: {"action": "decline"} })).await;
    assert_eq!(client.task(&id).await["status"], "working");
    while job.answers().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(job.answers().contains(&Answer::Decline) && job.answers().contains(&accepted("b", "two")));

    job.set_questions(vec![Question::form("c", "3?", form("a"))]);
    let second = keys(&client.wait_for_status(&id, "input_required").await);
    assert!(!first.contains(&second[0]), "{second:?} after {first:?}");
    job.set_questions(vec![Question::form("d", "4?", form("a"))]);
    let task = client.poll(&id, |task| task.to_string().contains("4?")).await;
    let third = keys(&task);
    assert!(third.len() == 1 && !first.contains(&third[0]) && third != second, "{third:?}");
    client.update(&id, json!({ &second[0]: accept("a", "too late") })).await;
    assert_eq!(client.task(&id).await["status"], "input_required", "the one that was withdrawn is ignored");
}

/// Of several answers in one update, the valid ones apply.
#[tokio::test]
async fn invalid_answer_leaves_others_valid() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.set_questions(vec![Question::form("a", "1?", form("a")), Question::form("b", "2?", form("b"))]);
    let task = client.poll(&id, |task| task["inputRequests"].as_object().is_some_and(|r| r.len() == 2)).await;
    let keys = keys(&task);
    for invalid in [
        json!({"action": "accept", "content": {"a": "x"}}),
        json!({"action": "accept", "content": {"a": 5}}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept"}),
        json!({"action": "perhaps"}),
        json!({}),
    ] {
        let params = json!({"taskId": id, "inputResponses": { &keys[0]: invalid }});
        let failure = client.expect_error("tasks/update", params).await;
        assert_eq!(failure.code, -32602);
        assert!(failure.message.contains(&format!("inputResponses[\"{}\"]", keys[0])), "{failure:?}");
    }
    let params = json!({
        "taskId": id, "inputResponses": { &keys[0]: {"action": "perhaps"}, &keys[1]: accept("b", "two") }
    });
    assert_eq!(client.expect_error("tasks/update", params).await.code, -32602);
    assert_eq!(job.wait_for_answer().await, accepted("b", "two"));
    assert_eq!(self::keys(&client.task(&id).await), keys[..1]);
    for wrong in [json!(null), json!([]), json!({ &keys[0]: "ana" }), json!("ana")] {
        let failure =
            client.expect_error("tasks/update", json!({"taskId": id, "inputResponses": wrong})).await;
        assert_eq!(failure.code, -32602);
        assert!(failure.message.contains("inputResponses"), "{failure:?}");
    }
    assert_eq!(client.expect_error("tasks/update", json!({ "taskId": id })).await.code, -32602);
}

#[tokio::test]
async fn every_request_kind_is_answered() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let sampling = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "The capital?"}}], "maxTokens": 20
    });
    let question =
        |id: &str, message: &str, ask: Ask| Question { id: id.to_owned(), message: message.to_owned(), ask };
    job.set_questions(vec![
        question("page", "Sign in", Ask::Url("https://example.com/in".to_owned())),
        question("model", "", Ask::Sampling(object(sampling.clone()))),
        question("roots", "", Ask::Roots),
    ]);
    let task = client.poll(&id, |task| task["inputRequests"].as_object().is_some_and(|r| r.len() == 3)).await;
    let requests = task["inputRequests"].as_object().unwrap();
    let mut responses = Map::new();
    for (key, request) in requests {
        let response = match request["method"].as_str().unwrap() {
            "elicitation/create" => {
                let page = json!({"mode": "url", "message": "Sign in", "url": "https://example.com/in"});
                assert_eq!(request["params"], page);
                json!({"action": "accept"})
            }
            "sampling/createMessage" => {
                assert_eq!(request["params"], sampling);
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}})
            }
            "roots/list" => json!({"roots": [{"uri": "file:///home"}]}),
            other => panic!("no such request: {other}"),
        };
        responses.insert(key.clone(), response);
    }
    client.update(&id, Value::Object(responses)).await;
    assert_eq!(client.task(&id).await["status"], "working");
    while job.answers().len() < 3 {
        tokio::task::yield_now().await;
    }
    let has = |name: &str| {
        job.answers().iter().any(|a| matches!(a, Answer::Accept(content) if content.contains_key(name)))
    };
    assert!(has("roots") && has("model"));
}

#[tokio::test]
async fn question_requires_declared_capability() {
    let server = server("").await;
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.set_questions(vec![
        Question::form("who", "Who?", form("name")),
        Question { id: "roots".to_owned(), message: String::new(), ask: Ask::Roots },
    ]);
    client.poll(&id, |task| task["inputRequests"].as_object().is_some_and(|r| r.len() == 2)).await;
    for (capabilities, methods) in [
        (json!({"elicitation": {}}), vec!["elicitation/create"]),
        (json!({"elicitation": {"form": {}}, "sampling": {}}), vec!["elicitation/create"]),
        (json!({"roots": {}}), vec!["roots/list"]),
        (json!({"elicitation": {"url": {}}, "roots": {}}), vec!["roots/list"]),
    ] {
        let task = Client::with_capabilities(&server, capabilities).with_tasks().task(&id).await;
        assert_eq!(task["status"], "input_required");
        let requests = task["inputRequests"].as_object().unwrap();
        assert!(requests.values().map(|r| r["method"].as_str().unwrap()).eq(methods), "{task}");
    }
    let incapable_client = Client::with_capabilities(&server, json!({})).with_tasks();
    let task = incapable_client.task(&id).await;
    assert_eq!((&task["status"], task.get("inputRequests")), (&json!("working"), None));
    assert!(task["statusMessage"].as_str().unwrap().contains("waiting for an answer"), "{task}");
    let all = Client::with_capabilities(&server, all_capabilities()).with_tasks().task(&id).await;
    assert_eq!(all["inputRequests"].as_object().unwrap().len(), 2);
}

/// The job is cancelled, and receives no answer.
#[tokio::test]
async fn refusal_ends_task_if_configured() {
    let server = server(
        r#"
        [tools.strict]
        backend = "stage"
        target = {}
        on_decline = "fail"
        on_dismiss = "cancel"
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = Client::new(&server);
    for (n, action, status) in [(1, "decline", "completed"), (2, "cancel", "cancelled")] {
        let id = client.start("strict", json!({ "n": n })).await;
        let job = server.engine.job(n).await;
        job.ask("who", "Who?", form("name"));
        let key = keys(&client.wait_for_status(&id, "input_required").await).remove(0);
        client.update(&id, json!({ &key: { "action": action } })).await;
        let task = client.task(&id).await;
        assert_eq!(task["status"], status);
        if status == "completed" {
            assert_eq!(task["result"]["isError"], true);
        }
        job.wait_for_cancel().await;
        assert_eq!(job.answers(), [], "the job is stopped and not told");
    }
}

/// The task keeps waiting, and an answer that is given in the engine counts.
#[tokio::test]
async fn unable_client_sees_where_to_answer() {
    let server = server(
        r#"
        [tools.modelled]
        backend = "stage"
        target = {}
        answer_by_model = true
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = Client::with_capabilities(&server, json!({})).with_tasks();
    let has_message = |part: &'static str| {
        move |task: &Value| task["statusMessage"].as_str().is_some_and(|message| message.contains(part))
    };
    for (n, tool, by_model) in [(1, "work", ""), (2, "modelled", "Answer it with task_answer. ")] {
        let id = client.start(tool, json!({ "n": n })).await;
        let job = server.engine.job(n).await;
        job.ask("who", "Who?", form("name"));
        let task = client.poll(&id, has_message("Who?")).await;
        let expected = format!(
            "waiting for an answer to \"Who?\": this client cannot answer it (it has not declared elicitation). {by_model}\
             A person can answer it in any client of the same owner that shows forms (elicitation), or in the engine itself"
        );
        assert_eq!((&task["status"], &task["statusMessage"]), (&json!("working"), &json!(expected)));
        job.show(Observation::new(JobState::Running).with_message("approved there"));
        assert_eq!(client.poll(&id, has_message("approved there")).await["status"], "working");
        job.succeed("done");
        assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "done");
    }
}

#[tokio::test]
async fn answer_within_ends_unanswered_task() {
    let server = server(
        r#"
        [tools.hasty]
        backend = "stage"
        target = {}
        answer_within = "300ms"
        input_schema = { type = "object" }
        "#,
    )
    .await;
    let client = Client::new(&server);
    let id = client.start("hasty", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form("name"));
    let task = client.wait_for_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    let expected =
        "the question \"Who?\" was not answered within 300ms (answer_within), so the job is stopped";
    assert_eq!(task["statusMessage"], expected);
    job.wait_for_cancel().await;
    assert_eq!(job.answers(), []);
}
