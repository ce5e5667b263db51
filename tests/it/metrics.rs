//! Tests of `/metrics`: the metrics that Prometheus scrapes from a server under use.

mod board;

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{BASICS, Client, Fault, MetricsScrape, ModernClient, TestApp, TestDir, text};

/// Timeout of any step here.
const TIMEOUT: Duration = Duration::from_secs(30);

const CONFIG: &str = r#"
[metrics]
listen = "127.0.0.1:0"

[backends.here]
kind = "local"

[backends.away]
kind = "sim"
address = "127.0.0.1:1"

[tools.hello]
backend = "here"
target.command = ["echo", "hello"]

[tools.fails]
backend = "here"
target.command = ["false"]

[tools.long]
backend = "here"
max_running = 1
when_full = "queue"
target.command = ["sleep", "1000"]

[tools.far]
backend = "away"
target = {}
"#;

/// A server and the address of its metrics.
struct MeteredApp {
    app: TestApp,
    metrics_url: String,
}

impl MeteredApp {
    fn start(config: &str) -> Self {
        let mut app = TestApp::start(config);
        let metrics_url = app.server.metrics_url();
        Self { app, metrics_url }
    }

    /// Scrapes until the condition is true.
    async fn wait_for(&self, label: &str, condition: impl Fn(&MetricsScrape) -> bool) -> MetricsScrape {
        let polls = async {
            loop {
                let numbers = MetricsScrape::read(&self.metrics_url).await;
                if condition(&numbers) {
                    return numbers;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, polls).await.unwrap_or_else(|_| panic!("it never becomes so: {label}"))
    }

    /// Waits until a job was polled, then cancels it. It uses a long job, because the reply to the start of
    /// a short job may already contain the job's end.
    async fn wait_for_poll(&self, client: &Client) -> MetricsScrape {
        let job = client.start("long", json!({})).await.unwrap();
        let was_polled = |numbers: &MetricsScrape| {
            let ok_labels = [("backend", "here"), ("outcome", "ok")];
            numbers.sum("taskbridge_engine_jobs_observed_total", &ok_labels) > 0.0
                && numbers.sum("taskbridge_reconcile_lag_seconds_count", &[("what", "look")]) > 0.0
        };
        self.wait_for("a job is looked at", was_polled).await;
        client.cancel(&job).await.unwrap();
        let cancelled = [("backend", "here"), ("operation", "cancel"), ("outcome", "ok")];
        self.wait_for("it is cancelled", |numbers| {
            numbers.sum("taskbridge_engine_calls_total", &cancelled) > 0.0
        })
        .await
    }
}

fn fault(result: Result<Value, Fault>) -> Fault {
    result.expect_err("it is refused")
}

/// A call is counted at the request, the task, the engine, the store and the audit log.
#[tokio::test]
async fn metrics_count_calls_of_both_generations() {
    let metered = MeteredApp::start(CONFIG);
    let url = metered.app.server.url();
    let (old, new) = (metered.app.client().await, ModernClient::without_tasks(url));
    assert_eq!(text(&old.call("hello", json!({})).await.unwrap()), "hello\n");
    assert_eq!(text(&new.call("hello", &json!({}), json!({})).await.unwrap()), "hello\n");
    assert_eq!(old.call("fails", json!({})).await.unwrap()["isError"], true);
    let task = old.start("hello", json!({})).await.unwrap();
    old.result(&task).await.unwrap();
    old.get(&task).await.unwrap();
    // The store is queried again after some seconds.
    let numbers =
        metered.wait_for("four are kept", |numbers| numbers.sum("taskbridge_tasks_kept", &[]) == 4.0).await;
    let count = |name: &str, labels: &[(&str, &str)]| numbers.sum(&format!("taskbridge_{name}"), labels);
    assert_eq!(count("tasks_created_total", &[("tool", "hello")]), 3.0);
    assert_eq!(count("tasks_ended_total", &[("tool", "hello"), ("outcome", "succeeded")]), 3.0);
    assert_eq!(count("tasks_ended_total", &[("tool", "fails"), ("outcome", "failed")]), 1.0);
    assert_eq!(count("task_duration_seconds_count", &[("tool", "hello")]), 3.0);
    for state in ["starting", "running"] {
        assert_eq!(count("task_state_duration_seconds_count", &[("state", state)]), 4.0, "{state}");
    }
    let started = [("backend", "here"), ("operation", "start")];
    assert_eq!(count("engine_calls_total", &[started[0], started[1], ("outcome", "ok")]), 4.0);
    assert_eq!(count("engine_call_duration_seconds_count", &started), 4.0);
    assert_eq!(count("requests_total", &[("method", "tools/call"), ("outcome", "ok")]), 4.0);
    assert_eq!(count("requests_total", &[("method", "initialize"), ("outcome", "ok")]), 1.0);
    assert_eq!(count("requests_total", &[("method", "tasks/get")]), 1.0);
    assert_eq!(count("sessions_begun_total", &[]), 1.0);
    for operation in ["insert", "update", "get", "next_due", "tally"] {
        assert!(
            count("store_operation_duration_seconds_count", &[("operation", operation)]) > 0.0,
            "{operation}"
        );
    }
    for (event, times) in [("task.created", 4.0), ("task.ended", 4.0), ("auth.failed", 0.0)] {
        assert_eq!(count("audit_events_total", &[("event", event)]), times, "{event}");
    }
    assert_eq!(count("audit_failures_total", &[]), 0.0);
    assert_eq!(count("store_errors_total", &[]) + count("store_tally_errors_total", &[]), 0.0);
    assert_eq!(count("build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
    for fact in ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds"] {
        assert!(numbers.sum(&format!("process_{fact}"), &[]) > 0.0, "{fact}");
    }
    metered.wait_for_poll(&old).await;
}

/// Failing engine calls are counted too. The gauges are zero again after the tasks have ended.
#[tokio::test]
async fn gauges_show_running_and_queued_tasks() {
    let metered = MeteredApp::start(CONFIG);
    let client = metered.app.client().await;
    let running_task = client.start("long", json!({})).await.unwrap();
    let queued_task = client.start("long", json!({})).await.unwrap();
    let far = client.start("far", json!({})).await.unwrap();
    let refused = [("backend", "away"), ("operation", "start"), ("outcome", "unavailable")];
    let numbers = metered
        .wait_for("one runs, one waits for it, and one could not start", |numbers| {
            let has_task =
                |state| numbers.sum("taskbridge_tasks", &[("tool", "long"), ("state", state)]) == 1.0;
            has_task("running")
                && has_task("queued")
                && numbers.sum("taskbridge_queue_oldest_seconds", &[]) > 0.0
                && numbers.sum("taskbridge_engine_calls_total", &refused) > 0.0
        })
        .await;
    assert_eq!(numbers.sum("taskbridge_tasks", &[("tool", "far")]), 1.0);
    for task in [&running_task, &queued_task, &far] {
        client.cancel(task).await.unwrap();
    }
    let numbers = metered
        .wait_for("all are cancelled", |numbers| {
            numbers.sum("taskbridge_tasks_ended_total", &[("outcome", "cancelled")]) == 3.0
                && numbers.sum("taskbridge_tasks", &[]) == 0.0
        })
        .await;
    assert_eq!(numbers.sum("taskbridge_queue_oldest_seconds", &[]), 0.0);
    assert_eq!(numbers.sum("taskbridge_task_state_duration_seconds_count", &[("state", "queued")]), 1.0);
    assert!(
        numbers.sum("taskbridge_engine_calls_total", &[("operation", "cancel"), ("outcome", "ok")]) >= 1.0
    );
}

#[tokio::test]
async fn gauges_show_open_streams_and_sessions() {
    let metered = MeteredApp::start(CONFIG);
    let client = metered.app.client().await;
    let task =
        ModernClient::with_tasks(metered.app.server.url()).call("long", &json!({}), json!({})).await.unwrap();
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let listening = client.listen().await.unwrap();
    let subscription = ModernClient::with_tasks(metered.app.server.url())
        .subscribe_to_tasks(std::slice::from_ref(&id))
        .await
        .unwrap();
    let open = |numbers: &MetricsScrape| {
        let streams = numbers.sum("taskbridge_streams_open", &[("kind", "listening")]);
        (streams, numbers.sum("taskbridge_sessions_open", &[]))
    };
    metered.wait_for("two are open", |numbers| open(numbers) == (2.0, 1.0)).await;
    drop((listening, subscription));
    let numbers = metered.wait_for("none is open", |numbers| open(numbers) == (0.0, 0.0)).await;
    let given_up = [("method", "subscriptions/listen"), ("outcome", "given_up")];
    assert_eq!(numbers.sum("taskbridge_requests_total", &given_up), 1.0);
    let modern = ModernClient::with_tasks(metered.app.server.url());
    modern.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    metered.wait_for("it is over", |numbers| numbers.sum("taskbridge_tasks", &[]) == 0.0).await;
}

/// A caller cannot add series by calling tools and methods that do not exist.
#[tokio::test]
async fn unknown_names_become_no_labels() {
    let metered = MeteredApp::start(CONFIG);
    let (client, modern) = (metered.app.client().await, ModernClient::with_tasks(metered.app.server.url()));
    for n in 0..40 {
        fault(client.call(&format!("made-up-{n}"), json!({})).await);
        fault(client.request(&format!("made-up/{n}"), json!({})).await);
        fault(modern.call(&format!("made-up-{n}"), &json!({}), json!({})).await);
        fault(modern.request(&format!("made-up/{n}"), json!({})).await);
    }
    let numbers = MetricsScrape::read(&metered.metrics_url).await;
    let errors =
        |method| numbers.sum("taskbridge_requests_total", &[("method", method), ("outcome", "error")]);
    assert_eq!((errors("tools/call"), errors("other")), (80.0, 80.0));
    let made_up = |(_, labels, _): &&(String, _, f64)| {
        let labels: &std::collections::BTreeMap<String, String> = labels;
        labels.values().any(|value| value.contains("made-up"))
    };
    assert_eq!(numbers.samples.iter().find(made_up), None);
    assert!(numbers.values("tool").is_subset(&BTreeSet::from(["hello", "fails", "long", "far"])));
    assert!(numbers.samples.len() < 2_000, "{} series", numbers.samples.len());
}

/// The main endpoint serves no metrics.
#[tokio::test]
async fn metrics_refuse_browsers_and_foreign_hosts() {
    let metered = MeteredApp::start(CONFIG);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let get_with_header = async |name: &'static str, value: &str| {
        let response = client.get(&metered.metrics_url).header(name, value).send().await.unwrap();
        let origin = response.headers().get("access-control-allow-origin").cloned();
        assert_eq!(origin, None);
        (response.status(), response.text().await.unwrap())
    };
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:9464"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let (status, body) = get_with_header(name, value).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{name}: {value}");
        assert!(!body.contains("taskbridge_"), "{body}");
    }
    assert_eq!(get_with_header("user-agent", "Prometheus/3.0").await.0, StatusCode::OK);
    // The main endpoint, which callers know, does not serve metrics.
    let main = metered.app.server.url().replace("/mcp", "/metrics");
    assert_eq!(client.get(main).send().await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn configured_metrics_token_is_required() {
    let token = "a-token-of-the-numbers-0123456789abcdef";
    let metered = MeteredApp::start(&CONFIG.replace("[metrics]", &format!("[metrics]\ntoken = \"{token}\"")));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for wrong in [None, Some("Bearer "), Some("Bearer another"), Some(token)] {
        let request = client.get(&metered.metrics_url);
        let request = match wrong {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{wrong:?}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert!(!response.text().await.unwrap().contains("taskbridge_"));
    }
    let authorized = client.get(&metered.metrics_url).bearer_auth(token).send().await.unwrap();
    assert_eq!(authorized.status(), StatusCode::OK);
}

/// Without a token, the config has to set `anybody_may_read`.
#[tokio::test]
async fn public_metrics_address_needs_token() {
    let check = async |metrics: &str| {
        let dir = TestDir::new(&format!("{BASICS}\n[metrics]\n{metrics}\n"));
        let ended = dir.run(dir.command("check")).await;
        (ended.code == Some(0), ended.stderr)
    };
    let token = "token = \"0123456789abcdef0123456789abcdef\"";
    for valid in [
        "",
        "listen = \"[::1]:9464\"",
        "listen = \"0.0.0.0:9464\"\nanybody_may_read = true",
        &format!("listen = \"0.0.0.0:9464\"\n{token}"),
    ] {
        let (accepted, stderr) = check(valid).await;
        assert!(accepted, "{valid}: {stderr}");
    }
    for (invalid, expected) in [
        ("listen = \"0.0.0.0:9464\"", "metrics.listen: other machines can reach 0.0.0.0:9464"),
        ("listen = \"9464\"", "is not an address and port"),
        (token, "metrics.listen: missing"),
        ("listen = \"127.0.0.1:1\"\ntoken = \"hunter2\"", "metrics.token: the token has 7 characters"),
        (
            &format!("listen = \"127.0.0.1:1\"\nanybody_may_read = true\n{token}"),
            "has no effect with `token`",
        ),
    ] {
        let (accepted, stderr) = check(invalid).await;
        assert!(!accepted && stderr.contains(expected), "{invalid}: {stderr}");
        assert!(!stderr.contains("hunter2") && !stderr.contains("0123456789abcdef"), "{stderr}");
    }
}

/// A row of the table in the documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    name: String,
    kind: String,
    labels: String,
    meaning: String,
}

/// Parses the table in the documentation.
fn documented_metrics() -> Vec<Row> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let row = |row: &str| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.replace('`', "").trim().to_owned());
        let mut next = || cells.next().unwrap();
        Row { name: next(), kind: next(), labels: next(), meaning: next() }
    };
    rows.map(row).collect()
}

