//! Tests of `/healthz` and `/readyz`, the endpoints for load balancers and on-call operators.

use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{BASICS, MetricsScrape, TestApp, TestDir, text};

/// Timeout of any step here.
const TIMEOUT: Duration = Duration::from_secs(30);

const LOCAL_CONFIG: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
backend = "here"
target.command = ["echo", "hello"]
"#;

/// A backend whose engine is unreachable.
const UNREACHABLE_CONFIG: &str = r#"
[backends.away]
kind = "sim"
address = "127.0.0.1:1"

[tools.far]
backend = "away"
target = {}
"#;

/// Requests one of the two endpoints and returns the status and the body.
async fn probe(app: &TestApp, path: &str) -> (StatusCode, Value) {
    let url = app.server.url().replace("/mcp", path);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let response = client.get(url).send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "no-store");
    (response.status(), response.json().await.unwrap())
}

/// Polls `/readyz` until it reports this status.
async fn wait_for_status(app: &TestApp, status: &str) -> (StatusCode, Value) {
    let polls = tokio::time::timeout(TIMEOUT, async {
        loop {
            let response = probe(app, "/readyz").await;
            if response.1["status"] == status {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    polls.await.unwrap_or_else(|_| panic!("it never becomes {status}"))
}

#[tokio::test]
async fn ready_server_reports_component_status() {
    let app = TestApp::start(LOCAL_CONFIG);
    assert_eq!(probe(&app, "/healthz").await, (StatusCode::OK, json!({"status": "ok"})));
    let fresh =
        json!({"status": "ready", "store": {"status": "up"}, "backends": {"here": {"status": "unknown"}}});
    assert_eq!(probe(&app, "/readyz").await, (StatusCode::OK, fresh));
    let result = app.client().await.call("hello", json!({})).await.unwrap();
    assert_eq!(text(&result), "hello\n");
    let (status, body) = probe(&app, "/readyz").await;
    assert_eq!((status, &body["backends"]["here"]), (StatusCode::OK, &json!({"status": "up"})), "{body}");
}

/// `/readyz` keeps its status 200, and tools of other engines work.
#[tokio::test]
async fn unreachable_engine_only_degrades_server() {
    let app = TestApp::start(&format!("{LOCAL_CONFIG}{UNREACHABLE_CONFIG}"));
    let client = app.client().await;
    client.start("far", json!({})).await.unwrap();
    let (status, body) = wait_for_status(&app, "degraded").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["backends"]["away"]["status"], "down");
    assert!(body["backends"]["away"]["seconds"].is_u64());
    assert!(!body.to_string().contains("127.0.0.1"), "why it is away is for the log: {body}");
    // Tools that do not need that engine work.
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// `/readyz` fails, and `/healthz` does not.
#[tokio::test]
async fn failing_store_makes_server_unready() {
    let app = TestApp::start(LOCAL_CONFIG);
    let database = rusqlite::Connection::open(app.dir.path("state/taskbridge.db")).unwrap();
    database.execute_batch("DROP TABLE tasks").unwrap();
    let (status, body) = wait_for_status(&app, "down").await;
    assert_eq!((status, &body["store"]["status"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("down")));
    assert_eq!(probe(&app, "/healthz").await.0, StatusCode::OK);
}

/// Tasks accepted in the meantime would be lost after a restart.
#[tokio::test]
async fn moved_database_is_down_until_back() {
    let app = TestApp::start(LOCAL_CONFIG);
    let client = app.client().await;
    let (database, backup) = (app.dir.path("state/taskbridge.db"), app.dir.path("away"));
    std::fs::rename(&database, &backup).unwrap();
    client.start("hello", json!({})).await.unwrap_err();
    let (status, body) = wait_for_status(&app, "down").await;
    let reason = "a database file was deleted, moved or replaced";
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["store"], json!({"status": "down", "reason": reason}));
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert!(log.contains("taskbridge.db was deleted or moved while the server runs: put it back"), "{log}");
    std::fs::rename(&backup, &database).unwrap();
    wait_for_status(&app, "ready").await;
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// No client calls: the server notices by itself.
#[tokio::test]
async fn deleted_log_is_noticed_when_idle() {
    let app = TestApp::start(LOCAL_CONFIG);
    std::fs::remove_file(app.dir.path("state/taskbridge.db-wal")).unwrap();
    assert_eq!(wait_for_status(&app, "down").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn full_disk_is_down_until_space() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let dir = TestDir::new(&format!("{BASICS}{UNREACHABLE_CONFIG}"));
    // Limits files to 512 KiB. A write beyond the limit raises SIGXFSZ.
    let app = TestApp { server: dir.serve_with_limits("ulimit -S -f 1024"), dir };
    let client = app.client().await;
    let mut calls = 0;
    while client.start("far", json!({})).await.is_ok() {
        calls += 1;
        assert!(calls < 5_000, "the disk is never full");
    }
    let (status, body) = wait_for_status(&app, "down").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["store"]["reason"].is_string(), "{body}");
    let unlimited = Rlimit { current: None, maximum: None };
    prlimit(rustix::process::Pid::from_raw(app.server.pid() as i32), Resource::Fsize, unlimited).unwrap();
    let (status, _) = wait_for_status(&app, "degraded").await;
    assert_eq!(status, StatusCode::OK, "nobody called meanwhile");
    client.start("far", json!({})).await.unwrap();
}

/// A server that drains fails `/readyz` and still serves calls, until a second signal stops it.
#[tokio::test]
async fn draining_server_is_unready_but_serves() {
    let draining = BASICS.replace("[server]", "[server]\ndrain_for = \"1h\"");
    let dir = TestDir::new(&format!("{draining}{LOCAL_CONFIG}"));
    let mut app = TestApp { server: dir.serve(), dir };
    let client = app.client().await;
    app.server.signal(Signal::TERM);
    let (status, _) = wait_for_status(&app, "stopping").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(probe(&app, "/healthz").await.0, StatusCode::OK);
    assert_eq!(text(&client.call("hello", json!({})).await.unwrap()), "hello\n");
    // After a second signal the server stops without waiting.
    assert_eq!(app.server.stop(), Some(0));
}

/// A request that came through a proxy or names another host learns nothing about single backends.
#[tokio::test]
async fn readyz_hides_backends_from_proxies() {
    let app = TestApp::start(LOCAL_CONFIG);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = app.server.url().replace("/mcp", "/readyz");
    for (header, value) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("via", "1.1 x"),
        ("host", "evil.example"),
    ] {
        let body: Value = client.get(&url).header(header, value).send().await.unwrap().json().await.unwrap();
        assert_eq!(body, json!({"status": "ready", "store": {"status": "up"}}), "{header}");
    }
}

/// The server does not query the store for every request to `/readyz`.
#[tokio::test]
async fn readiness_flood_spares_store() {
    let mut app = TestApp::start(&format!("{LOCAL_CONFIG}\n[metrics]\nlisten = \"127.0.0.1:0\"\n"));
    let page = app.server.metrics_url();
    let store_reads = async || {
        let numbers = MetricsScrape::read(&page).await;
        let count = "taskbridge_store_operation_duration_seconds_count";
        numbers.sum(count, &[("operation", "get")]) + numbers.sum(count, &[("operation", "next_due")])
    };
    let before = store_reads().await;
    let responses = futures_util::future::join_all((0..400).map(|_| probe(&app, "/readyz"))).await;
    assert!(responses.iter().all(|(status, _)| *status == StatusCode::OK));
    let after = store_reads().await;
    assert!(after - before < 200.0, "{before} and then {after}");
}
