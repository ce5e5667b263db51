//! Tests for `tools/list`, and for the answers to calls.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Output};

use super::ASK_TOOLS;
use super::bench::{Client, TASKS, all_capabilities, id_of, server, text, with_quick_wait};

fn ended_job_arguments() -> Value {
    json!({"end": {"succeeded": {"content": [{"type": "text", "text": "done"}]}}})
}

/// Returns all tools, page by page. Every page must have a `ttlMs` and the cache scope `private`.
async fn list_pages(client: &Client) -> Vec<Vec<Value>> {
    let (mut pages, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.get("tools/list", params).await;
        assert!(page["ttlMs"].is_u64(), "{page}");
        assert_eq!(page["cacheScope"], "private");
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool.get("execution").is_none()), "of the revision before: {page}");
        pages.push(tools.clone());
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return pages,
        }
    }
}

async fn names(client: &Client) -> Vec<Vec<String>> {
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    list_pages(client).await.iter().map(|page| page.iter().map(name).collect()).collect()
}

#[tokio::test]
async fn tool_list_order_is_stable() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let pages = names(&client).await;
    assert!(pages.len() > 2, "{pages:?}");
    assert!(pages[..pages.len() - 1].iter().all(|page| page.len() == 3), "{pages:?}");
    let all = pages.concat();
    let (companions, own) = all.split_at(2);
    assert_eq!(companions, ["task_list", "task_logs"], "the extension has the others");
    assert!(own.is_sorted() && own.contains(&"always".to_owned()), "{own:?}");
    for _ in 0..3 {
        assert_eq!(names(&client).await, pages);
    }
    assert_eq!(client.expect_error("tools/list", json!({"cursor": "nonsense"})).await.code, -32602);
}

/// Clients with the extension see only the companion tools that it does not replace.
#[tokio::test]
async fn companion_tools_need_no_extension() {
    let server = server("").await;
    let companions = |pages: Vec<Vec<String>>| -> Vec<String> {
        pages.concat().into_iter().filter(|name| name.starts_with("task_")).collect()
    };
    let all = ["task_wait", "task_cancel", "task_answer", "task_list", "task_logs"];
    assert_eq!(companions(names(&Client::plain(&server)).await), all);
    let client = Client::new(&server);
    let id = client.start("work", json!({})).await;
    let params = json!({"name": "task_wait", "arguments": {"task_id": id}});
    assert_eq!(client.expect_error("tools/call", params).await.code, -32602, "it is not offered to this one");
    let list = client.call("task_list", json!({})).await;
    assert!(text(&list).contains(&id), "{list}");
}

/// Applies to clients with the tasks extension, and to failed jobs.
#[tokio::test]
async fn instant_job_returns_result() {
    let server = with_quick_wait("10s", "").await;
    let client = Client::new(&server);
    let answer = client.call("work", ended_job_arguments()).await;
    assert_eq!(answer["resultType"], "complete");
    assert_eq!((text(&answer), &answer["isError"]), ("done", &json!(false)));
    let failed = json!({"end": {"failed": {}}, "message": "boom"});
    let answer = client.call("work", failed).await;
    assert_eq!((&answer["resultType"], &answer["isError"]), (&json!("complete"), &json!(true)));
    assert!(text(&answer).contains("boom"));
}

/// The task can be read at once.
#[tokio::test]
async fn slow_job_returns_task() {
    let server = server("").await;
    let client = Client::new(&server);
    let mut ids = std::collections::HashSet::new();
    for n in 0..5 {
        let created = client.call("work", json!({ "n": n })).await;
        assert_eq!(created["status"], "working");
        for field in ["ttlMs", "pollIntervalMs"] {
            assert!(created[field].as_u64().is_some_and(|millis| millis > 0), "{created}");
        }
        for field in ["createdAt", "lastUpdatedAt"] {
            assert!(created[field].as_str().unwrap().ends_with('Z'), "{created}");
        }
        for other in ["task", "content", "result", "inputRequests", "requestState", "ttl", "pollInterval"] {
            assert_eq!(created.get(other), None, "{created}");
        }
        let id = id_of(&created);
        assert!(id.len() >= 26, "128 bits at least: {id}");
        let task = client.task(&id).await;
        assert_eq!((&task["taskId"], &task["createdAt"]), (&json!(id), &created["createdAt"]));
        assert!(task["ttlMs"].is_u64() && task["pollIntervalMs"].is_u64(), "{task}");
        assert!(ids.insert(id));
    }
    assert_eq!(server.engine.starts(), 5);
}

#[tokio::test]
async fn task_requires_extension() {
    let server = server(ASK_TOOLS).await;
    let others = json!({"elicitation": {}, "extensions": {"com.example/other": {}, TASKS: true}});
    for client in [
        Client::plain(&server),
        Client::with_capabilities(&server, json!({})),
        Client::with_capabilities(&server, others),
    ] {
        let answer = client.call("work", json!({})).await;
        assert_eq!(answer["resultType"], "complete");
        assert!(answer["structuredContent"]["task_id"].is_string(), "{answer}");
        let failure = client
            .expect_error("tools/call", json!({"name": "always", "arguments": ended_job_arguments()}))
            .await;
        assert_eq!((failure.status, failure.code), (400, -32021), "{failure:?}");
        assert_eq!(failure.data, json!({"requiredCapabilities": {"extensions": {TASKS: {}}}}));
    }
    assert_eq!(server.engine.starts(), 3, "what was refused was not started");
    let id = Client::new(&server).start("always", json!({})).await;
    assert_eq!(Client::new(&server).task(&id).await["status"], "working");
}

