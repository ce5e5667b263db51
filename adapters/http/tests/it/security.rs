//! What callers and engines cannot do, one test for each sentence of the README's section on security.

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, JobState};

use crate::nasty::{Answer, Nasty};
use crate::world::{COMMON, KEYED, UNKEYED, backend, connect, fields, handle, kind};

/// A start whose path, query and header contain arguments.
const EXPOSED: &str = r#"
    [start]
    method = "POST"
    path = "/run/{{ name }}/now"
    query = { q = "{{ name }}" }
    headers = { X-Name = "{{ name }}" }
    json = { key = "{{ taskbridge.key }}", name = "{{ name }}" }
    once = "key"
    handle = { id = "body.id" }
"#;

/// Every value in a path is one piece of it: it is percent-encoded, and a piece that leads elsewhere is
/// refused before anything is sent.
#[tokio::test]
async fn path_values_are_encoded() {
    let nasty = Nasty::start().await;
    nasty.script("POST /api/run/", Answer::json(201, &json!({"id": "j"})));
    let backend = backend(&nasty, &[COMMON, EXPOSED]).await;
    let start = async |name: &str| backend.start(&job(json!({"kind": "long"}), json!({"name": name}))).await;
    start("../x?a=b#c%2e/ü").await.unwrap();
    let seen = nasty.seen("POST /api/run/");
    assert_eq!(seen[0].request.path, "/api/run/..%2Fx%3Fa%3Db%23c%252e%2F%C3%BC/now");
    assert_eq!(seen[0].request.query["q"], "../x?a=b#c%2e/ü");
    for name in ["..", ".", ""] {
        let error = start(name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{name:?}: {error}");
    }
    assert_eq!(nasty.seen("POST").len(), 1);
}

/// A request with a `base` of its own goes there, with the credentials and below that path. All others, and
/// addresses out of replies, stay below the backend's `base`.
#[tokio::test]
async fn request_base_is_for_that_request() {
    let (nasty, other) = (Nasty::start().await, Nasty::start().await);
    let kinds =
        json!({ "kinds": [{ "name": "a" }], "next": format!("{}/other/kinds?page=2", nasty.address) });
    other.script("GET /other/kinds", Answer::json(200, &kinds));
    nasty.script("GET /api/kinds/a", Answer::json(200, &json!({ "help": "Helps." })));
    let mut config = fields(&format!("{}/api", nasty.address), &[COMMON, KEYED]);
    config["discover"]["base"] = format!("{}/other", other.address).into();
    let discover = async |config: &serde_json::Value| {
        let backend = connect(config.clone()).await.unwrap();
        backend.abilities().discovery.unwrap().discover().await
    };
    assert_eq!(discover(&config).await.unwrap()[0].description.as_deref(), Some("Helps."));
    let [seen] = &other.seen("GET")[..] else { panic!("{:?}", other.seen("")) };
    assert_eq!(seen.request.headers["authorization"], "Bearer s3cret");
    assert_eq!((nasty.seen("GET /api/kinds/a").len(), nasty.seen("").len()), (1, 1));
    // The address of the next page leads to the other engine.
    config["discover"]["next"] = json!({ "url": "body.next", "pages": 3 });
    assert_eq!(kind(discover(&config).await), ErrorKind::Unavailable);
    assert_eq!(nasty.seen("").len(), 1);
}

/// A header never contains a line break.
#[tokio::test]
async fn header_values_have_no_line_breaks() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, EXPOSED]).await;
    for name in ["a\r\nX-Admin: 1", "a\nb", "a\rb", "a\0b"] {
        let error = backend.start(&job(json!({"kind": "long"}), json!({"name": name}))).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Rejected && error.to_string().contains("X-Name"), "{error}");
        assert!(!error.to_string().contains("Admin"), "{error}");
    }
    assert_eq!(nasty.seen("").len(), 0);
}

/// An address out of a reply is used only below `base`.
#[tokio::test]
async fn addresses_of_replies_stay_below_base() {
    let nasty = Nasty::start().await;
    let by_location =
        UNKEYED.replace("body.id", "headers.location | own_path").replace("status == 201", "status == 202");
    let polled = r#"
        [observe]
        path = "{{ handle.id | raw }}"
        state = "body.state"
        [find]
        path = "/jobs"
        items = "body.jobs"
        handle = { id = "'/jobs/' ~ item.id" }
    "#;
    let backend = backend(&nasty, &[COMMON, &by_location, polled]).await;
    let location = |to: &str| {
        nasty.script("POST /api/jobs", Answer::json(202, &json!({})).with_header("location", to));
    };
    for elsewhere in [
        "http://127.0.0.1:1/api/jobs/7",
        "https://evil.example/api/jobs/7",
        "/apix/jobs/7",
        "/other/7",
        "//evil.example/api/jobs/7",
        "../../7",
        "file:///etc/passwd",
        "http://user@127.0.0.1/api/jobs/7",
    ] {
        location(elsewhere);
        let result = backend.start(&job(json!({"kind": "long"}), json!({}))).await;
        assert_eq!(kind(result), ErrorKind::Uncertain, "{elsewhere}");
    }
    nasty.script("GET /api/monitor/7", Answer::json(200, &json!({"state": "running"})));
    for (own, path) in [
        (format!("{}/api/monitor/7?v=1", nasty.address), "/monitor/7?v=1"),
        ("/api/monitor/7".to_owned(), "/monitor/7"),
        ("monitor/7".to_owned(), "/monitor/7"),
    ] {
        location(&own);
        let started = backend.start(&job(json!({"kind": "long"}), json!({}))).await.unwrap();
        assert_eq!(started.handle, handle(path));
        assert_eq!(backend.observe(&started.handle).await.unwrap().state, JobState::Running);
    }
    assert_eq!(nasty.seen("GET /api/monitor/7")[0].request.query["v"], "1");
    for tampered in ["/../admin", "http://evil.example/x", "/a/%2e%2e/b", "\\x"] {
        assert!(backend.observe(&handle(tampered)).await.is_err(), "{tampered}");
    }
}

