//! Tests for requests sent without pause: by which caller they are counted, and that every method counts, not
//! only calls.

use std::net::Ipv4Addr;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use super::raw::{LIST, RawConnection, TIMEOUT};
use crate::support::{TestApp, TestDir};

/// Starts a server that answers two polls per second for a caller, and queues eight more.
fn app(auth: &str, extra: &str) -> TestApp {
    let dir = TestDir::new(&format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nmax_polls_per_second = 2\n{auth}\n[store]\npath = \"state/t.db\"\n{extra}"
    ));
    TestApp { server: dir.serve(), dir }
}

/// A session, with its headers.
struct Session {
    http: Client,
    url: String,
    id: String,
}

impl Session {
    async fn open(app: &TestApp) -> Self {
        let http = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let url = app.server.url().to_owned();
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
        }});
        let post = http.post(&url).header("accept", "application/json, text/event-stream");
        let response = post.json(&initialize).send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        Self { http, url, id }
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        request.header("accept", "application/json, text/event-stream").header("mcp-session-id", &self.id)
    }

    fn send(&self, message: &Value) -> RequestBuilder {
        self.with_session(self.http.post(&self.url)).json(message)
    }

    fn end(&self) -> RequestBuilder {
        self.with_session(self.http.delete(&self.url))
    }
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

/// They are delayed, then refused. They are counted apart from requests.
#[tokio::test]
async fn notifications_and_responses_are_throttled() {
    let app = app("[auth]\nsingle_user = true", "");
    let session = Session::open(&app).await;
    let response_message = json!({"jsonrpc": "2.0", "id": "never", "result": {}});
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let requests =
        (0..40).map(|n| status(session.send(if n % 2 == 0 { &response_message } else { &cancelled })));
    let refused = join_all(requests).await.into_iter().filter(|status| *status == 429).count();
    assert!(refused >= 20, "two at once, eight held, the others refused: {refused}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(status(session.send(&ping)).await, 200, "requests are counted by themselves");
}

/// The end of a session is stored, so a caller can end only so many in a day.
#[tokio::test]
async fn session_ends_are_limited() {
    let app = app("[auth]\nsingle_user = true", "[limits]\nmax_ended_sessions_per_day = 2\n");
    let (one, two, three) = (Session::open(&app).await, Session::open(&app).await, Session::open(&app).await);
    assert_eq!([status(one.end()).await, status(two.end()).await], [204, 204]);
    let refused = three.end().send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 3_600);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!([status(one.send(&ping)).await, status(three.send(&ping)).await], [404, 200], "it goes on");
}

/// Sessions with stored settings are limited per day, and changes of the settings by rate.
#[tokio::test]
async fn stored_sessions_are_limited() {
    let app = app("[auth]\nsingle_user = true", "[limits]\nmax_kept_sessions_per_day = 2\n");
    let level = |level: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}});
    let (one, two, three) = (Session::open(&app).await, Session::open(&app).await, Session::open(&app).await);
    assert_eq!([status(one.send(&level("info"))).await, status(two.send(&level("info"))).await], [200, 200]);
    let refused = three.send(&level("info")).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 3_600);
    let text = refused.text().await.unwrap();
    assert!(text.contains("max_kept_sessions_per_day in [limits]"), "{text}");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(status(three.send(&ping)).await, 200, "it goes on");
    assert_eq!(status(one.send(&level("error"))).await, 200, "what is kept may be changed");

    let errors = level("error");
    let requests = (0..40).map(|_| status(one.send(&errors)));
    let refused = join_all(requests).await.into_iter().filter(|status| *status == 429).count();
    assert!(refused >= 20, "two at once, eight held, the others refused: {refused}");
}

#[tokio::test]
async fn anonymous_polls_count_by_address() {
    let app = app("", "");
    let url = app.server.url();
    let poll = |n: usize| {
        let mut poll: Value = serde_json::from_str(LIST).unwrap();
        poll["method"] = "tasks/get".into();
        poll["params"]["taskId"] = format!("made-up-{n}").into();
        poll["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        poll.to_string()
    };
    let requests = (0..40).map(|n| async move { RawConnection::open(url).await.post(&poll(n)).await.status });
    let refused = join_all(requests).await.into_iter().filter(|status| *status == 429).count();
    assert!(refused >= 20, "two at once, eight held, the others refused: {refused}");
    let mut other_address = RawConnection::open_from(url, Ipv4Addr::new(127, 0, 0, 2)).await;
    assert_ne!(other_address.post(&poll(0)).await.status, 429, "others are not slowed down");
}

/// Sends 40 requests at once, which exceeds the rate limit, and waits until five are refused with 429.
async fn assert_throttled(label: &str, build_request: impl Fn() -> RequestBuilder) {
    let mut requests: FuturesUnordered<_> = (0..40).map(|_| status(build_request())).collect();
    let refusals = async {
        let mut refused = 0;
        while refused < 5 {
            let code =
                requests.next().await.unwrap_or_else(|| panic!("{label}: {refused} of 40 are refused"));
            refused += usize::from(code == 429);
        }
    };
    tokio::time::timeout(TIMEOUT, refusals).await.unwrap_or_else(|_| panic!("{label} is not refused"));
}

/// Every method that reads or waits has the rate limit of polls. A ping does not count.
#[tokio::test]
async fn every_reading_method_is_throttled() {
    let id = "a".repeat(32);
    let tool = |name: &str, arguments: Value| ("tools/call", json!({"name": name, "arguments": arguments}));
    for (method, params) in [
        ("tasks/list", json!({})),
        ("tasks/cancel", json!({"taskId": id})),
        ("resources/read", json!({"uri": format!("taskbridge://tasks/{id}/log")})),
        ("resources/list", json!({})),
        ("resources/subscribe", json!({"uri": format!("taskbridge://tasks/{id}/log")})),
        ("logging/setLevel", json!({"level": "info"})),
        tool("task_list", json!({})),
        tool("task_cancel", json!({"task_id": id})),
        ("tasks/result", json!({"taskId": id})),
        tool("task_wait", json!({"task_id": id, "seconds": 0})),
    ] {
        let app = app("[auth]\nsingle_user = true", "");
        let session = Session::open(&app).await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_throttled(&message.to_string(), || session.send(&message)).await;
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(status(session.send(&ping)).await, 200, "{method}: what costs nothing goes on");
    }
    let app = app("[auth]\nsingle_user = true", "");
    let session = Session::open(&app).await;
    assert_throttled("GET", || session.with_session(session.http.get(&session.url))).await;
}

/// The rate limit delays the streams and refuses none of them.
#[tokio::test]
async fn all_streams_can_reopen_at_once() {
    let dir = TestDir::new(
        "[server]\nlisten = \"127.0.0.1:0\"\nmax_polls_per_second = 10\n[auth]\nsingle_user = true\n\
         [store]\npath = \"state/t.db\"\n[limits]\nmax_streams_per_owner = 50\n",
    );
    let app = TestApp { server: dir.serve(), dir };
    let sessions = join_all((0..50).map(|_| Session::open(&app))).await;
    let requests =
        sessions.iter().map(|session| status(session.with_session(session.http.get(&session.url))));
    assert_eq!(join_all(requests).await, [200; 50], "by turns, and nobody is refused");
}
