//! Tests for the negotiation of the extension, the marks of tools, and the page.

use serde_json::{Value, json};

use super::{VIEW, with_views, with_views_and_tasks};
use crate::access::keys;
use crate::access::raw::Protocol::{Stateful, Stateless};
use crate::access::raw::{Protocol, RawClient};
use crate::v2025::bench::Server;

async fn server(server_settings: &str) -> Server {
    let changes = [("page_size = 3", "page_size = 50"), ("call_budget = \"2s\"", server_settings)];
    let changes = if server_settings.is_empty() { &changes[..1] } else { &changes[..] };
    Server::configured(changes, &keys(&[("ann", "")])).await
}

/// Returns the tools with their `_meta`.
async fn tools(client: &RawClient, protocol: Protocol) -> Vec<(String, Value)> {
    let page = client.expect_result(protocol, "tools/list", json!({})).await;
    let entry = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool["_meta"].clone());
    page["tools"].as_array().unwrap().iter().map(entry).collect()
}

fn app_only() -> Value {
    json!({"ui": {"visibility": ["app"]}})
}

/// Tools that start tasks name the view. What only the view uses is hidden from the model: with tasks in the
/// protocol those are all tools that act.
#[tokio::test]
async fn declared_extension_marks_tools() {
    let server = server("").await;
    let plain = RawClient::open_with(&server.url, "ann", with_views()).await;
    let with_tasks = RawClient::open_with(&server.url, "ann", with_views_and_tasks()).await;
    let cases = [
        (&plain, Stateful, true),
        (&with_tasks, Stateful, true),
        (&plain, Stateless, true),
        (&with_tasks, Stateless, false),
    ];
    for (client, protocol, by_model) in cases {
        let acts = if by_model { Value::Null } else { app_only() };
        let mut expected = vec![
            ("task_wait", Value::Null),
            ("task_cancel", acts.clone()),
            ("task_answer", acts),
            ("task_list", Value::Null),
            ("task_logs", Value::Null),
            ("task_view", app_only()),
            ("work", json!({"ui": {"resourceUri": VIEW}})),
        ];
        expected.drain(..usize::from(!by_model));
        let expected: Vec<_> = expected.into_iter().map(|(name, meta)| (name.to_owned(), meta)).collect();
        assert_eq!(tools(client, protocol).await, expected, "{protocol:?} {by_model}");
    }
}

/// The page is read like a resource, and the server declares the extension, too.
#[tokio::test]
async fn view_is_read_as_resource() {
    let server = server("").await;
    let client = RawClient::open_with(&server.url, "ann", with_views()).await;
    for protocol in [Stateful, Stateless] {
        let read = client.expect_result(protocol, "resources/read", json!({"uri": VIEW})).await;
        let content = &read["contents"][0];
        assert_eq!(
            (&content["uri"], &content["mimeType"]),
            (&json!(VIEW), &json!("text/html;profile=mcp-app"))
        );
        let page = content["text"].as_str().unwrap();
        assert!(page.starts_with("<!doctype html>") && page.len() < 40 * 1024, "{} bytes", page.len());
        assert_eq!(content["_meta"]["ui"].get("csp"), None, "the host's strictest policy applies");
    }
    let discovered = client.expect_result(Stateless, "server/discover", json!({})).await;
    let extensions = &discovered["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/ui"].is_object(), "{discovered}");
    assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{discovered}");
}

/// A client with another media type, and any client of a server without companion tools, gets nothing.
#[tokio::test]
async fn view_needs_media_type_and_companions() {
    let with_companions = server("").await;
    let without = server("companion_tools = \"never\"").await;
    let other_type = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}});
    let no_types = json!({"extensions": {"io.modelcontextprotocol/ui": {}}});
    let cases = [(&with_companions, other_type), (&with_companions, no_types), (&without, with_views())];
    for (server, capabilities) in cases {
        let client = RawClient::open_with(&server.url, "ann", capabilities).await;
        for protocol in [Stateful, Stateless] {
            let tools = tools(&client, protocol).await;
            assert!(tools.iter().all(|(name, meta)| name != "task_view" && meta.is_null()), "{tools:?}");
            let read = client.send(protocol, "resources/read", json!({"uri": VIEW})).await;
            assert!(read.body.get("error").is_some(), "{:?}", read.body);
            let call = json!({"name": "task_view", "arguments": {"task_id": "x"}});
            let call = client.send(protocol, "tools/call", call).await;
            assert!(
                call.body["error"]["message"].as_str().unwrap().contains("Unknown tool"),
                "{:?}",
                call.body
            );
        }
    }
}

/// Every answer about a task names it for the view: the handle and the result, however it is read.
#[tokio::test]
async fn results_name_their_task() {
    let server = server("").await;
    let client = RawClient::open_with(&server.url, "ann", with_views()).await;
    let with_tasks = RawClient::open_with(&server.url, "ann", with_views_and_tasks()).await;
    let mut n = 0;
    for protocol in [Stateful, Stateless] {
        let call = json!({"name": "work", "arguments": {}});
        let handle = client.expect_result(protocol, "tools/call", call).await;
        let id = handle["structuredContent"]["task_id"].clone();
        assert_eq!(handle["_meta"]["io.taskbridge/task"], id, "{handle}");
        let note = handle["content"][1]["text"].as_str().unwrap();
        assert!(note.contains("in a card"), "{handle}");
        n += 1;
        server.engine.job(n).await.succeed("there");
        // The model need not wait, but may.
        let name = "task_wait";
        let result = loop {
            let call = json!({"name": name, "arguments": {"task_id": id}});
            let answer = client.expect_result(protocol, "tools/call", call).await;
            if answer.get("structuredContent").is_none() {
                break answer;
            }
        };
        assert_eq!(
            (&result["content"][0]["text"], &result["_meta"]["io.taskbridge/task"]),
            (&json!("there"), &id)
        );
    }
    for protocol in [Stateful, Stateless] {
        let id = with_tasks.start(protocol, "work", json!({})).await;
        n += 1;
        server.engine.job(n).await.succeed("there");
        let result = match protocol {
            Stateful => with_tasks.expect_result(protocol, "tasks/result", json!({"taskId": id})).await,
            Stateless => loop {
                let mut task = with_tasks.expect_result(protocol, "tasks/get", json!({"taskId": id})).await;
                if task["status"] == "completed" {
                    break task["result"].take();
                }
            },
        };
        assert_eq!(result["_meta"]["io.taskbridge/task"], json!(id), "{result}");
    }
}