/// The table in `docs/metrics.md` has the type, the labels and the meaning of each metric.
#[tokio::test]
async fn documentation_describes_every_metric() {
    let metered = MeteredApp::start(CONFIG);
    let client = metered.app.client().await;
    client.call("hello", json!({})).await.unwrap();
    metered.wait_for_poll(&client).await;
    let far = client.start("far", json!({})).await.unwrap();
    client.cancel(&far).await.unwrap();
    let numbers =
        metered.wait_for("it counts", |numbers| numbers.sum("taskbridge_tasks_kept", &[]) >= 1.0).await;
    let documented = documented_metrics();
    // Only some adapters know the remaining call budget of their engine.
    let expected: BTreeSet<_> = documented
        .iter()
        .filter(|row| !row.name.contains("_budget_"))
        .map(|row| (row.name.as_str(), row.kind.as_str(), format!("{}.", row.meaning)))
        .collect();
    let kinds = numbers.families.iter();
    let actual: BTreeSet<_> =
        kinds.map(|(name, kind)| (name.as_str(), kind.as_str(), numbers.help[name].clone())).collect();
    assert_eq!(expected, actual);
    for (name, labels, _) in &numbers.samples {
        let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
        let is_its = |row: &&Row| endings.iter().any(|ending| *name == format!("{}{ending}", row.name));
        let row = documented.iter().find(is_its).unwrap();
        let allowed: BTreeSet<&str> = row.labels.split(", ").filter(|label| !label.is_empty()).collect();
        let used: BTreeSet<&str> = labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        assert_eq!(used, allowed, "{name}");
    }
}
