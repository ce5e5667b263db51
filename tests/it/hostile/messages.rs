//! Tests for messages that are small to send and expensive to parse, and for values that are slow to check.

use serde_json::{Value, json};

use super::raw::{LIST, Raw};
use crate::support::{BASICS, Client, Place, Server, TestApp};

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
fn with(junk: &str) -> String {
    LIST.replacen("\"params\":{", &format!("\"params\":{{\"junk\":{junk},"), 1)
}

#[tokio::test]
async fn json_bomb_is_refused_before_parsing() {
    let app = TestApp::start(CONFIG);
    let mut raw = Raw::open(app.server.url()).await;
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let hidden = r#"{"$serde_json::private::RawValue":"[[[[[[[[[[]]]]]]]]]]"}"#;
    let escaped = r#"{"\u0024serde_json::private::RawValue":"[1]"}"#;
    let wide = format!("[{}]", vec!["[]"; 1_000].join(","));
    for (junk, code, says) in [
        (nested(19).as_str(), -32600, "nested deeper than 20 levels"),
        (&nested(100_000), -32600, "nested deeper than 20 levels"),
        (&wide, -32600, "more than 1000 members and items"),
        (&format!("[{}", ",".repeat(1_000_000)), -32600, "more than 1000 members and items"),
        (hidden, -32600, "a name that nothing can have"),
        (escaped, -32600, "a name that nothing can have"),
        (r#"{"a":1,"a":2}"#, -32600, "stands twice"),
        ("1e999", -32700, "out of range"),
        ("\"\\ud800\"", -32700, "not JSON"),
    ] {
        let answer = raw.post(&with(junk)).await;
        assert_eq!(answer.status, 400, "{junk:.60}");
        let (got, message) = answer.error();
        assert_eq!(got, code, "{junk:.60}: {message}");
        assert!(message.contains(says), "{junk:.60}: {message}");
    }
    // Messages within the limits are parsed, also a number with many digits.
    for junk in [
        nested(18),
        "1".repeat(300),
        format!("0.{}", "3".repeat(100_000)),
        "\"[[[[[[[[[[[[[[[[[[[[[[[[[\"".to_owned(),
    ] {
        let answer = raw.post(&with(&junk)).await;
        assert_eq!(answer.status, 200, "{junk:.60}: {answer:?}");
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
    let place = crate::support::Place::new(
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
    let ended = place.run(place.command("check")).await;
    assert_ne!(ended.code, Some(0));
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("tools.loops") && said.contains("refers to itself without end"), "{said}");
    assert!(said.contains("tools.looks") && said.contains("no look-around"), "{said}");
}

#[tokio::test]
async fn requested_ttl_is_clamped() {
    let short = CONFIG.replace("target = {}", "target = {}\nmax_runtime = \"10s\"");
    let bounds = "[lifetime]\nmin_ttl = \"1m\"\nmax_ttl = \"1h\"\nkeep_result = \"1s\"\n";
    let app = TestApp::start(&format!("{short}\n{bounds}"));
    let client = Client::open(app.server.url()).await.unwrap();
    for (asked, given) in [
        (json!(1), 60_000),
        (json!(3_600_000_u64 * 24 * 365 * 1000), 3_600_000),
        (json!(u64::MAX), 3_600_000),
    ] {
        let call = json!({"name": "job", "arguments": {}, "task": {"ttl": asked}});
        let answer: Result<Value, _> = client.request("tools/call", call).await;
        match answer {
            Ok(made) => assert_eq!(made["task"]["ttl"], given, "{asked}"),
            Err(fault) => assert!(format!("{fault:?}").contains("-32602"), "{asked}: {fault:?}"),
        }
    }
}

/// A description of every error in every branch would take gigabytes and kill the process.
#[tokio::test]
async fn recursive_schema_error_is_bounded() {
    let form = |required: &str, more: &str| {
        let of = r##"{ type = "array", items = { "$ref" = "#/$defs/filter" } }"##;
        format!(
            r#"{{ type = "object", required = ["{required}"], properties = {{ and = {of}, or = {of}{more} }} }}"#
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
        let answer = client.call("find", json!({ "filter": filter })).await.unwrap();
        assert_eq!(answer["isError"], true, "{depth}: {answer}");
        let refused = answer.to_string();
        assert!(refused.contains("filter"), "{depth}: {refused}");
        assert!(refused.len() < 4_000, "{depth}: {} bytes", refused.len());
    }
    let peak = app.server.peak_memory_kib();
    assert!(peak < 200 * 1024, "{peak} KiB");
}

/// The log has a line for each page that was serialized.
#[tokio::test]
async fn list_is_written_once_for_all() {
    let place = Place::new(&format!("{BASICS}{CONFIG}"));
    let mut serve = place.command("serve");
    serve.env("TASKBRIDGE_LOG", "warn,taskbridge::mcp::tool_list=debug");
    let mut server = Server::spawn(serve, &place.path("server.log"));
    server.wait_until_it_listens();
    let mut lists = Vec::new();
    for _ in 0..5 {
        let mut raw = Raw::open(server.url()).await;
        let client = Client::open(server.url()).await.unwrap();
        for _ in 0..5 {
            let answer: Value = serde_json::from_str(&raw.post(LIST).await.body).unwrap();
            lists.push(answer["result"]["tools"].clone());
            lists.push(client.request("tools/list", json!({})).await.unwrap()["tools"].clone());
        }
    }
    assert!(lists.iter().all(|list| list.as_array().unwrap().iter().any(|tool| tool["name"] == "job")));
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    let written = |revision: &str| {
        let of = |line: &&str| line.contains("wrote a page of tools/list") && line.contains(revision);
        log.lines().filter(of).count()
    };
    assert_eq!((written("2026-07-28"), written("2025-11-25")), (1, 1), "{log}");
    drop(server);
}
