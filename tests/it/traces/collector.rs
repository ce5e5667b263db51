//! Tests for trace export to a third-party collector: Rotel, which accepts OTLP over HTTP and logs what it
//! receives. `tests/run --only collector` installs it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{PARENT, TIMEOUT, TOOLS, TRACE, call_params};
use crate::support::port::Port;
use crate::support::{TestApp, text};

const SECRET: &str = "a secret of the collector";

/// Runs the collector ($@) until stdin closes, in whatever way the test process ends.
const SUPERVISOR_SCRIPT: &str = r#"
"$@" >>"$LOG" 2>&1 &
pid=$!
read -r _
kill "$pid"
wait "$pid"
"#;

/// The collector. Dropping it stops it.
struct Rotel {
    folder: tempfile::TempDir,
    http: Port,
    grpc: Port,
    supervisor: Option<Child>,
}

/// A span, as the collector logs it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: String,
    status: String,
    attributes: Vec<String>,
}

impl Rotel {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut rotel = Self { folder, http: Port::reserve(), grpc: Port::reserve(), supervisor: None };
        rotel.run();
        rotel
    }

    /// Starts it, or restarts it at its address.
    fn run(&mut self) {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let program = target.join("collector/rotel");
        assert!(program.exists(), "the collector is not installed: run tests/run --only collector");
        let mut command = Command::new("sh");
        command.args(["-c", SUPERVISOR_SCRIPT, "keeper"]).arg(program).args([
            "start",
            "--exporter",
            "blackhole",
        ]);
        command.arg("--otlp-http-endpoint").arg(format!("127.0.0.1:{}", self.http.number));
        command.arg("--otlp-grpc-endpoint").arg(format!("127.0.0.1:{}", self.grpc.number));
        command.args(["--debug-log", "traces", "--debug-log-verbosity", "detailed"]);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LOG", self.log());
        command.env("ROTEL_PID_FILE", self.folder.path().join("pid"));
        command.env("ROTEL_LOG_FILE", self.folder.path().join("log")).stdin(Stdio::piped());
        self.supervisor = Some(command.spawn().unwrap());
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(("127.0.0.1", self.http.number)).is_err() {
            assert!(Instant::now() < deadline, "the collector does not start: {}", self.log_text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            supervisor.wait().unwrap();
        }
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("said")
    }

    /// Returns its log.
    fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for line in self.log_text().lines() {
            if line.starts_with("Span #") {
                spans.push(Span::default());
            } else if line.starts_with("ResourceSpans #") {
                // The following lines describe a resource, until its first span.
                spans.push(Span { name: "resource".to_owned(), ..Span::default() });
            }
            let Some(span) = spans.last_mut() else { continue };
            match line.trim().split_once(": ").map(|(name, value)| (name.trim(), value)) {
                Some(("Trace ID", value)) => span.trace = value.to_owned(),
                Some(("Parent ID", value)) => span.parent = value.to_owned(),
                Some(("ID", value)) => span.id = value.to_owned(),
                Some(("Name", value)) => span.name = value.to_owned(),
                Some(("Kind", value)) => span.kind = value.to_owned(),
                Some(("Status code", value)) => span.status = value.to_owned(),
                _ => {}
            }
            if let Some(attribute) = line.trim().strip_prefix("-> ") {
                span.attributes.push(attribute.to_owned());
            }
        }
        spans
    }

    /// Waits for a span that satisfies a condition, and returns it.
    async fn span(&self, what: &str, matches: impl Fn(&Span) -> bool) -> Span {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(span) = self.spans().into_iter().find(|span| matches(span)) {
                return span;
            }
            assert!(Instant::now() < deadline, "no span is {what}: {}", self.log_text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn config(&self) -> String {
        let (port, headers) = (self.http.number, format!("headers = {{ authorization = \"{SECRET}\" }}"));
        format!(
            "[telemetry]\notlp = \"http://127.0.0.1:{port}\"\nservice_name = \"bridge\"\n{headers}\n{TOOLS}"
        )
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Span {
    fn has(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|has| has == attribute)
    }
}

/// The spans of the request, of the act and of the engine call have the client's span as root, and no
/// secrets.
#[tokio::test]
async fn call_is_traced_into_engine() {
    let collector = Rotel::start();
    let mut app = TestApp::start(&collector.config());
    let client = app.client().await;
    let params = call_params("place", json!({"word": "also-not-this-one"}), PARENT);
    let job_context = text(&client.request("tools/call", params).await.unwrap());
    let id = client.list().await.unwrap()[0]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(app.server.stop(), Some(0));

    let start = |span: &Span| {
        span.name == "engine call" && span.trace == TRACE && span.has("taskbridge.operation: Str(start)")
    };
    let engine = collector.span("the start at the engine", start).await;
    let act = collector.span("the act above it", |span| span.id == engine.parent).await;
    let request = collector.span("the request above that", |span| span.id == act.parent).await;
    assert_eq!((act.name.as_str(), request.name.as_str()), ("act", "request"));
    assert_eq!([&act.trace, &request.trace], [TRACE, TRACE]);
    assert_eq!(request.parent, "00f067aa0ba902b7", "the client's own span");
    assert_eq!(job_context.trim(), format!("00-{TRACE}-{}-01", engine.id), "what the job was given");
    let kinds = [&request, &act, &engine].map(|span| span.kind.as_str());
    assert_eq!(kinds, ["SPAN_KIND_SERVER", "SPAN_KIND_INTERNAL", "SPAN_KIND_CLIENT"]);
    assert_eq!(engine.status, "STATUS_CODE_OK");
    assert!(request.has("rpc.method: Str(tools/call)"), "{request:?}");
    assert!(act.has("taskbridge.tool: Str(place)") && act.has("taskbridge.backend: Str(here)"), "{act:?}");

    let spans = collector.spans();
    let mut resources = spans.iter().filter(|span| span.name == "resource");
    let version = format!("service.version: Str({})", env!("CARGO_PKG_VERSION"));
    assert!(resources.all(|resource| resource.attributes == ["service.name: Str(bridge)", version.as_str()]));
    let log = collector.log_text();
    assert!(log.contains(&format!("InstrumentationScope taskbridge {}", env!("CARGO_PKG_VERSION"))));
    for secret in [&*id, "also-not-this-one", "nobody-else", "echo", SECRET] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

/// Returns how many times the server's log contains `expected`.
fn times(app: &TestApp, expected: &str) -> usize {
    fs::read_to_string(app.dir.path("server.log")).unwrap().matches(expected).count()
}

async fn wait_for_log(app: &TestApp, expected: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while times(app, expected) == 0 {
        assert!(Instant::now() < deadline, "it is not logged: {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Its end and its return are each logged once.
#[tokio::test]
async fn collector_outage_is_logged_once() {
    let mut collector = Rotel::start();
    let mut app = TestApp::start(&collector.config());
    let client = app.client().await;
    let trace = |n: usize| PARENT.replace(TRACE, &format!("{n:032x}"));
    let is_request =
        |n: usize| move |span: &Span| span.trace == format!("{n:032x}") && span.name == "request";
    let list = async |n: usize| {
        client.request("tools/list", json!({"_meta": {"traceparent": trace(n)}})).await.unwrap();
    };
    list(1).await;
    collector.span("of the first request", is_request(1)).await;
    collector.stop();
    list(2).await;
    wait_for_log(&app, "spans cannot be sent").await;
    list(3).await;
    collector.run();
    // One of these requests may be in a batch whose export begins before the collector listens.
    let mut last = 3;
    while times(&app, "spans can be sent again") == 0 {
        last += 1;
        list(last).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    list(last + 1).await;
    collector.span("of the last request", is_request(last + 1)).await;
    assert_eq!(app.server.stop(), Some(0));
    assert_eq!([times(&app, "spans cannot be sent"), times(&app, "spans can be sent again")], [1, 1]);
}

#[tokio::test]
async fn silent_collector_delays_no_request() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let app = TestApp::start(&format!("[telemetry]\notlp = \"{url}\"\n{TOOLS}"));
    let client = app.client().await;
    // The server's timeout for a collector.
    let export_timeout = Duration::from_secs(10);
    let started = Instant::now();
    for _ in 0..20 {
        client.request("tools/list", json!({"_meta": {"traceparent": PARENT}})).await.unwrap();
    }
    assert!(started.elapsed() < export_timeout, "{:?}", started.elapsed());
    // The collector had a connection attempt, so the server did try to export.
    silent.accept().unwrap();
}
