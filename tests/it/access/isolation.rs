//! Tests that call every method with every id of another owner. Each answer equals the answer for a made-up
//! id, except for the ids and times in it.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::keys;
use super::raw::{HttpResponse, Protocol, RawClient};
use crate::v2025::bench::Server;

const TOOLS: &str = r#"
[tools.again]
backend = "stage"
target = {}
parameters.of = { type = "task" }

[tools.careful]
backend = "stage"
target = {}
confirm = "Really?"
input_schema = { type = "object" }
"#;

/// An id of another owner, and a made-up id of the same form.
struct IdPair {
    foreign: String,
    made_up: String,
}

impl IdPair {
    fn new(foreign: &str) -> Self {
        // Every letter is replaced by another one, so that the form stays the same.
        let substitute = |c: char| match c {
            'a' => 'b',
            'b'..='z' => 'a',
            'A' => 'B',
            'B'..='Z' => 'A',
            other => other,
        };
        Self { foreign: foreign.to_owned(), made_up: foreign.chars().map(substitute).collect() }
    }
}

/// Returns an answer as text, without ids and times.
fn normalize(answer: HttpResponse, ids: &IdPair) -> String {
    let HttpResponse { status, headers, mut body } = answer;
    // The id of a task that the request created.
    let created_id = body["result"]["task"]["taskId"].as_str().unwrap_or("-").to_owned();
    blank(&mut body);
    let text = format!("{status} {headers:?} {body}");
    text.replace(&ids.foreign, "ID").replace(&ids.made_up, "ID").replace(&created_id, "-")
}

fn blank(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "createdAt" | "lastUpdatedAt" | "pollInterval" | "pollIntervalMs" => *member = json!("-"),
                    "taskId" if member.is_string() => *member = json!("-"),
                    _ => blank(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(blank),
        _ => {}
    }
}

/// Returns requests that contain a task id, for both generations.
fn task_requests(id: &str) -> Vec<(Protocol, &'static str, Value)> {
    let companion = |name: &str, extra: Value| {
        let mut arguments = json!({ "task_id": id });
        for (name, value) in extra.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        json!({"name": name, "arguments": arguments})
    };
    let uri = |part: &str| json!({"uri": format!("taskbridge://tasks/{id}/{part}")});
    let completion = |template: &str, argument: &str, value: &str| {
        json!({
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": argument, "value": value},
            "context": {"arguments": {"task_id": id}},
        })
    };
    let yes = json!({"action": "accept", "content": {}});
    let mut requests = vec![
        (Protocol::Stateful, "tasks/result", json!({ "taskId": id })),
        (Protocol::Stateful, "resources/subscribe", uri("log")),
        (Protocol::Stateful, "resources/unsubscribe", uri("log")),
        (Protocol::Stateless, "tasks/update", json!({"taskId": id, "inputResponses": {"q1": yes}})),
    ];
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        requests.extend([
            (protocol, "tasks/get", json!({ "taskId": id })),
            (protocol, "tasks/cancel", json!({ "taskId": id })),
            (protocol, "resources/read", uri("log")),
            (protocol, "resources/read", uri("artifacts/secret.txt")),
            (protocol, "resources/read", uri("artifacts/no-such.txt")),
            (protocol, "tools/call", companion("task_wait", json!({"seconds": 0}))),
            (protocol, "tools/call", companion("task_cancel", json!({}))),
            (protocol, "tools/call", companion("task_answer", json!({"question": "q1", "content": {}}))),
            (protocol, "tools/call", companion("task_logs", json!({}))),
            (protocol, "tools/call", json!({"name": "again", "arguments": {"of": id}})),
            (
                protocol,
                "completion/complete",
                completion("taskbridge://tasks/{task_id}/log", "task_id", &id[..4]),
            ),
            (
                protocol,
                "completion/complete",
                completion("taskbridge://tasks/{task_id}/artifacts/{+name}", "name", "s"),
            ),
        ]);
    }
    requests
}

