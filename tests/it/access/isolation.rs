//! Tests that call every method with every id of another owner. Each answer equals the answer for a made-up
//! id, except for the ids and times in it.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::keys;
use super::raw::{Answer, Of, Raw};
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
struct Two {
    theirs: String,
    made_up: String,
}

impl Two {
    fn of(theirs: &str) -> Self {
        // Every letter is replaced by another one, so that the form stays the same.
        let turned = |c: char| match c {
            'a' => 'b',
            'b'..='z' => 'a',
            'A' => 'B',
            'B'..='Z' => 'A',
            other => other,
        };
        Self { theirs: theirs.to_owned(), made_up: theirs.chars().map(turned).collect() }
    }
}

/// Returns an answer as text, without ids and times.
fn plain(answer: Answer, two: &Two) -> String {
    let Answer { status, headers, mut body } = answer;
    // The id of a task that the request created.
    let new = body["result"]["task"]["taskId"].as_str().unwrap_or("-").to_owned();
    blank(&mut body);
    let text = format!("{status} {headers:?} {body}");
    text.replace(&two.theirs, "ID").replace(&two.made_up, "ID").replace(&new, "-")
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
fn about_tasks(id: &str) -> Vec<(Of, &'static str, Value)> {
    let companion = |name: &str, more: Value| {
        let mut arguments = json!({ "task_id": id });
        for (name, value) in more.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        json!({"name": name, "arguments": arguments})
    };
    let uri = |part: &str| json!({"uri": format!("taskbridge://tasks/{id}/{part}")});
    let completing = |template: &str, argument: &str, value: &str| {
        json!({
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": argument, "value": value},
            "context": {"arguments": {"task_id": id}},
        })
    };
    let yes = json!({"action": "accept", "content": {}});
    let mut all = vec![
        (Of::Sessions, "tasks/result", json!({ "taskId": id })),
        (Of::Sessions, "resources/subscribe", uri("log")),
        (Of::Sessions, "resources/unsubscribe", uri("log")),
        (Of::Alone, "tasks/update", json!({"taskId": id, "inputResponses": {"q1": yes}})),
    ];
    for of in [Of::Sessions, Of::Alone] {
        all.extend([
            (of, "tasks/get", json!({ "taskId": id })),
            (of, "tasks/cancel", json!({ "taskId": id })),
            (of, "resources/read", uri("log")),
            (of, "resources/read", uri("artifacts/secret.txt")),
            (of, "resources/read", uri("artifacts/no-such.txt")),
            (of, "tools/call", companion("task_wait", json!({"seconds": 0}))),
            (of, "tools/call", companion("task_cancel", json!({}))),
            (of, "tools/call", companion("task_answer", json!({"question": "q1", "content": {}}))),
            (of, "tools/call", companion("task_logs", json!({}))),
            (of, "tools/call", json!({"name": "again", "arguments": {"of": id}})),
            (of, "completion/complete", completing("taskbridge://tasks/{task_id}/log", "task_id", &id[..4])),
            (
                of,
                "completion/complete",
                completing("taskbridge://tasks/{task_id}/artifacts/{+name}", "name", "s"),
            ),
        ]);
    }
    all
}

/// Every method answers an id of another owner like an id that does not exist, and changes nothing.
#[tokio::test]
async fn foreign_id_looks_made_up() {
    let server = Server::with(&format!("{}{TOOLS}", keys(&[("ann", ""), ("bob", "")]))).await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);

    // One task that runs and leaves an artifact, one that asks, one that has ended, and enough for a second
    // page.
    let running = ann.start(Of::Alone, "work", json!({})).await;
    let job = server.stage.job(1).await;
    job.leaves("secret.txt", b"secret");
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    let asking = ann.start(Of::Sessions, "careful", json!({})).await;
    let ended = ann.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(2).await;
    ann.get(Of::Sessions, "tasks/cancel", json!({"taskId": ended})).await;
    ann.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(3).await;
    let begun = server.stage.starts();

    for id in [&running, &asking, &ended] {
        let two = Two::of(id);
        for ((of, method, theirs), (_, _, made_up)) in
            about_tasks(&two.theirs).into_iter().zip(about_tasks(&two.made_up))
        {
            let (theirs, made_up) = (bob.ask(of, method, theirs).await, bob.ask(of, method, made_up).await);
            assert_eq!(plain(theirs, &two), plain(made_up, &two), "{of:?} {method}");
        }
        let wanted = |id: &str| {
            json!({"notifications": {"taskIds": [id],
            "resourceSubscriptions": [format!("taskbridge://tasks/{id}/log")]}})
        };
        let theirs = bob.first(Of::Alone, "subscriptions/listen", wanted(&two.theirs)).await;
        let made_up = bob.first(Of::Alone, "subscriptions/listen", wanted(&two.made_up)).await;
        assert_eq!(theirs["params"]["notifications"], made_up["params"]["notifications"]);
        assert!(!theirs.to_string().contains(&two.theirs), "{theirs}");
    }
    assert_eq!(server.stage.starts(), begun, "nothing was started");

    // Cursors of every list that is paged per caller.
    let lists = [("tasks/list", json!({})), ("resources/list", json!({})), ("tools/list", json!({}))];
    for (method, params) in lists {
        let Some(cursor) = ann.get(Of::Sessions, method, params).await["nextCursor"].as_str().map(Two::of)
        else {
            panic!("{method} has no second page")
        };
        let theirs = bob.ask(Of::Sessions, method, json!({"cursor": cursor.theirs})).await;
        let made_up = bob.ask(Of::Sessions, method, json!({"cursor": cursor.made_up})).await;
        assert_eq!(plain(theirs, &cursor), plain(made_up, &cursor), "{method}");
    }
    let listing = |cursor: &str| json!({"name": "task_list", "arguments": {"cursor": cursor}});
    let page = ann.get(Of::Sessions, "tools/call", json!({"name": "task_list", "arguments": {}})).await;
    let cursor = Two::of(page["structuredContent"]["next_cursor"].as_str().unwrap());
    let theirs = bob.ask(Of::Sessions, "tools/call", listing(&cursor.theirs)).await;
    let made_up = bob.ask(Of::Sessions, "tools/call", listing(&cursor.made_up)).await;
    assert_eq!(plain(theirs, &cursor), plain(made_up, &cursor), "task_list");

    // The session, and the event ids by which its streams are resumed.
    let session = Two::of(ann.session());
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let theirs = bob.in_session(&session.theirs).bare(method.clone(), "").await;
        let made_up = bob.in_session(&session.made_up).bare(method.clone(), "").await;
        assert_eq!(plain(theirs, &session), plain(made_up, &session), "{method}");
    }
    for (method, params) in [("tools/list", json!({})), ("tasks/list", json!({})), ("ping", json!({}))] {
        let theirs = bob.in_session(&session.theirs).ask(Of::Sessions, method, params.clone()).await;
        let made_up = bob.in_session(&session.made_up).ask(Of::Sessions, method, params).await;
        assert_eq!(plain(theirs, &session), plain(made_up, &session), "{method}");
    }
    let event = Two::of(&ann.event().await);
    let theirs = bob.bare(reqwest::Method::GET, &event.theirs).await;
    let made_up = bob.bare(reqwest::Method::GET, &event.made_up).await;
    assert_eq!(plain(theirs, &event), plain(made_up, &event), "Last-Event-ID");

    // A question sent to a client, and the state that a client keeps between two rounds.
    let question = ann.first(Of::Sessions, "tasks/result", json!({"taskId": asking})).await;
    assert_eq!(question["method"], "elicitation/create");
    let yes = json!({"action": "accept", "content": {}});
    let stolen = bob.reply(question["id"].as_str().unwrap(), yes.clone()).await;
    assert!(stolen.body.get("result").is_none(), "{stolen:?}");
    assert_eq!(server.stage.starts(), begun, "the consent was not his to give");
    let params = json!({"name": "careful", "arguments": {}});
    let state =
        Two::of(ann.get(Of::Alone, "tools/call", params.clone()).await["requestState"].as_str().unwrap());
    let again = |state: &str| {
        let mut params = params.clone();
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"confirm": yes});
        params
    };
    let theirs = bob.ask(Of::Alone, "tools/call", again(&state.theirs)).await;
    let made_up = bob.ask(Of::Alone, "tools/call", again(&state.made_up)).await;
    assert_eq!(plain(theirs, &state), plain(made_up, &state), "requestState");

    // Names that callers choose: the same name used by another owner is a different one.
    let keyed = |key: &str| {
        let meta = json!({"io.taskbridge/idempotency-key": key, "progressToken": key});
        json!({"name": "work", "arguments": {}, "task": {}, "_meta": meta})
    };
    let hers = ann.get(Of::Sessions, "tools/call", keyed("hers")).await;
    let two = Two { theirs: "hers".to_owned(), made_up: "hisown".to_owned() };
    let theirs = bob.ask(Of::Sessions, "tools/call", keyed("hers")).await;
    assert_ne!(theirs.body["result"]["task"]["taskId"], hers["task"]["taskId"]);
    let made_up = bob.ask(Of::Sessions, "tools/call", keyed("hisown")).await;
    assert_eq!(plain(theirs, &two), plain(made_up, &two), "idempotency key");

    // None of these requests changed anything.
    for (id, status) in [(&running, "working"), (&asking, "input_required"), (&ended, "cancelled")] {
        let task = ann.get(Of::Sessions, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(task["status"], status, "{task}");
    }
}

