//! Tests of distributed traces: the spans that a collector gets for a call, from the client's `traceparent`
//! to the engine.

mod collector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{BASICS, ModernClient, TestApp, TestDir, text};

/// Timeout of any step here.
const TIMEOUT: Duration = Duration::from_secs(30);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

const TOOLS: &str = r#"
[log]
format = "json"

[backends.here]
kind = "local"

[tools.place]
backend = "here"
parameters.word = { type = "string", default = "a-word-that-nobody-else-may-see" }
target.command = ["sh", "-c", "echo $TRACEPARENT"]

[tools.one]
backend = "here"
max_running = 1
when_full = "queue"
parameters.seconds = { type = "integer", default = 0 }
target.command = ["sleep", "{{ seconds }}"]
"#;

/// A span as the collector received it.
#[derive(Clone, Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    attributes: BTreeMap<String, String>,
    status: u64,
    started_at: u128,
    ended_at: u128,
}

/// A collector that accepts OTLP over HTTP. It stops with the test.
struct Collector {
    url: String,
    received: Arc<ReceivedSpans>,
    server_task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct ReceivedSpans {
    spans: Mutex<Vec<Span>>,
    raw: Mutex<String>,
    span_added: Notify,
}

async fn receive_spans(
    State(received): State<Arc<ReceivedSpans>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Json<Value> {
    assert_eq!(headers["authorization"], "a secret of the collector");
    received.raw.lock().push_str(&body.to_string());
    for resource in body["resourceSpans"].as_array().unwrap() {
        let service = &resource["resource"]["attributes"][0];
        assert_eq!(*service, json!({"key": "service.name", "value": {"stringValue": "bridge"}}));
        for span in
            resource["scopeSpans"].as_array().unwrap().iter().flat_map(|s| s["spans"].as_array().unwrap())
        {
            received.spans.lock().push(read(span));
        }
    }
    received.span_added.notify_one();
    Json(json!({}))
}

fn read(span: &Value) -> Span {
    let text = |name: &str| span[name].as_str().unwrap().to_owned();
    let attributes = span["attributes"].as_array().unwrap().iter().map(|attribute| {
        let value = attribute["value"]["stringValue"].as_str().unwrap();
        (attribute["key"].as_str().unwrap().to_owned(), value.to_owned())
    });
    Span {
        trace: text("traceId"),
        id: text("spanId"),
        parent: text("parentSpanId"),
        name: text("name"),
        kind: span["kind"].as_u64().unwrap(),
        attributes: attributes.collect(),
        status: span["status"]["code"].as_u64().unwrap(),
        started_at: text("startTimeUnixNano").parse().unwrap(),
        ended_at: text("endTimeUnixNano").parse().unwrap(),
    }
}

impl Collector {
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<ReceivedSpans>::default();
        let router = Router::new().route("/v1/traces", post(receive_spans)).with_state(Arc::clone(&received));
        let server_task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, received, server_task }
    }

    fn config(&self) -> String {
        let headers = "headers = { authorization = \"a secret of the collector\" }";
        format!("[telemetry]\notlp = \"{}\"\nservice_name = \"bridge\"\n{headers}\n{TOOLS}", self.url)
    }

    /// Waits for a span that satisfies the condition.
    async fn span(&self, what: &str, matches: impl Fn(&Span) -> bool) -> Span {
        let waiting = async {
            loop {
                let found = self.received.spans.lock().iter().find(|span| matches(span)).cloned();
                match found {
                    Some(span) => return span,
                    None => self.received.span_added.notified().await,
                }
            }
        };
        let found = tokio::time::timeout(TIMEOUT, waiting).await;
        found.unwrap_or_else(|_| panic!("no span is {what}: {:#?}", self.received.spans.lock()))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server_task.abort();
    }
}

impl Span {
    fn is(&self, name: &str, key: &str, value: &str) -> bool {
        self.name == name && self.attributes.get(key).is_some_and(|has| has == value)
    }
}