/// Every method answers an id of another owner like an id that does not exist, and changes nothing.
#[tokio::test]
async fn foreign_id_looks_made_up() {
    let server = Server::with(&format!("{}{TOOLS}", keys(&[("ann", ""), ("bob", "")]))).await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);

    // One task that runs and leaves an artifact, one that asks, one that has ended, and enough for a second
    // page.
    let running = ann.start(Protocol::Stateless, "work", json!({})).await;
    let job = server.engine.job(1).await;
    job.add_artifact("secret.txt", b"secret");
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    let awaiting_input = ann.start(Protocol::Stateful, "careful", json!({})).await;
    let ended = ann.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(2).await;
    ann.expect_result(Protocol::Stateful, "tasks/cancel", json!({"taskId": ended})).await;
    ann.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(3).await;
    let starts_before = server.engine.starts();

    for id in [&running, &awaiting_input, &ended] {
        let ids = IdPair::new(id);
        for ((protocol, method, foreign), (_, _, made_up)) in
            task_requests(&ids.foreign).into_iter().zip(task_requests(&ids.made_up))
        {
            let (foreign, made_up) =
                (bob.send(protocol, method, foreign).await, bob.send(protocol, method, made_up).await);
            assert_eq!(normalize(foreign, &ids), normalize(made_up, &ids), "{protocol:?} {method}");
        }
        let subscription = |id: &str| {
            json!({"notifications": {"taskIds": [id],
            "resourceSubscriptions": [format!("taskbridge://tasks/{id}/log")]}})
        };
        let foreign =
            bob.first_message(Protocol::Stateless, "subscriptions/listen", subscription(&ids.foreign)).await;
        let made_up =
            bob.first_message(Protocol::Stateless, "subscriptions/listen", subscription(&ids.made_up)).await;
        assert_eq!(foreign["params"]["notifications"], made_up["params"]["notifications"]);
        assert!(!foreign.to_string().contains(&ids.foreign), "{foreign}");
    }
    assert_eq!(server.engine.starts(), starts_before, "nothing was started");

    // Cursors of every list that is paged per caller.
    let lists = [("tasks/list", json!({})), ("resources/list", json!({})), ("tools/list", json!({}))];
    for (method, params) in lists {
        let Some(cursor) = ann.expect_result(Protocol::Stateful, method, params).await["nextCursor"]
            .as_str()
            .map(IdPair::new)
        else {
            panic!("{method} has no second page")
        };
        let foreign = bob.send(Protocol::Stateful, method, json!({"cursor": cursor.foreign})).await;
        let made_up = bob.send(Protocol::Stateful, method, json!({"cursor": cursor.made_up})).await;
        assert_eq!(normalize(foreign, &cursor), normalize(made_up, &cursor), "{method}");
    }
    let listing = |cursor: &str| json!({"name": "task_list", "arguments": {"cursor": cursor}});
    let page = ann
        .expect_result(Protocol::Stateful, "tools/call", json!({"name": "task_list", "arguments": {}}))
        .await;
    let cursor = IdPair::new(page["structuredContent"]["next_cursor"].as_str().unwrap());
    let foreign = bob.send(Protocol::Stateful, "tools/call", listing(&cursor.foreign)).await;
    let made_up = bob.send(Protocol::Stateful, "tools/call", listing(&cursor.made_up)).await;
    assert_eq!(normalize(foreign, &cursor), normalize(made_up, &cursor), "task_list");

    // The session, and the event ids by which its streams are resumed.
    let session = IdPair::new(ann.session());
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let foreign = bob.in_session(&session.foreign).send_method(method.clone(), "").await;
        let made_up = bob.in_session(&session.made_up).send_method(method.clone(), "").await;
        assert_eq!(normalize(foreign, &session), normalize(made_up, &session), "{method}");
    }
    for (method, params) in [("tools/list", json!({})), ("tasks/list", json!({})), ("ping", json!({}))] {
        let foreign = bob.in_session(&session.foreign).send(Protocol::Stateful, method, params.clone()).await;
        let made_up = bob.in_session(&session.made_up).send(Protocol::Stateful, method, params).await;
        assert_eq!(normalize(foreign, &session), normalize(made_up, &session), "{method}");
    }
    let event = IdPair::new(&ann.first_event_id().await);
    let foreign = bob.send_method(reqwest::Method::GET, &event.foreign).await;
    let made_up = bob.send_method(reqwest::Method::GET, &event.made_up).await;
    assert_eq!(normalize(foreign, &event), normalize(made_up, &event), "Last-Event-ID");

    // A question sent to a client, and the state that a client keeps between two rounds.
    let question =
        ann.first_message(Protocol::Stateful, "tasks/result", json!({"taskId": awaiting_input})).await;
    assert_eq!(question["method"], "elicitation/create");
    let yes = json!({"action": "accept", "content": {}});
    let foreign_reply = bob.reply(question["id"].as_str().unwrap(), yes.clone()).await;
    assert!(foreign_reply.body.get("result").is_none(), "{foreign_reply:?}");
    assert_eq!(server.engine.starts(), starts_before, "the consent was not his to give");
    let params = json!({"name": "careful", "arguments": {}});
    let state = IdPair::new(
        ann.expect_result(Protocol::Stateless, "tools/call", params.clone()).await["requestState"]
            .as_str()
            .unwrap(),
    );
    let retry_params = |state: &str| {
        let mut params = params.clone();
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"confirm": yes});
        params
    };
    let foreign = bob.send(Protocol::Stateless, "tools/call", retry_params(&state.foreign)).await;
    let made_up = bob.send(Protocol::Stateless, "tools/call", retry_params(&state.made_up)).await;
    assert_eq!(normalize(foreign, &state), normalize(made_up, &state), "requestState");

    // Names that callers choose: the same name used by another owner is a different one.
    let keyed_call = |key: &str| {
        let meta = json!({"io.taskbridge/idempotency-key": key, "progressToken": key});
        json!({"name": "work", "arguments": {}, "task": {}, "_meta": meta})
    };
    let ann_result = ann.expect_result(Protocol::Stateful, "tools/call", keyed_call("hers")).await;
    let ids = IdPair { foreign: "hers".to_owned(), made_up: "hisown".to_owned() };
    let foreign = bob.send(Protocol::Stateful, "tools/call", keyed_call("hers")).await;
    assert_ne!(foreign.body["result"]["task"]["taskId"], ann_result["task"]["taskId"]);
    let made_up = bob.send(Protocol::Stateful, "tools/call", keyed_call("hisown")).await;
    assert_eq!(normalize(foreign, &ids), normalize(made_up, &ids), "idempotency key");

    // None of these requests changed anything.
    for (id, status) in [(&running, "working"), (&awaiting_input, "input_required"), (&ended, "cancelled")] {
        let task = ann.expect_result(Protocol::Stateful, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(task["status"], status, "{task}");
    }
}

