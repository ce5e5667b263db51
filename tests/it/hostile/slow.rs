//! Tests for clients that are slow on purpose, in each direction. The limits are short; at the tested rate no
//! transfer completes within them.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{interval, timeout};

use super::raw::{LIST, RawConnection, TIMEOUT, post};
use crate::support::{MetricsScrape, TestApp};

const CONFIG: &str = r#"
[limits]
head_within = "1s"
body_within = "1s"
stalled_for = "1s"
idle_for = "2s"
"#;

/// Returns what the server sends to a client that drips bytes, until it closes the connection.
async fn drip(mut raw: RawConnection, first: &str, bytes: &[u8]) -> String {
    raw.send(first).await;
    let (mut reader, mut writer) = raw.stream.into_split();
    let mut received = Vec::new();
    let reading = async {
        // The data in transit may cause a reset.
        let _ = reader.read_to_end(&mut received).await;
    };
    let dripping = async {
        let mut ticks = interval(Duration::from_millis(100));
        for byte in bytes.iter().cycle() {
            ticks.tick().await;
            if writer.write_all(&[*byte]).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let both = async {
        tokio::select! {
            () = reading => {}
            () = dripping => {}
        }
    };
    timeout(TIMEOUT, both).await.expect("the server has enough of it");
    String::from_utf8_lossy(&received).into_owned()
}

/// Applies to every request of a connection, however steadily the bytes arrive.
#[tokio::test]
async fn slow_head_is_cut_off() {
    let app = TestApp::start(CONFIG);
    let first = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    assert_eq!(drip(RawConnection::open(app.server.url()).await, first, b"a").await, "");
    // The limit applies to the second request of a connection as well.
    let mut reused = RawConnection::open(app.server.url()).await;
    assert_eq!(reused.get("/healthz").await.unwrap().status, 200);
    assert_eq!(drip(reused, first, b"a").await, "");
}

/// Applies to connections without any request, and to kept ones between requests.
#[tokio::test]
async fn silent_connection_is_closed() {
    let app = TestApp::start(CONFIG);
    let silent = RawConnection::open(app.server.url()).await;
    let mut idle = RawConnection::open(app.server.url()).await;
    assert_eq!(idle.get("/healthz").await.unwrap().status, 200);
    assert!(silent.closes_silently().await);
    assert!(idle.closes_silently().await);
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
        let received = drip(RawConnection::open(app.server.url()).await, &first, b" ").await;
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {received}");
    }
    let chunks = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let received = drip(RawConnection::open(app.server.url()).await, chunks, b"1\r\n \r\n").await;
    assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
}

#[tokio::test]
async fn stalled_reader_is_cut_off() {
    let app = TestApp::start(&format!("{CONFIG}\n{}", many_tools()));
    let mut raw = RawConnection::open(app.server.url()).await;
    // The client sends requests and reads no response, until neither side can write any more. Then the server
    // closes the connection, and the write fails.
    let flood = async {
        let request = post(LIST);
        while raw.stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    timeout(TIMEOUT, flood).await.expect("the server has enough of it");
    assert_eq!(RawConnection::open(app.server.url()).await.get("/healthz").await.unwrap().status, 200);
}

/// The list has more than 100 kB, and the socket buffers are limited: they take a few lists at most.
#[tokio::test]
async fn unread_answers_stop_further_requests() {
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let mut app = TestApp::start(&format!("{metrics}{CONFIG}\n{}", many_tools()));
    let mut raw = RawConnection::with_small_buffer(app.server.url()).await;
    let flood = async {
        let request = post(LIST);
        while raw.stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    timeout(TIMEOUT, flood).await.expect("the server closes the connection");
    let numbers = MetricsScrape::read(&app.server.metrics_url()).await;
    let served = numbers.sum("taskbridge_requests_total", &[("method", "tools/list")]);
    assert!((1.0..5.0).contains(&served), "{served} lists for a client that reads none");
}

/// Length of the text of [`large_resource`]: far more than the socket buffers take.
const LARGE: usize = 24 * 1024 * 1024;

fn large_resource() -> String {
    format!("[resources.large]\nuri = \"note:large\"\ntext = \"{}\"\n", "x".repeat(LARGE))
}

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:large","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A client below the minimum rate is disconnected, although it reads all the time.
#[tokio::test]
async fn slow_reader_is_cut_off() {
    let limits = "[limits]\nstalled_for = \"1s\"\nmin_answer_bytes_per_second = 1000000000\n";
    let app = TestApp::start(&format!("{limits}{}", large_resource()));
    let mut raw = RawConnection::with_small_buffer(app.server.url()).await;
    raw.send(post(READ)).await;
    let (mut buffer, mut received_bytes) = (vec![0; 64 * 1024], raw.stream.read(&mut [0; 1]).await.unwrap());
    assert_eq!(received_bytes, 1, "it is answered");
    // The client reads in every second, and for two seconds far less than the minimum rate.
    let mut ticks = interval(Duration::from_millis(10));
    for _ in 0..200 {
        ticks.tick().await;
        received_bytes += raw.stream.read(&mut buffer).await.unwrap_or(0);
    }
    received_bytes += raw.read_to_end().await.len();
    assert!(received_bytes < LARGE, "all of it was sent: {received_bytes} bytes");
}

/// A large response over the budget gets 503. Small ones are sent, and the memory is free again afterwards.
#[tokio::test]
async fn bytes_in_flight_are_limited() {
    let app = TestApp::start(&format!("[limits]\nmax_bytes_in_hand = 67108864\n{}", large_resource()));
    let mut first = RawConnection::with_small_buffer(app.server.url()).await;
    first.send(post(READ)).await;
    assert_eq!(first.stream.read(&mut [0; 1]).await.unwrap(), 1, "it is on its way");
    let mut second = RawConnection::with_small_buffer(app.server.url()).await;
    second.send(post(READ)).await;
    let (code, message) = second.read_response().await.unwrap().error();
    assert!(code == 503 && message.contains("on its way"), "{code} {message}");
    assert_eq!(second.post(LIST).await.status, 200, "what is small is answered");
    // After the response has been read, its memory is free again.
    assert!(first.read_response().await.unwrap().body.len() > LARGE);
    assert_eq!(first.post(LIST).await.status, 200, "what was before is over");
    second.send(post(READ)).await;
    assert!(second.read_response().await.unwrap().body.len() > LARGE);
}

/// Returns a message with this announced length and a body of only `sent` bytes.
fn incomplete_request(announced: usize, sent: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{}",
        " ".repeat(sent)
    )
}

/// Requests with incomplete bodies count as streams, and their bytes against the budget.
#[tokio::test]
async fn incomplete_messages_count_against_limits() {
    let statuses_for = async |limit, announced, sent| {
        let app = TestApp::start(&format!("[limits]\nbody_within = \"3s\"\n{limit}\n"));
        let mut raws = Vec::new();
        for _ in 0..3 {
            let mut raw = RawConnection::open(app.server.url()).await;
            raw.send(incomplete_request(announced, sent)).await;
            raws.push(raw);
        }
        assert_eq!(
            RawConnection::open(app.server.url()).await.post(LIST).await.status,
            200,
            "what comes whole is answered"
        );
        let mut statuses = Vec::new();
        for mut raw in raws {
            statuses.push(raw.read_response().await.unwrap().status);
        }
        statuses.sort_unstable();
        statuses
    };
    assert_eq!(statuses_for("max_streams_per_owner = 2", 1_000, 1).await, [408, 408, 429], "two at once");
    // One owner's share of the budget is 256 KiB.
    let part = statuses_for("max_bytes_in_hand = 1048576", 200 * 1024, 65 * 1024).await;
    assert_eq!(part, [408, 503, 503], "so many bytes at once");
}

/// Returns tools whose list is long.
fn many_tools() -> String {
    let long = "x".repeat(2_000);
    let tool =
        |n: usize| format!("[tools.t{n}]\nbackend = \"sim\"\ndescription = \"{long}\"\ntarget = {{}}\n");
    format!("[backends.sim]\nkind = \"sim\"\n{}", (0..50).map(tool).collect::<String>())
}
