//! Tests for `tools/list`, and for which `tools/call` requests are accepted.

use serde_json::{Value, json};

use super::TOOLS;
use super::bench::{Client, Server};

pub(super) async fn all_tools(client: &Client) -> Vec<Value> {
    let (mut tools, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = client.get("tools/list", json!({ "cursor": cursor })).await;
        let listed = page["tools"].as_array().unwrap();
        assert!((1..=3).contains(&listed.len()), "a page has between one tool and page_size");
        tools.extend(listed.iter().cloned());
        match page.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => return tools,
        }
    }
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

pub(super) fn find_tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[tokio::test]
async fn tool_list_order_is_stable() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let tools = all_tools(&client).await;
    let expected = [
        "task_wait",
        "task_cancel",
        "task_answer",
        "task_list",
        "task_logs",
        "abandoned",
        "careful",
        "modelled",
        "must",
        "never",
        "queued",
        "single",
        "typed",
        "work",
    ];
    assert_eq!(names(&tools), expected);
    assert_eq!(all_tools(&client).await, tools);
}

/// Many clients read the first page only, and a handle names `task_wait`.
/// The companion tools come first.
#[tokio::test]
async fn first_page_has_200_tools() {
    let tool = |n| format!("[tools.t{n:03}]\nbackend = \"stage\"\ntarget = {{}}\n");
    let tools: String = (0..200).map(tool).collect();
    let server = Server::configured(&[("page_size = 3\n", "")], &tools).await;
    let page = server.client().await.get("tools/list", json!({})).await;
    let listed = page["tools"].as_array().unwrap();
    assert_eq!(names(listed)[..3], ["task_wait", "task_cancel", "task_answer"]);
    assert_eq!(find_tool(listed, "t199")["name"], "t199");
    assert_eq!(page.get("nextCursor"), None);
}

/// A changed, malformed or foreign cursor is refused.
#[tokio::test]
async fn cursor_is_bound_to_its_list() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    for _ in 0..4 {
        client.start("work", json!({})).await;
    }
    let of_tools = client.get("tools/list", json!({})).await["nextCursor"].clone();
    let of_tasks = client.get("tasks/list", json!({})).await["nextCursor"].clone();
    let mut changed = of_tools.as_str().unwrap().to_owned();
    changed.replace_range(30..31, if &changed[30..31] == "A" { "B" } else { "A" });
    let bad = [json!("x"), json!(""), json!(5), json!({}), json!(changed)];
    for (list, foreign) in
        [("tools/list", &of_tasks), ("tasks/list", &of_tools), ("resources/list", &of_tasks)]
    {
        for cursor in bad.iter().chain([foreign]) {
            let (code, message) = client.expect_error(list, json!({ "cursor": cursor })).await;
            assert_eq!(code, -32602, "{list} {cursor}");
            assert!(message.starts_with("`cursor` is"), "{message}");
        }
    }
}

#[tokio::test]
async fn tool_declares_task_support() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let tools = all_tools(&client).await;
    for (name, support) in
        [("work", "optional"), ("must", "required"), ("never", "forbidden"), ("task_wait", "forbidden")]
    {
        assert_eq!(find_tool(&tools, name)["execution"]["taskSupport"], support);
    }
    let never = find_tool(&tools, "never");
    assert_eq!(never["title"], "Never a task");
    assert_eq!(never["annotations"]["readOnlyHint"], true);
    assert_eq!(never["inputSchema"]["properties"]["size"]["minimum"], 1);
}

/// Only tools that may answer with a handle allow it.
#[tokio::test]
async fn output_schema_allows_handle() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let tools = all_tools(&client).await;
    let is_valid = |tool: &Value, value: Value| jsonschema::is_valid(&tool["outputSchema"], &value);
    let handle = json!({"task_id": "x", "status": "working", "poll_after_seconds": 1});
    let (typed, must) = (find_tool(&tools, "typed"), find_tool(&tools, "must"));
    assert!(is_valid(typed, json!({"answer": 1})) && is_valid(typed, handle.clone()));
    assert!(!is_valid(typed, json!({"answer": "1"})));
    assert!(is_valid(must, json!({"answer": 1})) && !is_valid(must, handle));
    assert_eq!(find_tool(&tools, "work").get("outputSchema"), None);
}