/// A row is read by caller and id at exactly two points: one for all verbs, and one for the caller's own
/// tasks that arguments name.
#[test]
fn row_is_read_at_two_points() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut ways) = (vec![root], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path
                .components()
                .any(|part| ["store", "tests"].iter().any(|name| part.as_os_str() == *name))
            {
                let text: String =
                    std::fs::read_to_string(&path).unwrap_or_default().split_whitespace().collect();
                let named = path.file_name().unwrap().to_string_lossy().into_owned();
                ways.extend(text.matches("store.get(id,Some(").map(|_| named.clone()));
            }
        }
    }
    ways.sort();
    assert_eq!(ways, ["actor.rs", "call.rs"]);
}

/// Times are printed and never asserted, because they vary on a busy machine.
/// Compares the lookup of foreign, made-up and malformed ids.
#[tokio::test]
#[allow(clippy::print_stderr, reason = "the times are what this is for")]
async fn foreign_id_lookup_times_are_printed() {
    let server = Server::with(&keys(&[("ann", ""), ("bob", "")])).await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    let two = Two::of(&ann.start(Of::Alone, "work", json!({})).await);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..200 {
        for (times, id) in times.iter_mut().zip([two.theirs.as_str(), &two.made_up, "' OR 1 = 1 --"]) {
            let began = std::time::Instant::now();
            let answer = bob.ask(Of::Alone, "tasks/get", json!({"taskId": id})).await;
            times.push(began.elapsed());
            assert_eq!(answer.body["error"]["message"], "Failed to retrieve task: Task not found");
        }
    }
    for (what, times) in ["foreign", "made up", "malformed"].iter().zip(&mut times) {
        times.sort();
        eprintln!("{what}: median {:?}, 90% within {:?}", times[100], times[180]);
    }
}
