//! Tests for the companion tools, which continue from a handle.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::TOOLS;
use super::bench::{Client, Server};

async fn use_tool(client: &Client, name: &str, arguments: Value) -> Value {
    client.get("tools/call", json!({"name": name, "arguments": arguments})).await
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap()
}

/// Calls a tool plainly, and returns the id in the handle.
async fn handle(client: &Client, tool: &str) -> String {
    let answer = use_tool(client, tool, json!({})).await;
    answer["structuredContent"]["task_id"].as_str().unwrap().to_owned()
}

/// Until then it returns the status, and reports progress.
#[tokio::test]
async fn task_wait_returns_result() {
    let server = Server::start().await;
    let client = server.client_without_capabilities().await;
    let id = handle(&client, "work").await;
    let pending = use_tool(&client, "task_wait", json!({"task_id": id})).await;
    assert_eq!(pending["structuredContent"]["task_id"], id);
    assert_eq!(pending["isError"], false);
    let polled = use_tool(&client, "task_wait", json!({"task_id": id, "seconds": 0})).await;
    assert_eq!(polled["structuredContent"]["status"], "working");
    let params = json!({
        "name": "task_wait", "arguments": {"task_id": id}, "_meta": {"progressToken": "w"}
    });
    let mut waiting = client.open("tools/call", params).await;
    assert_eq!(waiting.message().await["params"]["progressToken"], "w");
    server.engine.job(1).await.succeed("there");
    let (_, answer) = waiting.all().await;
    assert_eq!(text(&answer.unwrap()), "there");
    assert_eq!(text(&use_tool(&client, "task_wait", json!({"task_id": id})).await), "there");
}

#[tokio::test]
async fn task_cancel_stops_a_task_once() {
    let server = Server::start().await;
    let client = server.client_without_capabilities().await;
    let id = handle(&client, "work").await;
    let answer = use_tool(&client, "task_cancel", json!({"task_id": id})).await;
    assert_eq!(answer["structuredContent"]["status"], "cancelled");
    assert_eq!(answer["structuredContent"].get("poll_after_seconds"), None);
    server.engine.job(1).await.wait_for_cancel().await;
    let again = use_tool(&client, "task_cancel", json!({"task_id": id})).await;
    assert_eq!(again["isError"], true);
    assert!(text(&again).contains("already ended (cancelled)"));
}

/// It answers only questions that the tool leaves to models.
#[tokio::test]
async fn task_answer_requires_tool_permission() {
    let server = Server::with(TOOLS).await;
    let client = server.client_without_capabilities().await;
    let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});

    let id = handle(&client, "modelled").await;
    let job = server.engine.job(1).await;
    let nothing = use_tool(&client, "task_answer", json!({"task_id": id})).await;
    assert!(nothing["isError"] == true && text(&nothing).contains("asks nothing"), "{nothing}");
    job.ask("how-many", "How many?", form.clone());
    let waiting_status = loop {
        let answer = use_tool(&client, "task_wait", json!({"task_id": id, "seconds": 0})).await;
        if answer["structuredContent"]["status"] == "input_required" {
            break answer;
        }
    };
    let question = &waiting_status["structuredContent"]["questions"][0];
    assert_eq!((&question["message"], &question["schema"]), (&json!("How many?"), &form));
    assert!(text(&waiting_status).contains("task_answer"), "{waiting_status}");
    let bad = json!({"task_id": id, "content": {"n": "seven"}});
    let bad = use_tool(&client, "task_answer", bad).await;
    assert!(bad["isError"] == true && text(&bad).contains("`n` must be a whole number"), "{bad}");
    let good = json!({"task_id": id, "question": question["question"], "content": {"n": 7}});
    let good = use_tool(&client, "task_answer", good).await;
    assert_eq!(good["isError"], false);
    assert_eq!(json!(job.wait_for_answer().await), json!({"action": "accept", "content": {"n": 7}}));

    let id = handle(&client, "work").await;
    server.engine.job(2).await.ask("q", "Really?", json!({"type": "object", "properties": {}}));
    let message = loop {
        let task = client.task(&id).await;
        assert_eq!(task["status"], "working", "this client cannot be asked");
        if let Some(message) = task["statusMessage"].as_str() {
            break message.to_owned();
        }
    };
    assert!(message.contains("Really?") && message.contains("A person can answer it"), "{message}");
    let refused = use_tool(&client, "task_answer", json!({"task_id": id})).await;
    assert!(refused["isError"] == true && text(&refused).contains("a person's answer"), "{refused}");
}

