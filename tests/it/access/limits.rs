//! Tests for the limits of one owner, and that other owners are served meanwhile.

use serde_json::json;

use super::raw::{Protocol, RawClient};
use super::{keys, with_timeout};
use crate::hostile::raw;
use crate::support::{Client, TestApp, TestDir};
use crate::v2025::bench::Server;

const TOOLS: &str = r#"
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
    Server::with(&format!("{keys}{TOOLS}\n[limits.owner]\n{limits}\n")).await
}

fn call(tool: &str) -> serde_json::Value {
    json!({"name": tool, "arguments": {}, "task": {}})
}

/// The limit of one tool and the limit of the owner both refuse the next call until a job ends.
#[tokio::test]
async fn running_jobs_are_limited_per_owner() {
    let server = server("max_running = 2").await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    let first = ann.start(Protocol::Stateful, "heavy", json!({})).await;
    server.engine.job(1).await;
    let refused = ann.send(Protocol::Stateful, "tools/call", call("heavy")).await.body;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("your limit of running tasks of tool heavy is reached (1)")
            && message.contains("call again when"),
        "{message}"
    );
    ann.start(Protocol::Stateless, "work", json!({})).await;
    server.engine.job(2).await;
    let refused = ann.expect_result(Protocol::Stateless, "tools/call", call("work")).await;
    assert_eq!(refused["isError"], true);
    assert!(refused.to_string().contains("your limit of running tasks is reached (2)"), "{refused}");
    assert_eq!(server.engine.starts(), 2, "nothing was started, and nothing waits");
    bob.start(Protocol::Stateful, "heavy", json!({})).await;
    bob.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(4).await;

    ann.expect_result(Protocol::Stateful, "tasks/cancel", json!({"taskId": first})).await;
    server.engine.job(1).await.wait_for_cancel().await;
    server.engine.job(1).await.succeed("over");
    let calls = async {
        while ann.send(Protocol::Stateful, "tools/call", call("heavy")).await.body.get("error").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    with_timeout(calls).await;
}

#[tokio::test]
async fn an_owner_keeps_so_many_tasks() {
    let server = server("max_kept = 2").await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    for _ in 0..2 {
        ann.start(Protocol::Stateful, "work", json!({})).await;
    }
    let refused = ann.send(Protocol::Stateful, "tools/call", call("work")).await.body;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("your limit of kept tasks is reached (2)"),
        "{refused}"
    );
    bob.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(3).await;
    assert_eq!(server.engine.starts(), 3);
}

/// A result counts from the moment it is stored, and only while it is kept.
#[tokio::test]
async fn owner_over_max_bytes_is_refused() {
    let lifetime = "[lifetime]\nmin_ttl = \"1s\"\ndefault_ttl = \"1s\"\nkeep_result = \"5s\"\n";
    let server = server(&format!("max_bytes = 50_000\n{lifetime}")).await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    let first = ann.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(1).await.succeed(&"x".repeat(50_000));
    let polls = async {
        while ann.expect_result(Protocol::Stateful, "tasks/get", json!({"taskId": first})).await["status"]
            != "completed"
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    with_timeout(polls).await;
    let refused = ann.send(Protocol::Stateful, "tools/call", call("work")).await.body;
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(
        message.contains("of 50000 bytes (limits.owner.max_bytes)")
            && message.contains("when some have expired"),
        "{message}"
    );
    let refused = ann.expect_result(Protocol::Stateless, "tools/call", call("work")).await;
    assert!(refused.to_string().contains("limits.owner.max_bytes"), "{refused}");
    bob.start(Protocol::Stateful, "work", json!({})).await;
    let calls = async {
        while ann.send(Protocol::Stateful, "tools/call", call("work")).await.body.get("error").is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    with_timeout(calls).await;
}

/// Files that a local job leaves in its folder count like a result.
#[tokio::test]
async fn job_folder_counts_towards_max_bytes() {
    let dir = TestDir::new(
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
    let app = TestApp { server: dir.serve(), dir };
    let ann = Client::open_with_key(app.server.url(), "ann-key").await.unwrap();
    let first = ann.start("large", json!({})).await.unwrap();
    ann.result(&first).await.unwrap();
    let refused = ann.start("large", json!({})).await.unwrap_err();
    assert!(format!("{refused:?}").contains("limits.owner.max_bytes"), "{refused:?}");
}

/// A call over the rate gets 429 with `Retry-After`. Companion tools and other owners are not limited by it.
#[tokio::test]
async fn call_rate_is_limited_per_owner() {
    let server = server("max_calls_per_minute = 2").await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    ann.start(Protocol::Stateful, "work", json!({})).await;
    ann.start(Protocol::Stateless, "work", json!({})).await;
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        let refused = ann.send(protocol, "tools/call", call("work")).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!(429)), "{refused:?}");
        let [(name, seconds)] = &refused.headers[..] else { panic!("{refused:?}") };
        assert_eq!(name, "retry-after");
        assert!((1..=30).contains(&seconds.parse::<u32>().unwrap()), "{seconds}");
        ann.expect_result(protocol, "tools/call", json!({"name": "task_list", "arguments": {}})).await;
    }
    bob.start(Protocol::Stateful, "work", json!({})).await;
    server.engine.job(3).await;
    assert_eq!(server.engine.starts(), 3);
}