fn call_params(tool: &str, arguments: Value, parent: &str) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {"traceparent": parent, "tracestate": "vendor=x"}})
}

/// Follows a call from its request to the engine. The trace context that the job got is the span of the
/// engine call.
async fn follow(collector: &Collector, parent: Option<&str>, job_context: &str) -> Span {
    let start = |span: &Span| span.is("engine call", "taskbridge.operation", "start");
    let engine = collector.span("the start at the engine", start).await;
    let by_id = async |id: &str| collector.span("its parent", |span| span.id == id).await;
    let act = by_id(&engine.parent).await;
    let request = by_id(&act.parent).await;
    let verb = collector.span("the verb", |span| span.is("verb", "taskbridge.verb", "call")).await;
    assert_eq!((act.name.as_str(), request.name.as_str()), ("act", "request"));
    assert_eq!((verb.parent.as_str(), request.parent.as_str()), (&*request.id, parent.unwrap_or_default()));
    assert!([&act, &request, &verb].iter().all(|span| span.trace == engine.trace));
    assert_eq!((request.kind, act.kind, engine.kind, engine.status), (2, 1, 3, 1));
    assert_eq!(request.attributes["rpc.method"], "tools/call");
    assert_eq!(
        (&*act.attributes["taskbridge.tool"], &*act.attributes["taskbridge.backend"]),
        ("place", "here")
    );
    assert!(request.started_at <= engine.started_at && engine.started_at <= engine.ended_at);
    assert_eq!(job_context, format!("00-{}-{}-01", engine.trace, engine.id));
    engine
}

/// The spans contain no complete task id, no arguments and no secrets.
#[tokio::test]
async fn trace_connects_client_to_engine() {
    let collector = Collector::start().await;
    let app = TestApp::start(&collector.config());
    let client = app.client().await;
    let params = call_params("place", json!({"word": "also-not-this-one"}), PARENT);
    let answer = client.request("tools/call", params).await.unwrap();
    let engine = follow(&collector, Some("00f067aa0ba902b7"), text(&answer).trim()).await;
    assert_eq!(engine.trace, TRACE);
    // A task id may act as a secret, and so may a caller's input.
    let act = collector.span("the act", |span| span.id == engine.parent).await;
    assert_eq!(act.attributes["taskbridge.task"].len(), 10, "{act:?}");
    let id = client.list().await.unwrap()[0]["taskId"].as_str().unwrap().to_owned();
    assert!(id.starts_with(act.attributes["taskbridge.task"].trim_end_matches('.')));
    let raw = collector.received.raw.lock().clone();
    for secret in [&*id, "also-not-this-one", "nobody-else", "echo", "a secret of the collector"] {
        assert!(!raw.contains(secret), "{secret}");
    }
}

/// A client of the modern protocol may send its trace context in a header.
#[tokio::test]
async fn traceparent_header_sets_trace() {
    let collector = Collector::start().await;
    let app = TestApp::start(&collector.config());
    let modern = ModernClient::without_tasks(app.server.url()).with_header("traceparent", PARENT);
    let answer = modern.call("place", &json!({}), json!({})).await.unwrap();
    let engine = follow(&collector, Some("00f067aa0ba902b7"), text(&answer).trim()).await;
    assert_eq!(engine.trace, TRACE);
}

#[tokio::test]
async fn call_without_trace_begins_one() {
    let collector = Collector::start().await;
    let app = TestApp::start(&collector.config());
    let answer = app.client().await.call("place", json!({})).await.unwrap();
    let engine = follow(&collector, None, text(&answer).trim()).await;
    assert_ne!(engine.trace, TRACE);
}

