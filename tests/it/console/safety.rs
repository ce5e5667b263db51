//! What a page of another site, an engine and another caller cannot do.

use std::fs;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Browser, Got, dir_with_keys, start, with_form};
use crate::support::{Client, TestDir};

/// Every response has the strict policy, is not kept, and cannot be framed.
#[tokio::test]
async fn responses_have_security_headers() {
    let mut app = start();
    let mut browser = Browser::of_single_user(&mut app).await;
    let task = browser.start("job", &[]).await;
    let json = format!("{task}/json");
    let pages = ["/console", "/console/login", "/console/none", "/console/tools/job"];
    for path in pages.into_iter().chain([task.as_str(), json.as_str()]) {
        let got = browser.get(path).await;
        let policy = got.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{path}");
        assert_eq!(got.header("cache-control"), "no-store", "{path}");
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(got.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(got.header("access-control-allow-origin"), "", "{path}");
        for forbidden in ["<script>", " style=", " onclick=", "javascript:", "hx-on"] {
            assert!(!got.text.contains(forbidden), "{path}: {forbidden}");
        }
    }
    let page = browser.get("/console").await.text;
    let css = page.split('"').find(|part| part.ends_with(".console.css")).unwrap();
    let got = browser.get(css).await;
    assert_eq!((got.status, got.header("content-type")), (StatusCode::OK, "text/css; charset=utf-8"));
    assert!(got.header("cache-control").contains("immutable"));
}

/// A form needs the same origin and the token of its session, and a GET changes nothing.
#[tokio::test]
async fn forged_forms_change_nothing() {
    let dir = dir_with_keys("");
    let server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let mut bob = Browser::with_key(&server, "bob").await;
    let task = ann.start("long", &[]).await;
    let cancel = format!("{task}/cancel");
    let token = ann.get(&task).await.field("form_token").to_owned();
    let bobs = bob.get("/console/tools").await.field("form_token").to_owned();
    let origin = ann.origin.clone();
    for headers in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site"), ("origin", origin.as_str())],
        vec![("sec-fetch-site", "none")],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![],
    ] {
        let mut request = with_form(ann.request(Method::POST, &cancel), &[("form_token", token.as_str())]);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        assert_eq!(ann.send(request).await.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let wrong: [&[(&str, &str)]; 4] =
        [&[], &[("form_token", "")], &[("form_token", bobs.as_str())], &[("x", token.as_str())]];
    for fields in wrong {
        assert_eq!(ann.post(&cancel, fields).await.status, StatusCode::FORBIDDEN, "{fields:?}");
    }
    let json = ann.request(Method::POST, &cancel).header("sec-fetch-site", "same-origin");
    let json = json.json(&json!({"form_token": token}));
    assert_eq!(ann.send(json).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(ann.get(&cancel).await.status, StatusCode::NOT_FOUND, "a GET is no form");
    let put = ann.request(Method::PUT, &cancel);
    assert_eq!(ann.send(put).await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(ann.get(&task).await.text.contains("Cancel the task"), "nothing was cancelled");
    // By the right form it is, in two phases.
    assert_eq!(ann.post(&cancel, &[("form_token", token.as_str())]).await.status, StatusCode::SEE_OTHER);
    ann.follow(&format!("{task}?live=1"), |text| text.contains("ended: cancelled")).await;
}

/// The MCP endpoint takes no cookie, and the console answers only to its own host names.
#[tokio::test]
async fn cookie_is_nothing_to_mcp() {
    let dir = dir_with_keys("");
    let server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let request = ann.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    let request = request.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(ann.send(request).await.status, StatusCode::UNAUTHORIZED);
    let rebound = ann.request(Method::GET, "/console").header("host", "evil.example");
    assert_eq!(ann.send(rebound).await.status, StatusCode::FORBIDDEN);
}

/// What an engine printed, asked and left is text and a file to save.
#[tokio::test]
async fn engine_text_stays_text() {
    let mut app = start();
    let mut browser = Browser::of_single_user(&mut app).await;
    let task = browser.start("job", &[("field.word", "<img src=x onerror=alert(1)>")]).await;
    browser.follow(&format!("{task}?live=1"), |text| text.contains("ended: succeeded")).await;
    let page = browser.get(&format!("{task}?log=1")).await.text;
    assert!(page.contains("printed &lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    let artifact = browser.get(&format!("{task}/artifacts/a.html")).await;
    assert_eq!(artifact.header("content-disposition"), "attachment; filename=\"a.html\"");
    assert_eq!(artifact.header("content-type"), "application/octet-stream");
    assert_eq!(artifact.header("content-security-policy"), "sandbox; default-src 'none'");
    let asks = browser.start("asks", &[]).await;
    let page = browser.follow(&format!("{asks}?live=1"), |text| text.contains("Which")).await;
    assert!(page.contains("Which &lt;i&gt;colour&lt;/i&gt;?"), "{page}");
    browser.act(&format!("{asks}/cancel"), &[]).await;
    browser.follow(&format!("{asks}?live=1"), |text| text.contains("ended: cancelled")).await;
}

/// Tasks and tools of others are not found, by pages, forms, files and streams.
#[tokio::test]
async fn others_tasks_are_not_found() {
    let dir = dir_with_keys("");
    let server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let mut bob = Browser::with_key(&server, "bob").await;
    let task = ann.start("anns", &[]).await;
    ann.follow(&format!("{task}?live=1"), |text| text.contains("ended: succeeded")).await;
    for path in [
        task.clone(),
        format!("{task}/json"),
        format!("{task}/artifacts/a"),
        "/console/tools/anns".to_owned(),
    ] {
        assert_eq!(bob.get(&path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in [format!("{task}/cancel"), format!("{task}/answer"), "/console/tools/anns/start".to_owned()] {
        assert_eq!(bob.act(&path, &[]).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let stream = bob.follow(&format!("{task}?live=1"), |text| text.contains("<h1>")).await;
    assert!(stream.contains("<h1>Not found</h1>") && !stream.contains("anns"), "{stream}");
    for path in ["/console", "/console/tasks", "/console/tools"] {
        assert!(!bob.get(path).await.text.contains("anns"), "{path}");
    }
    // The protocol shows ann what the console started.
    let client = Client::open_with_key(server.url(), "key-of-ann-0123456789").await.unwrap();
    let id = task.rsplit_once('/').unwrap().1;
    assert_eq!(client.get(id).await.unwrap()["status"], "completed");
}

/// Open pages count as streams of their owner.
#[tokio::test]
async fn streams_count_as_owners() {
    let dir = dir_with_keys("[limits]\nmax_streams_per_owner = 2\n");
    let server = dir.serve();
    let (mut ann, mut bob) =
        (Browser::with_key(&server, "ann").await, Browser::with_key(&server, "bob").await);
    let open = |browser: &Browser| browser.request(Method::GET, "/console?live=1").send();
    let (one, two) = (open(&ann).await.unwrap(), open(&ann).await.unwrap());
    assert_eq!((one.status(), two.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(ann.get("/console?live=1").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(open(&bob).await.unwrap().status(), StatusCode::OK);
    assert_eq!(bob.get("/console").await.status, StatusCode::OK);
}

const AUDIT: &str = "[audit]\nto = [\"file\"]\npath = \"audit.jsonl\"\non_failure = \"refuse\"\n";

/// Returns the number of events of this kind in the audit log.
fn audit_events(dir: &TestDir, kind: &str) -> usize {
    let log = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == kind).count()
}

/// Returns the address of the stream of a page.
fn stream_of(page: &Got) -> String {
    let (_, rest) = page.text.split_once("hx-sse:connect=\"").unwrap();
    rest.split('"').next().unwrap().replace("&amp;", "&")
}

/// Each result and log that a page shows has a line in the audit log, also if the page never was opened and
/// only its stream was, and if the result comes while the page is open.
#[tokio::test]
async fn streams_record_what_they_show() {
    let dir = dir_with_keys(AUDIT);
    let mut server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let events = |kind: &str| audit_events(&dir, kind);

    // The result comes while the page is open.
    let asks = ann.start("asks", &[]).await;
    let stream = stream_of(&ann.get(&asks).await);
    ann.follow(&stream, |text| text.contains("field.colour")).await;
    let question = ann.get("/console").await.field("question").to_owned();
    let fields = [("question", question.as_str()), ("action", "accept"), ("field.colour", "red")];
    assert_eq!(ann.act(&format!("{asks}/answer"), &fields).await.status, StatusCode::SEE_OTHER);
    ann.follow(&stream, |text| text.contains(">Result<")).await;
    assert_eq!(events("result.read"), 1);
    // The page is opened, which is recorded, and its stream shows the same.
    let stream = stream_of(&ann.get(&format!("{asks}?log=1")).await);
    ann.follow(&stream, |text| text.contains(">Result<")).await;
    assert_eq!((events("result.read"), events("log.read")), (2, 1));
    // Only the stream is opened: with no proof of a visit, or with that of another page.
    ann.follow(&format!("{asks}?log=1&live=1"), |text| text.contains(">Result<")).await;
    let other = stream_of(&ann.get(&asks).await).rsplit_once("live=").unwrap().1.to_owned();
    ann.follow(&format!("{asks}?live={other}&log=1"), |text| text.contains(">Result<")).await;
    assert_eq!((events("result.read"), events("log.read")), (5, 3));
    // What a proof says of reads is part of it.
    let (read, digest) = other.split_once('.').unwrap();
    assert_eq!(read, "100");
    ann.follow(&format!("{asks}?live=111.{digest}"), |text| text.contains(">Result<")).await;
    assert_eq!(events("result.read"), 6);
    assert_eq!(server.stop(), Some(0));
}

/// A result has a line although the page was opened after its job ended, before the store had it.
#[tokio::test]
async fn result_that_is_stored_late_is_recorded() {
    let dir = dir_with_keys(AUDIT);
    let mut server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        tasks.push(ann.start("slow", &[]).await);
    }
    // The server polls most of them now. It cannot store what it sees, and waits up to 5 s until it can.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let lock = rusqlite::Connection::open(dir.path("state/taskbridge.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut streams = Vec::new();
    for task in &tasks {
        streams.push(stream_of(&ann.get(task).await));
    }
    drop(lock);
    for stream in &streams {
        ann.follow(stream, |text| text.contains(">Result<")).await;
    }
    assert_eq!(audit_events(&dir, "result.read"), tasks.len());
    assert_eq!(server.stop(), Some(0));
}

/// A list of another owner's tasks has a line although it was empty when the page was opened.
#[tokio::test]
async fn list_that_fills_is_recorded() {
    let dir = dir_with_keys(&format!("[access]\noperate = {{ principals = [\"bob\"] }}\n{AUDIT}"));
    let mut server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let mut bob = Browser::with_key(&server, "bob").await;
    let page = bob.get("/console/tasks?owner=ann").await;
    assert_eq!(audit_events(&dir, "task.read"), 0, "it shows no task");
    let task = ann.start("long", &[]).await;
    bob.follow(&stream_of(&page), |text| text.contains(&task)).await;
    assert_eq!(audit_events(&dir, "task.read"), 1);
    ann.act(&format!("{task}/cancel"), &[]).await;
    ann.follow(&format!("{task}?live=1"), |text| text.contains("ended: cancelled")).await;
    assert_eq!(server.stop(), Some(0));
}