/// Owners take turns in the queue of a tool: the first call of one does not wait for all calls of another.
#[tokio::test]
async fn queued_calls_do_not_delay_others() {
    let server = server("max_running = 1000").await;
    let (ann, bob) = (RawClient::open(&server.url, "ann").await, RawClient::open(&server.url, "bob").await);
    // The tool has three slots: the fourth call and all later ones wait.
    for _ in 0..3 {
        ann.start(Protocol::Stateful, "queued", json!({})).await;
    }
    server.engine.job(3).await;
    for _ in 0..6 {
        ann.start(Protocol::Stateful, "queued", json!({})).await;
    }
    let bob_task = bob.start(Protocol::Stateful, "queued", json!({"of": "bob"})).await;
    let status_message = bob
        .expect_result(Protocol::Stateful, "tasks/get", json!({"taskId": bob_task}))
        .await["statusMessage"]
        .clone();
    assert_eq!(status_message, "waiting for a free slot, next in its owner's queue (owners take turns)");
    for n in 1..=2 {
        server.engine.job(n).await.succeed("over");
        server.engine.job(3 + n).await;
    }
    let started_jobs = [4, 5];
    let mut arguments = Vec::new();
    for n in started_jobs {
        arguments.push(server.engine.job(n).await.arguments());
    }
    assert!(
        arguments.contains(&json!({"of": "bob"})),
        "he has had a turn among the first two: {arguments:?}"
    );
    assert_eq!(
        bob.expect_result(Protocol::Stateful, "tasks/get", json!({"taskId": bob_task})).await["status"],
        "working"
    );
}

/// A request for a resource that is too large for its reader to receive at once.
const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:large","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A call is refused if its result exceeds the free memory budget. The same call later returns the result of
/// the same job.
#[tokio::test]
async fn repeated_call_returns_oversized_result() {
    let large = format!("[resources.large]\nuri = \"note:large\"\ntext = \"{}\"\n", "x".repeat(24 << 20));
    let plain = "[tools.plain]\nbackend = \"stage\"\ntarget = {}\ninput_schema = { type = \"object\" }\ntask_support = \"forbidden\"\n";
    let extra = format!("{}{plain}{large}[limits]\nmax_bytes_in_hand = 67108864\n", keys(&[("ann", "")]));
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        let server = Server::configured(&[("call_budget = \"2s\"", "call_budget = \"20s\"")], &extra).await;
        let ann = RawClient::open(&server.url, "ann").await;
        let mut reader = raw::RawConnection::with_small_buffer(&server.url).await;
        let host = "Host: localhost\r\n";
        let as_ann = raw::post(READ).replace(host, &format!("{host}Authorization: Bearer key-of-ann\r\n"));
        reader.send(as_ann).await;
        reader.read_head().await;

        let call = || json!({"name": "plain", "arguments": {}});
        let (refused, ()) = tokio::join!(ann.send(protocol, "tools/call", call()), async {
            server.engine.job(1).await.succeed(&"y".repeat(1 << 20));
        });
        let message = refused.body["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused:?}"));
        assert!(message.contains("nothing is started a second time"), "{message}");
        let id = message.split_once("task ").and_then(|(_, rest)| rest.split_once(' ')).unwrap().0;
        let (method, by) = match protocol {
            Protocol::Stateful => ("tasks/result", Protocol::Stateful),
            Protocol::Stateless => ("tasks/get", Protocol::Stateless),
        };
        let body = ann.send(by, method, json!({"taskId": id})).await.body;
        assert!(body["error"]["message"].as_str().unwrap().contains("larger than there is room"), "{body}");

        drop(reader);
        let repeated = with_timeout(async {
            loop {
                let body = ann.send(protocol, "tools/call", call()).await.body;
                if body.get("result").is_some() {
                    return body.to_string();
                }
            }
        });
        let repeated = repeated.await;
        assert!(repeated.contains("nothing was started a second time") && repeated.contains("yyyy"));
        assert_eq!(server.engine.starts(), 1, "{protocol:?}");
    }
}
