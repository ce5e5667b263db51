//! Tests of parameters with `type = "task"`. A caller names one of their tasks, and the job gets the
//! engine's handle of that task's job. Responses of the call name the referenced task. Tasks of other owners
//! or backends are refused.

use serde_json::{Value, json};

use crate::support::{Client, ModernClient, TestApp, TestDir, text};

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
call_budget = "20s"

[auth]
mode = "api_keys"

[[auth.keys]]
principal = "ann"
sha256 = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c"

[[auth.keys]]
principal = "bob"
sha256 = "9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98"

[store]
path = "state/taskbridge.db"

[backends.engine]
kind = "sim"

[backends.other]
kind = "sim"

[tools.job]
backend = "engine"
target = { delay_ms = 50 }

[tools.held]
backend = "engine"
target = {}
confirm = "Go?"

[tools.narrow]
backend = "engine"
target = {}
max_running = 1
when_full = "queue"
parameters.delay_ms = { type = "integer" }

[tools.elsewhere]
backend = "other"
target = { delay_ms = 50 }

# The simulated engine gives back the `text` that it is given.
[tools.about]
backend = "engine"
target = { delay_ms = 50 }
parameters.text = { type = "task", description = "Which job." }

[tools.perhaps]
backend = "engine"
target = { delay_ms = 50, text = "about nothing" }
parameters.text = { type = "task", required = false }
"#;

const KEY: &str = "io.taskbridge/refers-to";

fn app() -> TestApp {
    let dir = TestDir::new(CONFIG);
    TestApp { server: dir.serve(), dir }
}

async fn client(app: &TestApp, name: &str) -> Client {
    Client::open_with_key(app.server.url(), &format!("{name}-key")).await.unwrap()
}

/// Returns the last text of a result.
fn last_line(result: &Value) -> &str {
    let blocks = result["content"].as_array().unwrap();
    blocks.iter().rev().find_map(|block| block["text"].as_str()).unwrap()
}

/// A caller names a task, and the job gets the engine's handle. The replies name the task.
#[tokio::test]
async fn job_gets_handle_of_referenced_task() {
    let app = app();
    let client = client(&app, "ann").await;
    let offered = client.request("tools/list", json!({})).await.unwrap();
    let offered = offered["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "about").unwrap();
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 64, "description": "Which job."});
    assert_eq!(offered["inputSchema"]["properties"]["text"], schema);

    let first = client.start("job", json!({})).await.unwrap();
    client.result(&first).await.unwrap();
    let line = format!("It refers to task {first}.");
    let created = client
        .request("tools/call", json!({"name": "about", "arguments": {"text": first}, "task": {}}))
        .await
        .unwrap();
    assert_eq!(created["_meta"][KEY], json!([first]));
    let immediate_response =
        created["_meta"]["io.modelcontextprotocol/model-immediate-response"].as_str().unwrap();
    assert!(immediate_response.ends_with(&line), "{immediate_response}");
    let ended = client.result(created["task"]["taskId"].as_str().unwrap()).await.unwrap();
    assert_eq!(ended["_meta"][KEY], json!([first]));
    assert_eq!(last_line(&ended), line);
    let handle = ended["content"][0]["text"].as_str().unwrap();
    assert!(!handle.contains(&first) && !handle.is_empty(), "the engine's name, and not ours: {handle}");

    // The same with the other generation, and with a call that waits for its result.
    for modern in [ModernClient::with_tasks(app.server.url()), ModernClient::without_tasks(app.server.url())]
    {
        let modern = modern.with_key("ann-key");
        let mut result = modern.call("about", &json!({"text": first}), json!({})).await.unwrap();
        assert_eq!(result["_meta"][KEY], json!([first]), "{result}");
        if let Some(id) = result["taskId"].as_str() {
            let id = id.to_owned();
            result = loop {
                let task = modern.request("tasks/get", json!({"taskId": id})).await.unwrap();
                if task["status"] == "completed" {
                    break task["result"].clone();
                }
            };
        }
        assert_eq!(
            (result["content"][0]["text"].as_str(), last_line(&result)),
            (Some(handle), line.as_str())
        );
    }
    let no_reference = client.call("perhaps", json!({})).await.unwrap();
    assert_eq!((text(&no_reference).as_str(), &no_reference["_meta"][KEY]), ("about nothing", &Value::Null));
}

/// A reference to an unknown, foreign or unstarted task, or to one of another backend, is refused.
#[tokio::test]
async fn invalid_reference_starts_nothing() {
    let app = app();
    let (ann, bob) = (client(&app, "ann").await, client(&app, "bob").await);
    let bob_task = bob.start("job", json!({})).await.unwrap();
    bob.result(&bob_task).await.unwrap();
    let other_backend_task = ann.start("elsewhere", json!({})).await.unwrap();
    ann.result(&other_backend_task).await.unwrap();
    let unstarted = ann.start("held", json!({})).await.unwrap();
    ann.cancel(&unstarted).await.unwrap();
    let before = ann.list().await.unwrap().len();
    for (id, expected) in [
        ("nosuch", "there is no task nosuch, or it has expired"),
        (&bob_task, "there is no task"),
        (&other_backend_task, "runs on `other`, and about does not"),
        (&unstarted, "ended before it was started"),
        ("", "is shorter than 1 character"),
    ] {
        let refused = ann.call("about", json!({"text": id})).await.unwrap();
        assert_eq!(refused["isError"], true, "{refused}");
        let text = text(&refused);
        assert!(text.contains("text") && text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(ann.list().await.unwrap().len(), before);
}

/// The handle of the second job is unknown until the first job has ended.
#[tokio::test]
async fn call_waits_until_reference_has_started() {
    let app = app();
    let ann = client(&app, "ann").await;
    let first = ann.start("narrow", json!({"delay_ms": 3_600_000})).await.unwrap();
    let queued = ann.start("narrow", json!({"delay_ms": 0})).await.unwrap();
    let about = ann.start("about", json!({"text": queued})).await.unwrap();
    let task = ann.get(&about).await.unwrap();
    assert_eq!(task["status"], "working", "{task}");
    assert_eq!(task["statusMessage"], format!("waiting for task {queued} to start"));
    ann.cancel(&first).await.unwrap();
    let result = ann.result(&about).await.unwrap();
    let handle = result["content"][0]["text"].as_str().unwrap();
    assert!(!handle.is_empty() && !handle.contains(&queued), "the engine's name: {result}");
}

#[tokio::test]
async fn call_fails_if_reference_never_starts() {
    let app = app();
    let ann = client(&app, "ann").await;
    let first = ann.start("narrow", json!({"delay_ms": 3_600_000})).await.unwrap();
    let queued = ann.start("narrow", json!({"delay_ms": 0})).await.unwrap();
    let about = ann.start("about", json!({"text": queued})).await.unwrap();
    ann.cancel(&queued).await.unwrap();
    let result = ann.result(&about).await.unwrap();
    assert_eq!(result["isError"], true, "{result}");
    let message = format!("not started: task {queued}, which `text` names, ended before it was started");
    assert!(text(&result).contains(&message), "{result}");
    ann.cancel(&first).await.unwrap();
}
