//! Tests for messages that are small to send and expensive to parse, and for values that are slow to check.

use serde_json::{Value, json};

use super::raw::{LIST, RawConnection};
use crate::support::{BASICS, Client, Server, TestApp, TestDir};

const CONFIG: &str = r#"
[limits]
max_json_depth = 20
max_json_elements = 1000
max_argument_bytes = 2000

[backends.sim]
kind = "sim"

[tools.job]
backend = "sim"
target = {}
input_schema = { type = "object", properties = { text = { type = "string", pattern = "^(([a-z])+.)+[A-Z]([a-z])+$" } } }
"#;

/// Returns a message with `junk` in a parameter that nothing reads.
fn with_junk(junk: &str) -> String {
    LIST.replacen("\"params\":{", &format!("\"params\":{{\"junk\":{junk},"), 1)
}

#[tokio::test]
async fn json_bomb_is_refused_before_parsing() {
    let app = TestApp::start(CONFIG);
    let mut raw = RawConnection::open(app.server.url()).await;
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let private_name = r#"{"$serde_json::private::RawValue":"[[[[[[[[[[]]]]]]]]]]"}"#;
    let escaped = r#"{"\u0024serde_json::private::RawValue":"[1]"}"#;
    let wide = format!("[{}]", vec!["[]"; 1_000].join(","));
    for (junk, code, expected) in [
        (nested(19).as_str(), -32600, "nested deeper than 20 levels"),
        (&nested(100_000), -32600, "nested deeper than 20 levels"),
        (&wide, -32600, "more than 1000 members and items"),
        (&format!("[{}", ",".repeat(1_000_000)), -32600, "more than 1000 members and items"),
        (private_name, -32600, "a name that nothing can have"),
        (escaped, -32600, "a name that nothing can have"),
        (r#"{"a":1,"a":2}"#, -32600, "stands twice"),
        ("1e999", -32700, "out of range"),
        ("\"\\ud800\"", -32700, "not JSON"),
    ] {
        let response = raw.post(&with_junk(junk)).await;
        assert_eq!(response.status, 400, "{junk:.60}");
        let (got, message) = response.error();
        assert_eq!(got, code, "{junk:.60}: {message}");
        assert!(message.contains(expected), "{junk:.60}: {message}");
    }
    // Messages within the limits are parsed, also a number with many digits.
    for junk in [
        nested(18),
        "1".repeat(300),
        format!("0.{}", "3".repeat(100_000)),
        "\"[[[[[[[[[[[[[[[[[[[[[[[[[\"".to_owned(),
    ] {
        let response = raw.post(&with_junk(&junk)).await;
        assert_eq!(response.status, 200, "{junk:.60}: {response:?}");
    }
}

#[tokio::test]
async fn argument_size_is_limited() {
    let app = TestApp::start(CONFIG);
    let client = Client::open(app.server.url()).await.unwrap();
    let called = client.call("job", json!({"text": "x".repeat(3_000)})).await;
    let refused = format!("{:?}", called.unwrap_err());
    assert!(refused.contains("-32602") && refused.contains("larger than the 2000 bytes"), "{refused}");
}

#[tokio::test]
async fn pattern_check_does_not_backtrack() {
    let app = TestApp::start(&CONFIG.replace("max_argument_bytes = 2000", "max_argument_bytes = 2000000"));
    let client = Client::open(app.server.url()).await.unwrap();
    // A backtracking engine would take longer than the age of the universe.
    let called = client.call("job", json!({"text": "a".repeat(500_000)})).await;
    let refused = format!("{called:?}");
    assert!(refused.contains("`text`") && refused.contains("pattern"), "{refused:.300}");
}

/// `check` also refuses patterns with look-around.
#[tokio::test]
async fn endless_schema_fails_check() {
    let dir = crate::support::TestDir::new(
        r##"
[backends.sim]
kind = "sim"
[tools.loops]
backend = "sim"
target = {}
input_schema = { type = "object", allOf = [{ "$ref" = "#" }] }
[tools.looks]
backend = "sim"
target = {}
input_schema = { type = "object", properties = { a = { type = "string", pattern = "(?=x)y" } } }
"##,
    );
    let ended = dir.run(dir.command("check")).await;
    assert_ne!(ended.code, Some(0));
    let output = format!("{}{}", ended.stdout, ended.stderr);
    assert!(output.contains("tools.loops") && output.contains("refers to itself without end"), "{output}");
    assert!(output.contains("tools.looks") && output.contains("no look-around"), "{output}");
}

#[tokio::test]
async fn requested_ttl_is_clamped() {
    let short = CONFIG.replace("target = {}", "target = {}\nmax_runtime = \"10s\"");
    let bounds = "[lifetime]\nmin_ttl = \"1m\"\nmax_ttl = \"1h\"\nkeep_result = \"1s\"\n";
    let app = TestApp::start(&format!("{short}\n{bounds}"));
    let client = Client::open(app.server.url()).await.unwrap();
    for (requested, granted) in [
        (json!(1), 60_000),
        (json!(3_600_000_u64 * 24 * 365 * 1000), 3_600_000),
        (json!(u64::MAX), 3_600_000),
    ] {
        let call = json!({"name": "job", "arguments": {}, "task": {"ttl": requested}});
        let result: Result<Value, _> = client.request("tools/call", call).await;
        match result {
            Ok(created) => assert_eq!(created["task"]["ttl"], granted, "{requested}"),
            Err(fault) => assert!(format!("{fault:?}").contains("-32602"), "{requested}: {fault:?}"),
        }
    }
}

/// A description of every error in every branch would take gigabytes and kill the process.
#[tokio::test]
async fn recursive_schema_error_is_bounded() {
    let form = |required: &str, extra: &str| {
        let array = r##"{ type = "array", items = { "$ref" = "#/$defs/filter" } }"##;
        format!(
            r#"{{ type = "object", required = ["{required}"], properties = {{ and = {array}, or = {array}{extra} }} }}"#
        )
    };
    let forms =
        [form("and", ""), form("or", ""), form("field", ", field = { type = \"string\" }")].join(", ");
    let schema = format!(
        r##"{{ type = "object", properties = {{ filter = {{ "$ref" = "#/$defs/filter" }} }}, "$defs" = {{ filter = {{ oneOf = [{forms}, {forms}] }} }} }}"##
    );
    let app = TestApp::start(&format!(
        "[backends.sim]\nkind = \"sim\"\n[tools.find]\nbackend = \"sim\"\ntarget = {{}}\ninput_schema = {schema}\n"
    ));
    let client = Client::open(app.server.url()).await.unwrap();
    for depth in [14, 16, 28] {
        let filter = (0..depth).fold(json!({"field": 1}), |inner, _| json!({"and": [inner]}));
        let result = client.call("find", json!({ "filter": filter })).await.unwrap();
        assert_eq!(result["isError"], true, "{depth}: {result}");
        let refused = result.to_string();
        assert!(refused.contains("filter"), "{depth}: {refused}");
        assert!(refused.len() < 4_000, "{depth}: {} bytes", refused.len());
    }
    let peak = app.server.peak_memory_kib();
    assert!(peak < 200 * 1024, "{peak} KiB");
}

/// The log has a line for each page that was serialized.
#[tokio::test]
async fn list_is_written_once_for_all() {
    let dir = TestDir::new(&format!("{BASICS}{CONFIG}"));
    let mut serve = dir.command("serve");
    serve.env("TASKBRIDGE_LOG", "warn,taskbridge::mcp::features::tools::list=debug");
    let mut server = Server::spawn(serve, &dir.path("server.log"));
    server.wait_until_it_listens();
    let mut lists = Vec::new();
    for _ in 0..5 {
        let mut raw = RawConnection::open(server.url()).await;
        let client = Client::open(server.url()).await.unwrap();
        for _ in 0..5 {
            let response: Value = serde_json::from_str(&raw.post(LIST).await.body).unwrap();
            lists.push(response["result"]["tools"].clone());
            lists.push(client.request("tools/list", json!({})).await.unwrap()["tools"].clone());
        }
    }
    assert!(lists.iter().all(|list| list.as_array().unwrap().iter().any(|tool| tool["name"] == "job")));
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    let pages_written = |revision: &str| {
        let is_page = |line: &&str| line.contains("wrote a page of tools/list") && line.contains(revision);
        log.lines().filter(is_page).count()
    };
    assert_eq!((pages_written("2026-07-28"), pages_written("2025-11-25")), (1, 1), "{log}");
    drop(server);
}
