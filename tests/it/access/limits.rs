//! Tests for the limits of one owner, and that other owners are served meanwhile.

use serde_json::json;

use super::raw::{Of, Raw};
use super::{in_time, keys};
use crate::hostile::raw;
use crate::support::{Client, Place, TestApp};
use crate::v2025::bench::Server;

const TWO: &str = r#"
[tools.heavy]
backend = "stage"
target = {}
input_schema = { type = "object" }
max_running_per_owner = 1

[tools.queued]
backend = "stage"
target = {}
input_schema = { type = "object" }
max_running = 3
"#;

async fn server(limits: &str) -> Server {
    let keys = keys(&[("ann", ""), ("bob", "")]);
    Server::with(&format!("{keys}{TWO}\n[limits.owner]\n{limits}\n")).await
}

fn call(tool: &str) -> serde_json::Value {
    json!({"name": tool, "arguments": {}, "task": {}})
}

/// The limit of one tool and the limit of the owner both refuse the next call until a job ends.
#[tokio::test]
async fn running_jobs_are_limited_per_owner() {
    let server = server("max_running = 2").await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    let first = ann.start(Of::Sessions, "heavy", json!({})).await;
    server.stage.job(1).await;
    let refused = ann.ask(Of::Sessions, "tools/call", call("heavy")).await.body;
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("as many tasks of tool heavy of yours run as may run at once (1)")
            && words.contains("call again when"),
        "{words}"
    );
    ann.start(Of::Alone, "work", json!({})).await;
    server.stage.job(2).await;
    let refused = ann.get(Of::Alone, "tools/call", call("work")).await;
    assert_eq!(refused["isError"], true);
    assert!(refused.to_string().contains("as many tasks of yours run as may run at once (2)"), "{refused}");
    assert_eq!(server.stage.starts(), 2, "nothing was started, and nothing waits");
    bob.start(Of::Sessions, "heavy", json!({})).await;
    bob.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(4).await;

    ann.get(Of::Sessions, "tasks/cancel", json!({"taskId": first})).await;
    server.stage.job(1).await.cancelled().await;
    server.stage.job(1).await.succeed("over");
    let calls = async {
        while ann.ask(Of::Sessions, "tools/call", call("heavy")).await.body.get("error").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    in_time(calls).await;
}

#[tokio::test]
async fn an_owner_keeps_so_many_tasks() {
    let server = server("max_kept = 2").await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    for _ in 0..2 {
        ann.start(Of::Sessions, "work", json!({})).await;
    }
    let refused = ann.ask(Of::Sessions, "tools/call", call("work")).await.body;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("you have 2 tasks that are kept"),
        "{refused}"
    );
    bob.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(3).await;
    assert_eq!(server.stage.starts(), 3);
}

/// A result counts from the moment it is stored, and only while it is kept.
#[tokio::test]
async fn owner_over_max_bytes_is_refused() {
    let lifetime = "[lifetime]\nmin_ttl = \"1s\"\ndefault_ttl = \"1s\"\nkeep_result = \"5s\"\n";
    let server = server(&format!("max_bytes = 50_000\n{lifetime}")).await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    let first = ann.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(1).await.succeed(&"x".repeat(50_000));
    let ends = async {
        while ann.get(Of::Sessions, "tasks/get", json!({"taskId": first})).await["status"] != "completed" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    in_time(ends).await;
    let refused = ann.ask(Of::Sessions, "tools/call", call("work")).await.body;
    let words = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(
        words.contains("of 50000 bytes (limits.owner.max_bytes)") && words.contains("when some have expired"),
        "{words}"
    );
    let refused = ann.get(Of::Alone, "tools/call", call("work")).await;
    assert!(refused.to_string().contains("limits.owner.max_bytes"), "{refused}");
    bob.start(Of::Sessions, "work", json!({})).await;
    let calls = async {
        while ann.ask(Of::Sessions, "tools/call", call("work")).await.body.get("error").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    in_time(calls).await;
}

/// Files that a local job leaves in its folder count like a result.
#[tokio::test]
async fn job_folder_counts_towards_max_bytes() {
    let place = Place::new(
        r#"
[server]
listen = "127.0.0.1:0"
[auth]
mode = "api_keys"
[[auth.keys]]
principal = "ann"
sha256 = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c"
[store]
path = "state/taskbridge.db"
[limits.owner]
max_bytes = 200_000
[backends.here]
kind = "local"
[tools.large]
backend = "here"
target.command = ["sh", "-c", "head -c 300000 /dev/zero >$TASKBRIDGE_ARTIFACTS/large"]
"#,
    );
    let app = TestApp { server: place.serve(), place };
    let ann = Client::open_with(app.server.url(), "ann-key").await.unwrap();
    let first = ann.start("large", json!({})).await.unwrap();
    ann.result(&first).await.unwrap();
    let refused = ann.start("large", json!({})).await.unwrap_err();
    assert!(format!("{refused:?}").contains("limits.owner.max_bytes"), "{refused:?}");
}

/// A call over the rate gets 429 with `Retry-After`. Companion tools and other owners are not limited by it.
#[tokio::test]
async fn call_rate_is_limited_per_owner() {
    let server = server("max_calls_per_minute = 2").await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    ann.start(Of::Sessions, "work", json!({})).await;
    ann.start(Of::Alone, "work", json!({})).await;
    for of in [Of::Sessions, Of::Alone] {
        let refused = ann.ask(of, "tools/call", call("work")).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!(429)), "{refused:?}");
        let [(name, seconds)] = &refused.headers[..] else { panic!("{refused:?}") };
        assert_eq!(name, "retry-after");
        assert!((1..=30).contains(&seconds.parse::<u32>().unwrap()), "{seconds}");
        ann.get(of, "tools/call", json!({"name": "task_list", "arguments": {}})).await;
    }
    bob.start(Of::Sessions, "work", json!({})).await;
    server.stage.job(3).await;
    assert_eq!(server.stage.starts(), 3);
}