#[tokio::test]
async fn legacy_task_parameter_is_ignored() {
    let (server, slow) = (server(ASK_TOOLS).await, with_quick_wait("10s", "").await);
    let client = Client::new(&server);
    for task in [json!({}), json!({"ttl": 5}), json!(null), json!(7)] {
        let call = |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments, "task": task});
        let quick = Client::new(&slow).get("tools/call", call("work", ended_job_arguments())).await;
        assert_eq!(quick["resultType"], "complete");
        assert_eq!(client.get("tools/call", call("work", json!({}))).await["resultType"], "task");
        assert_eq!(
            client.get("tools/call", call("never", ended_job_arguments())).await["resultType"],
            "complete"
        );
        let plain = Client::plain(&server).get("tools/call", call("work", ended_job_arguments())).await;
        assert_eq!(plain["resultType"], "complete");
    }
}

/// Past the call budget, it returns a handle.
#[tokio::test]
async fn tool_without_tasks_waits() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    let call = client.open("tools/call", json!({"name": "never"})).await;
    server.engine.job(1).await.succeed("waited for");
    assert_eq!(text(&call.end().await.unwrap()), "waited for");
    let answer = client.call("never", json!({})).await;
    assert_eq!(answer["resultType"], "complete");
    assert_eq!(answer["structuredContent"]["status"], "working", "beyond the budget there is a handle");
}

#[tokio::test]
async fn invalid_arguments_start_nothing() {
    let server = server(ASK_TOOLS).await;
    let client = Client::new(&server);
    for (arguments, expected) in [
        (json!({"env": "moon"}), "env"),
        (json!({"env": "staging", "note": 5}), "note"),
        (json!({"env": "staging", "other": 5}), "other"),
    ] {
        let answer = client.call("deploy", arguments).await;
        assert_eq!(answer["isError"], true, "a model can mend it");
        assert!(text(&answer).contains(expected), "{answer}");
    }
    for name in ["nothing", "Work"] {
        let unknown = client.expect_error("tools/call", json!({ "name": name })).await;
        assert_eq!(unknown.code, -32602);
        assert!(unknown.message.contains(&format!("Unknown tool: {name:?}")), "{unknown:?}");
    }
    for params in [json!({}), json!({"name": 5}), json!({"name": "work", "arguments": 5})] {
        assert_eq!(client.expect_error("tools/call", params).await.code, -32602);
    }
    assert_eq!(server.engine.starts(), 0);
}

/// Covers plain calls and ended tasks. The same key with other arguments, or an invalid key, is refused.
#[tokio::test]
async fn repeated_key_returns_same_task() {
    let server = server("").await;
    let client = Client::new(&server);
    let keyed = |arguments: Value| json!({"name": "work", "arguments": arguments, "_meta": {"io.taskbridge/idempotency-key": "k1"}});
    let id = id_of(&client.get("tools/call", keyed(json!({"a": 1}))).await);
    assert_eq!(id_of(&client.get("tools/call", keyed(json!({"a": 1}))).await), id);
    let handle = Client::plain(&server).get("tools/call", keyed(json!({"a": 1}))).await;
    assert_eq!(handle["structuredContent"]["task_id"], id);
    let reused = client.expect_error("tools/call", keyed(json!({"a": 2}))).await;
    assert_eq!(reused.code, -32602);
    assert!(reused.message.contains("k1"), "{reused:?}");
    server.engine.job(1).await.succeed("once");
    client.wait_for_status(&id, "completed").await;
    assert_eq!(text(&client.get("tools/call", keyed(json!({"a": 1}))).await), "once");
    assert_eq!(server.engine.starts(), 1);
    for key in [json!(""), json!(5), json!("k".repeat(256))] {
        let params = json!({"name": "work", "_meta": {"io.taskbridge/idempotency-key": key}});
        assert_eq!(client.expect_error("tools/call", params).await.code, -32602);
    }
}

/// Applies to the result and to a handle.
#[tokio::test]
async fn results_fit_output_schema() {
    let server = server(
        r#"
        [tools.typed]
        backend = "stage"
        target = {}
        input_schema = { type = "object" }
        output_schema = { type = "object", required = ["answer"], properties.answer = { type = "integer" } }
        "#,
    )
    .await;
    let client = Client::with_capabilities(&server, all_capabilities());
    let tools = list_pages(&client).await.concat();
    let typed = tools.iter().find(|tool| tool["name"] == "typed").unwrap();
    let schema = &typed["outputSchema"];
    let call = client.open("tools/call", json!({"name": "typed"})).await;
    let mut output = Output::text("42");
    output.structured = Some(json!({"answer": 42}));
    server.engine.job(1).await.show(taskbridge_sdk::Observation::new(JobState::Succeeded(output)));
    let answer = call.end().await.unwrap();
    assert_eq!(answer["structuredContent"], json!({"answer": 42}));
    let handle = client.call("typed", json!({"n": 2})).await;
    for structured in [&answer["structuredContent"], &handle["structuredContent"]] {
        assert!(jsonschema::is_valid(schema, structured), "{structured} is not of {schema}");
    }
}