#[tokio::test]
async fn older_revisions_omit_tool_fields() {
    let server = Server::with(TOOLS).await;
    let older_client = server.client_with("2025-06-18", json!({}), None).await;
    let tools = all_tools(&older_client).await;
    assert!(tools.iter().all(|tool| tool.get("execution").is_none()));
    assert!(find_tool(&tools, "typed").get("outputSchema").is_some());
    let oldest_client = server.client_with("2025-03-26", json!({}), None).await;
    let tools = all_tools(&oldest_client).await;
    assert!(tools.iter().all(|tool| tool.get("outputSchema").is_none()));
}

/// Nothing starts.
#[tokio::test]
async fn unsupported_task_mode_is_refused() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    for (name, expected) in [("never", "without `params.task`"), ("task_wait", "without `params.task`")] {
        let (code, message) = client.expect_error("tools/call", json!({"name": name, "task": {}})).await;
        assert_eq!(code, -32601);
        assert!(message.contains(name) && message.contains(expected), "{message}");
    }
    for revision in ["2025-11-25", "2025-06-18"] {
        let client = server.client_with(revision, json!({}), None).await;
        let (code, message) = client.expect_error("tools/call", json!({"name": "must"})).await;
        assert_eq!(code, -32601);
        assert!(message.contains("\"must\"") && message.contains("`params.task`"), "{message}");
    }
    assert_eq!(client.get("tasks/list", json!({})).await["tasks"], json!([]), "no row was written");
    assert_eq!(server.engine.starts(), 0);
}

/// Nothing starts.
#[tokio::test]
async fn invalid_call_is_refused_with_reason() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    for (params, expected) in [
        (json!({"name": "nosuch"}), "Unknown tool: \"nosuch\""),
        (json!({"arguments": {}}), "`name` is missing"),
        (json!({"name": 7}), "`name` is 7"),
        (json!({"name": "work", "arguments": "x"}), "`arguments` is a string"),
        (json!({"name": "work", "task": {"ttl": "1m"}}), "`task.ttl` is a string"),
        (json!({"name": "work", "task": {"ttl": 0.5}}), "`task.ttl` is 0.5"),
        (json!({"name": "work", "task": {"ttl": -1}}), "`task.ttl` is -1"),
        (json!({"name": "work", "task": []}), "`task` is an array"),
        (json!({"name": "work", "_meta": {"progressToken": 1.5}}), "`_meta.progressToken` is 1.5"),
        (json!({"name": "work", "_meta": {"progressToken": true}}), "`_meta.progressToken` is true"),
        (json!({"name": "work", "_meta": "x"}), "`_meta` is a string"),
        (json!(null), "`params` is missing"),
    ] {
        let (code, message) = client.expect_error("tools/call", params).await;
        assert_eq!(code, -32602);
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(client.get("tasks/list", json!({})).await["tasks"], json!([]));
    assert_eq!(server.engine.starts(), 0);
}

/// They are a tool result with `isError`, so that the model can correct them.
#[tokio::test]
async fn invalid_arguments_reach_model() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    let answer = client.get("tools/call", json!({"name": "never", "arguments": {"size": 0}})).await;
    assert_eq!(answer["isError"], true);
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("size") && text.contains('1'), "{text}");
    assert_eq!(server.engine.starts(), 0);
}

#[tokio::test]
async fn full_tool_refuses_or_queues() {
    let server = Server::with(TOOLS).await;
    let client = server.client().await;
    client.start("single", json!({})).await;
    server.engine.job(1).await;
    let (code, message) = client.expect_error("tools/call", json!({"name": "single", "task": {}})).await;
    assert_eq!(code, -32000);
    assert!(message.contains("single"), "{message}");
    let plain = client.get("tools/call", json!({"name": "single"})).await;
    assert_eq!(plain["isError"], true);

    client.start("queued", json!({})).await;
    server.engine.job(2).await;
    let next = client.start("queued", json!({})).await;
    let last = client.start("queued", json!({})).await;
    let message = client.task(&next).await["statusMessage"].clone();
    assert_eq!(message, "waiting for a free slot, next in line");
    let message = client.task(&last).await["statusMessage"].clone();
    assert_eq!(message, "waiting for a free slot, position 2 in line");
}
