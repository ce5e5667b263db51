//! Slow on purpose, in each direction. The limits are short; what drips would never be done within them.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{interval, timeout};

use super::raw::{LIST, PATIENCE, Raw, post};
use crate::support::TestApp;

const CONFIG: &str = r#"
[limits]
head_within = "1s"
body_within = "1s"
stalled_for = "1s"
idle_for = "2s"
"#;

/// What the server says to one who drips, until it closes the connection.
async fn heard(mut raw: Raw, first: &str, bytes: &[u8]) -> String {
    raw.send(first).await;
    let (mut from, mut to) = raw.stream.into_split();
    let mut heard = Vec::new();
    let listening = async {
        // It may be reset by what was still on its way.
        let _ = from.read_to_end(&mut heard).await;
    };
    let dripping = async {
        let mut beat = interval(Duration::from_millis(100));
        for byte in bytes.iter().cycle() {
            beat.tick().await;
            if to.write_all(&[*byte]).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let both = async {
        tokio::select! {
            () = listening => {}
            () = dripping => {}
        }
    };
    timeout(PATIENCE, both).await.expect("the server has enough of it");
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off_however_steadily_it_comes() {
    let app = TestApp::start(CONFIG);
    let first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    assert_eq!(heard(Raw::open(app.server.url()).await, first, b"a").await, "");
    // The second request of a connection as well as the first.
    let mut kept = Raw::open(app.server.url()).await;
    assert_eq!(kept.get("/healthz").await.unwrap().status, 200);
    assert_eq!(heard(kept, first, b"a").await, "");
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_asked_is_closed() {
    let app = TestApp::start(CONFIG);
    let silent = Raw::open(app.server.url()).await;
    let mut kept = Raw::open(app.server.url()).await;
    assert_eq!(kept.get("/healthz").await.unwrap().status, 200);
    assert!(silent.closes_without_a_word().await);
    assert!(kept.closes_without_a_word().await);
}

#[tokio::test]
async fn a_body_that_drips_is_refused_and_cut_off() {
    let app = TestApp::start(CONFIG);
    for (path, kind) in [("/mcp", "application/json"), ("/hooks/none", "application/json")] {
        let first = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n"
        );
        let said = heard(Raw::open(app.server.url()).await, &first, b" ").await;
        assert!(path != "/mcp" || said.starts_with("HTTP/1.1 408 "), "{path}: {said}");
    }
    let chunks = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let said = heard(Raw::open(app.server.url()).await, chunks, b"1\r\n \r\n").await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let app = TestApp::start(&format!("{CONFIG}\n{}", many_tools()));
    let mut raw = Raw::open(app.server.url()).await;
    // Request upon request, and no answer is read: at some point neither side can write any more. Then the server closes,
    // which breaks what is being written here.
    let asking = async {
        let request = post(LIST);
        while raw.stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    timeout(PATIENCE, asking).await.expect("the server has enough of it");
    assert_eq!(Raw::open(app.server.url()).await.get("/healthz").await.unwrap().status, 200);
}

/// Tools whose list is long.
fn many_tools() -> String {
    let long = "x".repeat(2_000);
    let tool =
        |n: usize| format!("[tools.t{n}]\nbackend = \"sim\"\ndescription = \"{long}\"\ntarget = {{}}\n");
    format!("[backends.sim]\nkind = \"sim\"\n{}", (0..50).map(tool).collect::<String>())
}