/// Owners take turns in the queue of a tool: the first call of one does not wait for all calls of another.
#[tokio::test]
async fn queued_calls_do_not_delay_others() {
    let server = server("max_running = 1000").await;
    let (ann, bob) = (Raw::of(&server.url, "ann").await, Raw::of(&server.url, "bob").await);
    // The tool has three slots: the fourth call and all later ones wait.
    for _ in 0..3 {
        ann.start(Of::Sessions, "queued", json!({})).await;
    }
    server.stage.job(3).await;
    for _ in 0..6 {
        ann.start(Of::Sessions, "queued", json!({})).await;
    }
    let his = bob.start(Of::Sessions, "queued", json!({"of": "bob"})).await;
    let waits = bob.get(Of::Sessions, "tasks/get", json!({"taskId": his})).await["statusMessage"].clone();
    assert_eq!(waits, "waiting for a free slot, next in its owner's line, by turns with others");
    for n in 1..=2 {
        server.stage.job(n).await.succeed("over");
        server.stage.job(3 + n).await;
    }
    let begun = [4, 5];
    let mut arguments = Vec::new();
    for n in begun {
        arguments.push(server.stage.job(n).await.arguments());
    }
    assert!(
        arguments.contains(&json!({"of": "bob"})),
        "he has had a turn among the first two: {arguments:?}"
    );
    assert_eq!(bob.get(Of::Sessions, "tasks/get", json!({"taskId": his})).await["status"], "working");
}

/// A request for a resource that is too large for its reader to receive at once.
const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:large","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A call is refused if its result exceeds the free memory budget. The same call later returns the result of
/// the same job.
#[tokio::test]
async fn repeated_call_returns_oversized_result() {
    let large = format!("[resources.large]\nuri = \"note:large\"\ntext = \"{}\"\n", "x".repeat(24 << 20));
    let plain = "[tools.plain]\nbackend = \"stage\"\ntarget = {}\ninput_schema = { type = \"object\" }\ntask_support = \"forbidden\"\n";
    let more = format!("{}{plain}{large}[limits]\nmax_bytes_in_hand = 67108864\n", keys(&[("ann", "")]));
    for of in [Of::Sessions, Of::Alone] {
        let server = Server::configured(&[("call_budget = \"400ms\"", "call_budget = \"20s\"")], &more).await;
        let ann = Raw::of(&server.url, "ann").await;
        let mut reader = raw::Raw::narrow(&server.url).await;
        let host = "Host: localhost\r\n";
        let as_ann = raw::post(READ).replace(host, &format!("{host}Authorization: Bearer key-of-ann\r\n"));
        reader.send(as_ann).await;
        reader.head().await;

        let call = || json!({"name": "plain", "arguments": {}});
        let (refused, ()) = tokio::join!(ann.ask(of, "tools/call", call()), async {
            server.stage.job(1).await.succeed(&"y".repeat(1 << 20));
        });
        let words = refused.body["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused:?}"));
        assert!(words.contains("nothing is started a second time"), "{words}");
        let id = words.split_once("task ").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        let (method, by) = match of {
            Of::Sessions => ("tasks/result", Of::Sessions),
            Of::Alone => ("tasks/get", Of::Alone),
        };
        let told = ann.ask(by, method, json!({"taskId": id})).await.body;
        assert!(told["error"]["message"].as_str().unwrap().contains("larger than there is room"), "{told}");

        drop(reader);
        let again = in_time(async {
            loop {
                let answer = ann.ask(of, "tools/call", call()).await.body;
                if answer.get("result").is_some() {
                    return answer.to_string();
                }
            }
        });
        let again = again.await;
        assert!(again.contains("nothing was started a second time") && again.contains("yyyy"));
        assert_eq!(server.stage.starts(), 1, "{of:?}");
    }
}
