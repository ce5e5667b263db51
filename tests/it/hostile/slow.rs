//! Tests for clients that are slow on purpose, in each direction. The limits are short; at the tested rate no
//! transfer completes within them.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{interval, timeout};

use super::raw::{LIST, PATIENCE, Raw, post};
use crate::support::{Numbers, TestApp};

const CONFIG: &str = r#"
[limits]
head_within = "1s"
body_within = "1s"
stalled_for = "1s"
idle_for = "2s"
"#;

/// Returns what the server sends to a client that drips bytes, until it closes the connection.
async fn heard(mut raw: Raw, first: &str, bytes: &[u8]) -> String {
    raw.send(first).await;
    let (mut from, mut to) = raw.stream.into_split();
    let mut heard = Vec::new();
    let listening = async {
        // The data in transit may cause a reset.
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

/// Applies to every request of a connection, however steadily the bytes arrive.
#[tokio::test]
async fn slow_head_is_cut_off() {
    let app = TestApp::start(CONFIG);
    let first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    assert_eq!(heard(Raw::open(app.server.url()).await, first, b"a").await, "");
    // The limit applies to the second request of a connection as well.
    let mut kept = Raw::open(app.server.url()).await;
    assert_eq!(kept.get("/healthz").await.unwrap().status, 200);
    assert_eq!(heard(kept, first, b"a").await, "");
}

/// Applies to connections without any request, and to kept ones between requests.
#[tokio::test]
async fn silent_connection_is_closed() {
    let app = TestApp::start(CONFIG);
    let silent = Raw::open(app.server.url()).await;
    let mut kept = Raw::open(app.server.url()).await;
    assert_eq!(kept.get("/healthz").await.unwrap().status, 200);
    assert!(silent.closes_without_a_word().await);
    assert!(kept.closes_without_a_word().await);
}

#[tokio::test]
async fn slow_body_is_refused() {
    let hook =
        "[backends.forge]\nkind = \"sim\"\naddress = \"127.0.0.1:9\"\nhook_secret = \"known to it alone\"\n";
    let app = TestApp::start(&format!("{CONFIG}{hook}"));
    for (path, status) in [("/mcp", 408), ("/hooks/forge", 408), ("/hooks/none", 404)] {
        let first = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
        );
        let said = heard(Raw::open(app.server.url()).await, &first, b" ").await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {said}");
    }
    let chunks = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let said = heard(Raw::open(app.server.url()).await, chunks, b"1\r\n \r\n").await;
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
}

#[tokio::test]
async fn stalled_reader_is_cut_off() {
    let app = TestApp::start(&format!("{CONFIG}\n{}", many_tools()));
    let mut raw = Raw::open(app.server.url()).await;
    // The client sends requests and reads no response, until neither side can write any more. Then the server
    // closes the connection, and the write fails.
    let asking = async {
        let request = post(LIST);
        while raw.stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    timeout(PATIENCE, asking).await.expect("the server has enough of it");
    assert_eq!(Raw::open(app.server.url()).await.get("/healthz").await.unwrap().status, 200);
}

/// The list has more than 100 kB, and the socket buffers are limited: they take a few lists at most.
#[tokio::test]
async fn unread_answers_stop_further_requests() {
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let mut app = TestApp::start(&format!("{metrics}{CONFIG}\n{}", many_tools()));
    let mut raw = Raw::narrow(app.server.url()).await;
    let asking = async {
        let request = post(LIST);
        while raw.stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    timeout(PATIENCE, asking).await.expect("the server closes the connection");
    let numbers = Numbers::read(&app.server.metrics_url()).await;
    let served = numbers.sum("taskbridge_requests_total", &[("method", "tools/list")]);
    assert!((1.0..5.0).contains(&served), "{served} lists for a client that reads none");
}

/// Length of the text of [`something_large`]: far more than the socket buffers take.
const LARGE: usize = 24 * 1024 * 1024;

fn something_large() -> String {
    format!("[resources.large]\nuri = \"note:large\"\ntext = \"{}\"\n", "x".repeat(LARGE))
}

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:large","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A client below the minimum rate is disconnected, although it reads all the time.
#[tokio::test]
async fn slow_reader_is_cut_off() {
    let limits = "[limits]\nstalled_for = \"1s\"\nmin_answer_bytes_per_second = 1000000000\n";
    let app = TestApp::start(&format!("{limits}{}", something_large()));
    let mut raw = Raw::narrow(app.server.url()).await;
    raw.send(post(READ)).await;
    let (mut part, mut taken) = (vec![0; 64 * 1024], raw.stream.read(&mut [0; 1]).await.unwrap());
    assert_eq!(taken, 1, "it is answered");
    // The client reads in every second, and for two seconds far less than the minimum rate.
    let mut beat = interval(Duration::from_millis(10));
    for _ in 0..200 {
        beat.tick().await;
        taken += raw.stream.read(&mut part).await.unwrap_or(0);
    }
    taken += raw.closed().await.len();
    assert!(taken < LARGE, "all of it was sent: {taken} bytes");
}

/// A large response over the budget gets 503. Small ones are sent, and the memory is free again afterwards.
#[tokio::test]
async fn bytes_in_flight_are_limited() {
    let app = TestApp::start(&format!("[limits]\nmax_bytes_in_hand = 67108864\n{}", something_large()));
    let mut first = Raw::narrow(app.server.url()).await;
    first.send(post(READ)).await;
    assert_eq!(first.stream.read(&mut [0; 1]).await.unwrap(), 1, "it is on its way");
    let mut second = Raw::narrow(app.server.url()).await;
    second.send(post(READ)).await;
    let (code, words) = second.answer().await.unwrap().error();
    assert!(code == 503 && words.contains("on its way"), "{code} {words}");
    assert_eq!(second.post(LIST).await.status, 200, "what is small is answered");
    // After the response has been read, its memory is free again.
    assert!(first.answer().await.unwrap().body.len() > LARGE);
    assert_eq!(first.post(LIST).await.status, 200, "what was before is over");
    second.send(post(READ)).await;
    assert!(second.answer().await.unwrap().body.len() > LARGE);
}

/// Returns a message with this announced length and a body of only `sent` bytes.
fn begun(announced: usize, sent: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{}",
        " ".repeat(sent)
    )
}

/// Requests with incomplete bodies count as streams, and their bytes against the budget.
#[tokio::test]
async fn incomplete_messages_count_against_limits() {
    let answers = async |limit, announced, sent| {
        let app = TestApp::start(&format!("[limits]\nbody_within = \"3s\"\n{limit}\n"));
        let mut raws = Vec::new();
        for _ in 0..3 {
            let mut raw = Raw::open(app.server.url()).await;
            raw.send(begun(announced, sent)).await;
            raws.push(raw);
        }
        assert_eq!(
            Raw::open(app.server.url()).await.post(LIST).await.status,
            200,
            "what comes whole is answered"
        );
        let mut found = Vec::new();
        for mut raw in raws {
            found.push(raw.answer().await.unwrap().status);
        }
        found.sort_unstable();
        found
    };
    assert_eq!(answers("max_streams_per_owner = 2", 1_000, 1).await, [408, 408, 429], "two at once");
    // One owner's share of the budget is 256 KiB.
    let part = answers("max_bytes_in_hand = 1048576", 200 * 1024, 65 * 1024).await;
    assert_eq!(part, [408, 503, 503], "so many bytes at once");
}

/// Returns tools whose list is long.
fn many_tools() -> String {
    let long = "x".repeat(2_000);
    let tool =
        |n: usize| format!("[tools.t{n}]\nbackend = \"sim\"\ndescription = \"{long}\"\ntarget = {{}}\n");
    format!("[backends.sim]\nkind = \"sim\"\n{}", (0..50).map(tool).collect::<String>())
}
