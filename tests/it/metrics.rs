//! Tests of `/metrics`: the metrics that Prometheus scrapes from a server under use.

mod board;

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{BASICS, Client, Fault, Modern, Numbers, Place, TestApp, text};

/// Timeout of any step here.
const PATIENCE: Duration = Duration::from_secs(30);

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
struct Counted {
    app: TestApp,
    page: String,
}

impl Counted {
    fn start(config: &str) -> Self {
        let mut app = TestApp::start(config);
        let page = app.server.metrics_url();
        Self { app, page }
    }

    /// Scrapes until the condition is true.
    async fn until(&self, what: &str, holds: impl Fn(&Numbers) -> bool) -> Numbers {
        let reading = async {
            loop {
                let numbers = Numbers::read(&self.page).await;
                if holds(&numbers) {
                    return numbers;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reading)
            .await
            .unwrap_or_else(|_| panic!("it never becomes so: {what}"))
    }

    /// Waits until a job was polled, then cancels it. It uses a long job, because the reply to the start of
    /// a short job may already contain the job's end.
    async fn looks(&self, client: &Client) -> Numbers {
        let job = client.start("long", json!({})).await.unwrap();
        let looked = |numbers: &Numbers| {
            let well = [("backend", "here"), ("outcome", "ok")];
            numbers.sum("taskbridge_engine_jobs_observed_total", &well) > 0.0
                && numbers.sum("taskbridge_reconcile_lag_seconds_count", &[("what", "look")]) > 0.0
        };
        self.until("a job is looked at", looked).await;
        client.cancel(&job).await.unwrap();
        let cancelled = [("backend", "here"), ("operation", "cancel"), ("outcome", "ok")];
        self.until("it is cancelled", |numbers| {
            numbers.sum("taskbridge_engine_calls_total", &cancelled) > 0.0
        })
        .await
    }
}

fn fault(answer: Result<Value, Fault>) -> Fault {
    answer.expect_err("it is refused")
}

/// A call is counted at the request, the task, the engine, the store and the audit log.
#[tokio::test]
async fn metrics_count_calls_of_both_generations() {
    let counted = Counted::start(CONFIG);
    let url = counted.app.server.url();
    let (old, new) = (counted.app.client().await, Modern::without_tasks(url));
    assert_eq!(text(&old.call("hello", json!({})).await.unwrap()), "hello\n");
    assert_eq!(text(&new.call("hello", &json!({}), json!({})).await.unwrap()), "hello\n");
    assert_eq!(old.call("fails", json!({})).await.unwrap()["isError"], true);
    let task = old.start("hello", json!({})).await.unwrap();
    old.result(&task).await.unwrap();
    old.get(&task).await.unwrap();
    // The store is queried again after some seconds.
    let numbers =
        counted.until("four are kept", |numbers| numbers.sum("taskbridge_tasks_kept", &[]) == 4.0).await;
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
    counted.looks(&old).await;
}

/// Failing engine calls are counted too. The gauges are zero again after the tasks have ended.
#[tokio::test]
async fn gauges_show_running_and_queued_tasks() {
    let counted = Counted::start(CONFIG);
    let client = counted.app.client().await;
    let runs = client.start("long", json!({})).await.unwrap();
    let waits = client.start("long", json!({})).await.unwrap();
    let far = client.start("far", json!({})).await.unwrap();
    let numbers = counted
        .until("one runs and one waits for it", |numbers| {
            let of = |state| numbers.sum("taskbridge_tasks", &[("tool", "long"), ("state", state)]) == 1.0;
            of("running") && of("queued") && numbers.sum("taskbridge_queue_oldest_seconds", &[]) > 0.0
        })
        .await;
    let refused = [("backend", "away"), ("operation", "start"), ("outcome", "unavailable")];
    assert!(numbers.sum("taskbridge_engine_calls_total", &refused) > 0.0);
    assert_eq!(numbers.sum("taskbridge_tasks", &[("tool", "far")]), 1.0);
    for task in [&runs, &waits, &far] {
        client.cancel(task).await.unwrap();
    }
    let numbers = counted
        .until("all are cancelled", |numbers| {
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
    let counted = Counted::start(CONFIG);
    let client = counted.app.client().await;
    let task =
        Modern::with_tasks(counted.app.server.url()).call("long", &json!({}), json!({})).await.unwrap();
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
    let listening = client.listen().await.unwrap();
    let subscription =
        Modern::with_tasks(counted.app.server.url()).follow(std::slice::from_ref(&id)).await.unwrap();
    let open = |numbers: &Numbers| {
        let streams = numbers.sum("taskbridge_streams_open", &[("kind", "listening")]);
        (streams, numbers.sum("taskbridge_sessions_open", &[]))
    };
    counted.until("two are open", |numbers| open(numbers) == (2.0, 1.0)).await;
    drop((listening, subscription));
    let numbers = counted.until("none is open", |numbers| open(numbers) == (0.0, 0.0)).await;
    let given_up = [("method", "subscriptions/listen"), ("outcome", "given_up")];
    assert_eq!(numbers.sum("taskbridge_requests_total", &given_up), 1.0);
    let modern = Modern::with_tasks(counted.app.server.url());
    modern.request("tasks/cancel", json!({"taskId": id})).await.unwrap();
    counted.until("it is over", |numbers| numbers.sum("taskbridge_tasks", &[]) == 0.0).await;
}

/// A caller cannot add series by calling tools and methods that do not exist.
#[tokio::test]
async fn unknown_names_become_no_labels() {
    let counted = Counted::start(CONFIG);
    let (client, modern) = (counted.app.client().await, Modern::with_tasks(counted.app.server.url()));
    for n in 0..40 {
        fault(client.call(&format!("made-up-{n}"), json!({})).await);
        fault(client.request(&format!("made-up/{n}"), json!({})).await);
        fault(modern.call(&format!("made-up-{n}"), &json!({}), json!({})).await);
        fault(modern.request(&format!("made-up/{n}"), json!({})).await);
    }
    let numbers = Numbers::read(&counted.page).await;
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
    let counted = Counted::start(CONFIG);
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let ask = async |name: &'static str, value: &str| {
        let answer = client.get(&counted.page).header(name, value).send().await.unwrap();
        let origin = answer.headers().get("access-control-allow-origin").cloned();
        assert_eq!(origin, None);
        (answer.status(), answer.text().await.unwrap())
    };
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:9464"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let (status, said) = ask(name, value).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{name}: {value}");
        assert!(!said.contains("taskbridge_"), "{said}");
    }
    assert_eq!(ask("user-agent", "Prometheus/3.0").await.0, StatusCode::OK);
    // The main endpoint, which callers know, does not serve metrics.
    let main = counted.app.server.url().replace("/mcp", "/metrics");
    assert_eq!(client.get(main).send().await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn configured_metrics_token_is_required() {
    let token = "a-token-of-the-numbers-0123456789abcdef";
    let counted = Counted::start(&CONFIG.replace("[metrics]", &format!("[metrics]\ntoken = \"{token}\"")));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    for wrong in [None, Some("Bearer "), Some("Bearer another"), Some(token)] {
        let request = client.get(&counted.page);
        let request = match wrong {
            Some(shown) => request.header("authorization", shown),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{wrong:?}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        assert!(!answer.text().await.unwrap().contains("taskbridge_"));
    }
    let shown = client.get(&counted.page).bearer_auth(token).send().await.unwrap();
    assert_eq!(shown.status(), StatusCode::OK);
}

/// Without a token, the config has to set `anybody_may_read`.
#[tokio::test]
async fn public_metrics_address_needs_token() {
    let check = async |metrics: &str| {
        let place = Place::new(&format!("{BASICS}\n[metrics]\n{metrics}\n"));
        let ended = place.run(place.command("check")).await;
        (ended.code == Some(0), ended.stderr)
    };
    let token = "token = \"0123456789abcdef0123456789abcdef\"";
    for right in [
        "",
        "listen = \"[::1]:9464\"",
        "listen = \"0.0.0.0:9464\"\nanybody_may_read = true",
        &format!("listen = \"0.0.0.0:9464\"\n{token}"),
    ] {
        let (is_right, said) = check(right).await;
        assert!(is_right, "{right}: {said}");
    }
    for (wrong, what) in [
        ("listen = \"0.0.0.0:9464\"", "metrics.listen: other machines can reach 0.0.0.0:9464"),
        ("listen = \"9464\"", "is not an address and port"),
        (token, "metrics.listen: it is missing"),
        ("listen = \"127.0.0.1:1\"\ntoken = \"hunter2\"", "metrics.token: it has 7 characters"),
        (&format!("listen = \"127.0.0.1:1\"\nanybody_may_read = true\n{token}"), "it goes without `token`"),
    ] {
        let (is_right, said) = check(wrong).await;
        assert!(!is_right && said.contains(what), "{wrong}: {said}");
        assert!(!said.contains("hunter2") && !said.contains("0123456789abcdef"), "{said}");
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
fn documented() -> Vec<Row> {
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
    let counted = Counted::start(CONFIG);
    let client = counted.app.client().await;
    client.call("hello", json!({})).await.unwrap();
    counted.looks(&client).await;
    let far = client.start("far", json!({})).await.unwrap();
    client.cancel(&far).await.unwrap();
    let numbers =
        counted.until("it counts", |numbers| numbers.sum("taskbridge_tasks_kept", &[]) >= 1.0).await;
    let documented = documented();
    // Only some adapters know the remaining call budget of their engine.
    let told: BTreeSet<_> = documented
        .iter()
        .filter(|row| !row.name.contains("_budget_"))
        .map(|row| (row.name.as_str(), row.kind.as_str(), format!("{}.", row.meaning)))
        .collect();
    let kinds = numbers.families.iter();
    let there: BTreeSet<_> =
        kinds.map(|(name, kind)| (name.as_str(), kind.as_str(), numbers.help[name].clone())).collect();
    assert_eq!(told, there);
    for (name, labels, _) in &numbers.samples {
        let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
        let is_its = |row: &&Row| endings.iter().any(|ending| *name == format!("{}{ending}", row.name));
        let row = documented.iter().find(is_its).unwrap();
        let allowed: BTreeSet<&str> = row.labels.split(", ").filter(|label| !label.is_empty()).collect();
        let has: BTreeSet<&str> = labels.keys().map(String::as_str).filter(|label| *label != "le").collect();
        assert_eq!(has, allowed, "{name}");
    }
}