/// A row is read by caller and id at exactly two points: one for all verbs, and one for the caller's own
/// tasks that arguments name. The health check reads the same way, with an id that no task has.
#[test]
fn row_is_read_at_two_points() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut lookups) = (vec![root.join("src"), root.join("crates")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path
                .strip_prefix(root)
                .unwrap()
                .components()
                .any(|part| ["store", "tests"].iter().any(|name| part.as_os_str() == *name))
            {
                let text: String =
                    std::fs::read_to_string(&path).unwrap_or_default().split_whitespace().collect();
                let file_name = path.file_name().unwrap().to_string_lossy().into_owned();
                let scopes = text.split("store.get(").skip(1).filter_map(|rest| rest.split_once(','));
                let scoped = scopes.filter(|(_, scope)| scope.starts_with("Some("));
                lookups.extend(scoped.map(|_| file_name.clone()));
            }
        }
    }
    lookups.sort();
    assert_eq!(lookups, ["actor.rs", "call.rs", "health.rs"]);
}

/// Compares the lookup of foreign, made-up and malformed ids. The times are printed and never asserted,
/// because they vary on a busy machine.
#[tokio::test]
#[allow(clippy::print_stderr, reason = "the times are what this is for")]
async fn foreign_id_lookup_times_are_printed() {
    let server = Server::with(&keys(&[("ann", ""), ("bob", "")])).await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    let ids = IdPair::new(&ann.start(Protocol::Stateless, "work", json!({})).await);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..200 {
        for (times, id) in times.iter_mut().zip([ids.foreign.as_str(), &ids.made_up, "' OR 1 = 1 --"]) {
            let started_at = std::time::Instant::now();
            let response = bob.send(Protocol::Stateless, "tasks/get", json!({"taskId": id})).await;
            times.push(started_at.elapsed());
            assert_eq!(response.body["error"]["message"], "Failed to retrieve task: Task not found");
        }
    }
    for (label, times) in ["foreign", "made up", "malformed"].iter().zip(&mut times) {
        times.sort();
        eprintln!("{label}: median {:?}, 90% within {:?}", times[100], times[180]);
    }
}