/// No redirect is followed but that of a GET.
#[tokio::test]
async fn only_reads_follow_redirects() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED]).await;
    let moved = || Answer::json(307, &json!({})).with_header("location", "/api/elsewhere");
    nasty.script("PUT /api/jobs", moved());
    assert_eq!(kind(backend.start(&job(json!({"kind": "long"}), json!({}))).await), ErrorKind::Uncertain);
    assert_eq!(nasty.seen("").len(), 1);
    nasty.script("GET /api/jobs/x", moved());
    nasty.script("GET /api/elsewhere", Answer::json(200, &json!({"state": "RUNNING", "questions": []})));
    assert_eq!(backend.observe(&handle("x")).await.unwrap().state, JobState::Running);
}

/// What an engine says is text: it is never a template, and a link is a link of the web only.
#[tokio::test]
async fn words_of_the_engine_are_text() {
    let nasty = Nasty::start().await;
    let evil = r"{{ arguments }}{{ 7*7 }} \ ' {% x %}";
    nasty.engine.lock().kinds.insert(evil.to_owned(), json!({"type": "object"}));
    let backend = backend(&nasty, &[COMMON, KEYED, "[log]\npath = \"/jobs/{{ handle.id }}/log\"\n"]).await;
    nasty.script("GET /api/kinds/%7B%7B", Answer::json(200, &json!({"schema": {"type": "object"}})));
    let tools = backend.abilities().discovery.unwrap().discover().await.unwrap();
    let tool = tools.into_iter().find(|tool| tool.name.contains("arguments")).unwrap();
    backend.start(&job(tool.target, json!({"secret": 1}))).await.unwrap();
    assert_eq!(nasty.seen("PUT /api/jobs")[0].request.json()["kind"], evil);
    let body = json!({"state": "ERROR", "error": evil, "page": "javascript:alert(1)", "questions": []});
    nasty.script("GET /api/jobs/x", Answer::json(200, &body));
    let seen = backend.observe(&handle("x")).await.unwrap();
    assert_eq!(seen.message.as_deref(), Some(evil));
    assert!(!format!("{seen:?}").contains("javascript"), "{seen:?}");
}

/// A reply that is too large, lies about its length, is nested deeply, or has too many values is an error of
/// this job.
#[tokio::test]
async fn monstrous_replies_are_errors() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED, "max_reply = 1048576"]).await;
    let json_text = |body: &str| Answer::text(200, "application/json", body);
    let mut huge = json_text("{}");
    huge.claimed_length = Some(4 << 30);
    let mut short = json_text(r#"{"state": "RUNNING", "questions": []}"#);
    short.claimed_length = Some(1000);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let many = format!("[{}0]", "0,".repeat(510_000));
    for (what, answer) in [
        ("4 GiB", huge),
        ("a length that is a lie", short),
        ("larger than the limit", json_text(&"x".repeat(2 << 20))),
        ("nested deeply", json_text(&deep)),
        ("too many values", json_text(&many)),
        ("no JSON", json_text("no JSON")),
    ] {
        nasty.script("GET /api/jobs/x", answer);
        let error = backend.observe(&handle("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
    }
}

/// A chain of pages without an end is cut, and a job that may be on a later page is not reported as absent.
#[tokio::test]
async fn endless_pages_are_bounded() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, UNKEYED]).await;
    let page = json!({"jobs": [{"id": 1, "tags": []}, {"id": 2, "tags": []}, {"id": 3, "tags": []}]});
    nasty.script("GET /api/jobs", Answer::json(200, &page));
    assert_eq!(kind(backend.find(&job(json!({"kind": "long"}), json!({}))).await), ErrorKind::Uncertain);
    assert_eq!(nasty.seen("GET /api/jobs").len(), 20);
    // A link to itself is no next page.
    let by_link =
        UNKEYED.replace("{ offset = \"offset\", size = 3, pages = 20 }", "{ link = true, pages = 20 }");
    let backend = connect(fields(&format!("{}/api", nasty.address), &[COMMON, &by_link])).await.unwrap();
    let next = format!("<{}/api/jobs?page=2>; rel=\"next\"", nasty.address);
    nasty.script("GET /api/jobs", Answer::json(200, &page).with_header("link", &next));
    assert_eq!(backend.find(&job(json!({"kind": "long"}), json!({}))).await.unwrap(), None);
    assert_eq!(nasty.seen("GET /api/jobs").len(), 22);
    // A link to another host is not followed.
    nasty.script(
        "GET /api/jobs",
        Answer::json(200, &page).with_header("link", "<http://127.0.0.1:1/x>; rel=next"),
    );
    assert!(backend.find(&job(json!({"kind": "long"}), json!({}))).await.is_err());
}

/// The credential goes along with each request, and no error shows it.
#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED]).await;
    nasty.script("GET /api/jobs/x", Answer::json(401, &json!({"detail": "no"})));
    let error = backend.observe(&handle("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    assert_eq!(nasty.seen("")[0].request.headers["authorization"], "Bearer s3cret");
}
