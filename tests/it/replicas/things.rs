//! Tests for state that a client keeps (sessions, cursors, keys, request states), and for state shared by all
//! replicas (lists, slots).

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{modern_clients, result_text, sessions, start_three};
use crate::support::ModernClient;

/// Its settings apply at all replicas, and its end at one replica ends it at all.
#[tokio::test]
async fn session_is_valid_at_all_replicas() {
    let server = start_three("").await;
    let [a, b, c] = sessions(&server).await;
    let id = b.start("work", json!({})).await;
    assert_eq!(c.task(&id).await["status"], "working");
    // A session setting applies at all replicas.
    a.get("logging/setLevel", json!({"level": "error"})).await;
    assert_eq!(c.end().await, 204);
    for client in [&a, &b, &c] {
        assert_eq!(client.status("tasks/get", json!({ "taskId": id })).await, 404);
    }
}

/// Every list is the same at all replicas, even if each page is read at another one.
#[tokio::test]
async fn cursors_work_across_replicas() {
    let more: String =
        (0..4).map(|n| format!("[tools.t{n}]\nbackend = \"stage\"\ntarget = {{}}\n")).collect();
    let server = start_three(&more).await;
    let clients = sessions(&server).await;
    let mut tasks = Vec::new();
    for n in 0..7 {
        tasks.push(clients[n % 3].start("work", json!({ "n": n })).await);
    }
    // The order is newest first by the store's time. Each replica carries that time on by itself, so they may
    // differ by milliseconds.
    tasks.sort_unstable();
    for (method, field, name) in [("tools/list", "tools", "name"), ("tasks/list", "tasks", "taskId")] {
        let mut lists = Vec::new();
        // Each list begins at another replica, and continues at the next one with each page.
        for first in 0..3 {
            let (mut entries, mut params) = (Vec::new(), json!({}));
            for turn in first.. {
                let page = clients[turn % 3].get(method, params).await;
                entries.extend(page[field].as_array().unwrap().iter().cloned());
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({ "cursor": cursor }),
                    None => break,
                }
            }
            lists.push(entries);
        }
        let names = |list: &[Value]| -> Vec<String> {
            list.iter().map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&lists[0]), names(&lists[1]), "{method}");
        assert_eq!(names(&lists[1]), names(&lists[2]), "{method}");
        match field {
            "tasks" => {
                assert!(
                    lists[0]
                        .is_sorted_by(|one, next| one["createdAt"].as_str() >= next["createdAt"].as_str())
                );
                let mut listed = names(&lists[0]);
                listed.sort_unstable();
                assert_eq!(listed, tasks);
            }
            _ => assert!(names(&lists[0]).ends_with(&["t0", "t1", "t2", "t3", "work"].map(str::to_owned))),
        }
    }
}

/// An idempotency key that is used at all replicas at once, in both generations, is one task.
#[tokio::test]
async fn concurrent_key_creates_one_task() {
    let server = start_three("").await;
    let (old, new) = (sessions(&server).await, modern_clients(&server));
    for round in 1..=5 {
        let meta = json!({"io.taskbridge/idempotency-key": format!("key {round}")});
        let params = json!({"name": "work", "arguments": {}, "_meta": meta});
        let mut as_task = params.clone();
        as_task["task"] = json!({});
        let by_old = old
            .iter()
            .map(async |client| client.get("tools/call", as_task.clone()).await["task"]["taskId"].clone());
        let by_new = new.iter().map(async |client| {
            client.request("tools/call", params.clone()).await.unwrap()["taskId"].clone()
        });
        let (mut ids, others) = futures_util::future::join(join_all(by_old), join_all(by_new)).await;
        ids.extend(others);
        assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(server.engine.starts(), round);
    }
}

/// A call that asks first can be finished at another replica. If two finish it, it is one task.
#[tokio::test]
async fn request_state_works_across_replicas() {
    let server =
        start_three("[tools.careful]\nbackend = \"stage\"\ntarget = {}\nconfirm = \"Really?\"\n").await;
    let [a, b, c] = modern_clients(&server);
    let question = a.call("careful", &json!({}), json!({})).await.unwrap();
    assert_eq!(question["resultType"], "input_required");
    let more = json!({
        "inputResponses": {"confirm": {"action": "accept", "content": {}}}, "requestState": question["requestState"],
    });
    let finish =
        async |client: &ModernClient| client.call("careful", &json!({}), more.clone()).await.unwrap();
    let (by_b, by_c) = futures_util::future::join(finish(&b), finish(&c)).await;
    assert_eq!(by_b["taskId"], by_c["taskId"], "{by_b} {by_c}");
    assert_eq!(server.engine.starts(), 1);
}

#[tokio::test]
async fn limit_is_shared_by_replicas() {
    let limited = |name: &str, when: &str| {
        format!(
            "[tools.{name}]\nbackend = \"stage\"\ntarget = {{}}\nmax_running = 2\nwhen_full = \"{when}\"\n\
             input_schema = {{ type = \"object\" }}\n"
        )
    };
    let server =
        start_three(&format!("{}{}", limited("refuses", "refuse"), limited("queues", "queue"))).await;
    let clients = sessions(&server).await;
    let params = |tool: &str, n: usize| json!({"name": tool, "arguments": {"n": n}, "task": {}});
    let calls = (0..9).map(|n| clients[n % 3].try_get("tools/call", params("refuses", n)));
    let accepted = join_all(calls)
        .await
        .into_iter()
        .filter(|answer| answer.as_ref().is_ok_and(|answer: &Value| answer["task"]["taskId"].is_string()));
    assert_eq!(accepted.count(), 2);
    for n in 1..=2 {
        server.engine.job(n).await.succeed("");
    }

    let ids = join_all((0..6).map(|n| clients[n % 3].start("queues", json!({ "n": n })))).await;
    for n in 1..=6 {
        let started = server.engine.starts();
        assert!(started <= 2 + n + 1, "job {started} runs beside the two that may");
        server.engine.job(2 + n).await.succeed("done");
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(result_text(&clients[(n + 1) % 3].result(id).await.unwrap()), "done");
    }
}
