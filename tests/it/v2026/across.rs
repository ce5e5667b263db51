//! Tests for both generations at one endpoint, over the same rows: the probes of clients that support both,
//! and tasks of one generation seen from the other.

use serde_json::{Value, json};

use super::bench::{Client, all_capabilities, id_of, server, text};

/// Covers results, failures, handles and cancellations.
#[tokio::test]
async fn generations_share_tasks() {
    let server = server("").await;
    let (old, new) = (server.client().await, Client::new(&server));
    let old_task = old.start("work", json!({})).await;
    let new_task = new.start("work", json!({"n": 2})).await;
    assert_eq!(new.task(&old_task).await["status"], "working");
    assert_eq!(old.task(&new_task).await["status"], "working");
    server.engine.job(1).await.succeed("one");
    server.engine.job(2).await.succeed("two");
    assert_eq!(text(&new.wait_for_status(&old_task, "completed").await["result"]), "one");
    old.wait_for_status(&new_task, "completed").await;
    assert_eq!(old.result(&new_task).await.unwrap()["content"][0]["text"], "two");

    // A failed job is `failed` in one generation, and `completed` with an error in the other.
    let failing = json!({"end": {"failed": {}}, "message": "boom"});
    let failed = old.start("work", failing).await;
    assert_eq!(old.wait_for_status(&failed, "failed").await["status"], "failed");
    let task = new.wait_for_status(&failed, "completed").await;
    assert_eq!(task["result"]["isError"], true);

    // The task of a plain call is visible to both.
    let answer = Client::with_capabilities(&server, all_capabilities()).call("work", json!({"n": 4})).await;
    let id = answer["structuredContent"]["task_id"].as_str().unwrap();
    assert_eq!(new.task(id).await["status"], "working");
    assert_eq!(old.task(id).await["status"], "working");
    let cancelled = old.get("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(new.task(id).await["status"], "cancelled");
}

#[tokio::test]
async fn generations_share_questions() {
    let server = server("").await;
    let (old, new) = (server.client().await, Client::new(&server));
    let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let old_task = old.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("n", "How many?", form.clone());
    let task = new.wait_for_status(&old_task, "input_required").await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap();
    new.update(&old_task, json!({ key: {"action": "accept", "content": {"n": 3}} })).await;
    job.wait_for_answer().await;
    assert_eq!(old.task(&old_task).await["status"], "working");

    let new_task = new.start("work", json!({"n": 2})).await;
    let job = server.engine.job(2).await;
    let mut waiting = old.open("tasks/result", json!({ "taskId": new_task })).await;
    job.ask("n", "How many?", form);
    let question = waiting.message().await;
    assert_eq!(question["params"]["message"], "How many?");
    assert_eq!(old.reply(&question, json!({"action": "decline"})).await, 202);
    job.wait_for_answer().await;
    job.succeed("none then");
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "none then");
    assert_eq!(text(&new.wait_for_status(&new_task, "completed").await["result"]), "none then");
}

#[tokio::test]
async fn generations_share_idempotency_keys() {
    let server = server("").await;
    let (old, new) = (server.client().await, Client::new(&server));
    let params = json!({"name": "work", "_meta": {"io.taskbridge/idempotency-key": "k"}});
    let mut as_task = params.clone();
    as_task["task"] = json!({});
    let id = old.get("tools/call", as_task).await["task"]["taskId"].clone();
    assert_eq!(id_of(&new.get("tools/call", params).await), id.as_str().unwrap());
    assert_eq!(server.engine.starts(), 1);
}

#[tokio::test]
async fn clients_may_probe_in_any_order() {
    let server = server("").await;
    let client = Client::new(&server);
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}
    }});
    let send_initialize = async |version: Option<&str>| {
        let mut post = client.bare(&initialize);
        if let Some(version) = version {
            post = post.header("MCP-Protocol-Version", version);
        }
        let response = post.send().await.unwrap();
        let answer: Value = response.json().await.unwrap();
        answer["result"]["protocolVersion"].clone()
    };
    let discover = async |with_meta: bool, header: Option<&str>| {
        let mut request = client.request("server/discover", json!({}));
        if !with_meta {
            request["params"] = json!({});
        }
        let mut post = client.bare(&request).header("Mcp-Method", "server/discover");
        if let Some(version) = header {
            post = post.header("MCP-Protocol-Version", version);
        }
        let response = post.send().await.unwrap();
        let status = response.status().as_u16();
        let answer: Value = response.json().await.unwrap();
        (status, answer["error"]["code"].as_i64())
    };
    for _ in 0..2 {
        assert_eq!(discover(true, Some("2026-07-28")).await, (200, None));
        assert_eq!(send_initialize(None).await, "2025-11-25");
        assert_eq!(send_initialize(Some("2026-07-28")).await, "2025-11-25");
        // A client error is reported as an error of this generation, so that the client does not fall back.
        assert_eq!(discover(false, Some("2026-07-28")).await, (400, Some(-32602)));
        assert_eq!(discover(false, None).await, (400, Some(-32602)));
        assert_eq!(discover(true, None).await, (400, Some(-32020)));
        assert_eq!(discover(true, Some("2025-11-25")).await, (400, Some(-32020)));
    }
    // In a session of the other generation, a request of this generation is still treated as one.
    let old = server.client().await;
    let request = client.request("tools/list", json!({}));
    let response = client.post(&request).header("Mcp-Session-Id", old.session()).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(old.get("ping", json!({})).await, json!({}));
    let (code, _) = old.expect_error("server/discover", json!({})).await;
    assert_eq!(code, -32601, "in a session it is a method that there is not");
    let list = old.get("tools/list", json!({})).await;
    assert!(list.get("resultType").is_none() && list["tools"][0].get("execution").is_some());
}