/// If another process starts the job, the start is still a span in the trace of the call.
#[tokio::test]
async fn start_after_takeover_keeps_trace() {
    let collector = Collector::start().await;
    let dir = TestDir::new(&format!("{BASICS}{}", collector.config()));
    let mut first = dir.serve();
    let client = crate::support::Client::open(first.url()).await.unwrap();
    let running = client.start("one", json!({"seconds": 1000})).await.unwrap();
    let mut params = call_params("one", json!({}), PARENT);
    params["task"] = json!({});
    let queued =
        client.request("tools/call", params).await.unwrap()["task"]["taskId"].as_str().unwrap().to_owned();
    let request = |span: &Span| span.name == "request" && span.trace == TRACE;
    let request = collector.span("the request", request).await;
    first.kill();
    let started_before =
        collector.received.spans.lock().iter().any(|s| s.trace == TRACE && s.name == "engine call");
    assert!(!started_before, "it waits for its slot");

    let second = dir.serve();
    let client = client.at(second.url());
    client.cancel(&running).await.unwrap();
    client.result(&queued).await.unwrap();
    let act = collector
        .span("the start", |s| s.is("act", "taskbridge.operation", "start") && s.trace == TRACE)
        .await;
    assert_eq!(act.parent, request.id);
    let engine = collector.span("the call", |s| s.name == "engine call" && s.parent == act.id).await;
    assert_eq!((engine.trace.as_str(), &*engine.attributes["taskbridge.operation"]), (TRACE, "start"));
}

/// The job still gets the trace context, with the flag that the trace is not sampled.
#[tokio::test]
async fn unsampled_trace_is_not_exported() {
    let collector = Collector::start().await;
    let app = TestApp::start(&collector.config());
    let client = app.client().await;
    let params = call_params("place", json!({}), &PARENT.replace("-01", "-00"));
    let job_context = text(&client.request("tools/call", params).await.unwrap());
    assert!(
        job_context.starts_with(&format!("00-{TRACE}-")) && job_context.trim().ends_with("-00"),
        "{job_context}"
    );
    client
        .request("tools/call", call_params("place", json!({}), &PARENT.replace(TRACE, &"9".repeat(32))))
        .await
        .unwrap();
    collector
        .span("that of the next call", |span| span.trace == "9".repeat(32) && span.name == "request")
        .await;
    assert!(!collector.received.spans.lock().iter().any(|span| span.trace == TRACE));
}

/// Calls work without the collector, and their jobs get the trace context.
#[tokio::test]
async fn unreachable_collector_is_logged_once() {
    let mut app = TestApp::start(&format!("[telemetry]\notlp = \"http://127.0.0.1:1/else/\"\n{TOOLS}"));
    let client = app.client().await;
    let mut outputs = Vec::new();
    for _ in 0..3 {
        outputs.push(text(
            &client.request("tools/call", call_params("place", json!({}), PARENT)).await.unwrap(),
        ));
    }
    assert!(outputs.iter().all(|output| output.contains(TRACE)), "{outputs:?}");
    assert_eq!(app.server.stop(), Some(0));
    let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
    assert_eq!(log.matches("spans cannot be sent").count(), 1, "{log}");
}

/// This is true with and without `[telemetry]`.
#[tokio::test]
async fn log_lines_name_trace_and_task() {
    for telemetry in [true, false] {
        let collector = Collector::start().await;
        let config = if telemetry { collector.config() } else { TOOLS.to_owned() };
        let mut app = TestApp::start(&config);
        let client = app.client().await;
        client.request("tools/call", call_params("place", json!({}), PARENT)).await.unwrap();
        assert_eq!(app.server.stop(), Some(0));
        let log = std::fs::read_to_string(app.dir.path("server.log")).unwrap();
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let log_line = |what: &str| lines.iter().find(|line| line["message"] == what).unwrap();
        for what in ["task created", "task ended"] {
            assert_eq!(log_line(what)["trace_id"], TRACE, "{}", log_line(what));
            assert!(log_line(what)["task"].is_string());
        }
    }
}