#[tokio::test]
async fn task_answer_never_gives_consent() {
    let server = Server::with(&format!("{TOOLS}\n[tools.both]\nbackend = \"stage\"\ntarget = {{}}\nconfirm = \"Go?\"\nanswer_by_model = true\ninput_schema = {{ type = \"object\" }}\n")).await;
    let client = server.client().await;
    let id = client.start("both", json!({})).await;
    let model = server.client_without_capabilities().await;
    let refused = use_tool(&model, "task_answer", json!({"task_id": id})).await;
    assert!(refused["isError"] == true && text(&refused).contains("a person's answer"), "{refused}");
    assert_eq!(server.engine.starts(), 0);
}

#[tokio::test]
async fn task_list_has_pages() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(client.start("work", json!({})).await);
    }
    let first = use_tool(&client, "task_list", json!({})).await["structuredContent"].clone();
    assert_eq!(first["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(first["tasks"][0]["task_id"], ids[3]);
    assert_eq!(first["tasks"][0]["tool"], "work");
    let next = json!({"cursor": first["next_cursor"]});
    let second = use_tool(&client, "task_list", next).await["structuredContent"].clone();
    assert_eq!(second["tasks"][0]["task_id"], ids[0]);
    assert_eq!(second.get("next_cursor"), None);
    let bad = use_tool(&client, "task_list", json!({"cursor": "x"})).await;
    assert!(bad["isError"] == true && text(&bad).starts_with("`cursor`"), "{bad}");
}

/// It says that earlier output is left out, and can search.
#[tokio::test]
async fn task_logs_shows_bounded_tail() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    client.wait_for_message(&id, "it runs").await;
    let log = async |arguments: Value| {
        let mut arguments = arguments;
        arguments["task_id"] = json!(id);
        text(&use_tool(&client, "task_logs", arguments).await).to_owned()
    };
    assert_eq!(log(json!({})).await, format!("Task {id} has printed nothing yet."));
    job.set_log("one\ntwo\nTwo again\n");
    assert_eq!(log(json!({})).await, "one\ntwo\nTwo again\n");
    assert_eq!(log(json!({"search": "TWO"})).await, "two\nTwo again\n");
    assert_eq!(log(json!({"search": "three"})).await, "No line contains \"three\".");
    assert_eq!(log(json!({"max_bytes": 6})).await, "[earlier output is left out]\nagain\n");
    job.set_log(&"x".repeat(1000));
    assert_eq!(log(json!({"max_bytes": 5000})).await.len(), 200 + "[earlier output is left out]\n".len());
}

/// Unknown tasks and invalid arguments are tool results with `isError`, not protocol errors.
#[tokio::test]
async fn companion_errors_reach_model() {
    let server = Server::start().await;
    let client = server.client().await;
    for tool in ["task_wait", "task_cancel", "task_answer", "task_logs"] {
        let answer = use_tool(&client, tool, json!({"task_id": "nope"})).await;
        assert!(answer["isError"] == true && text(&answer).contains("no task nope"), "{answer}");
        let answer = use_tool(&client, tool, json!({"task_id": 1})).await;
        assert!(answer["isError"] == true && text(&answer).starts_with("`task_id` is 1"), "{answer}");
    }
}

/// A client without tasks finishes a task, and a client with tasks finishes a handle.
#[tokio::test]
async fn clients_share_tasks_and_handles() {
    let server = Server::start().await;
    let tasks = server.client().await;
    let plain = server.client_with("2025-03-26", json!({}), None).await;
    let id = tasks.start("work", json!({})).await;
    server.engine.job(1).await.succeed("for both");
    assert_eq!(text(&use_tool(&plain, "task_wait", json!({"task_id": id})).await), "for both");
    let id = use_tool(&plain, "work", json!({})).await;
    let id = text(&id).split("task ").nth(1).unwrap().split('.').next().unwrap().to_owned();
    server.engine.job(2).await.succeed("for both again");
    assert_eq!(tasks.result(&id).await.unwrap()["content"][0]["text"], "for both again");
}

#[tokio::test]
async fn the_config_can_leave_them_out() {
    let server = Server::configured(&[("page_size = 3", "companion_tools = \"never\"")], "").await;
    let client = server.client().await;
    let tools = client.get("tools/list", json!({})).await["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1);
    assert!(!client.initialize_result["instructions"].as_str().unwrap().contains("task_wait"));
    let answer = use_tool(&client, "work", json!({})).await;
    assert!(!text(&answer).contains("task_wait"), "{answer}");
    assert_eq!(client.expect_error("tools/call", json!({"name": "task_wait"})).await.0, -32602);
}
