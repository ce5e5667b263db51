//! Slow on purpose, in each direction. The limits are short; what drips would never be done within them.

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

/// The list has more than 100 kB, and what waits between two sockets is limited: a few lists at most.
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

/// How long the text of [`something_large`] is: far more than what waits between two sockets.
const LARGE: usize = 24 * 1024 * 1024;

fn something_large() -> String {
    format!("[resources.large]\nuri = \"note:large\"\ntext = \"{}\"\n", "x".repeat(LARGE))
}

const READ: &str = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:large","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[tokio::test]
async fn a_reader_that_takes_a_little_all_the_time_is_cut_off_too() {
    let limits = "[limits]\nstalled_for = \"1s\"\nmin_answer_bytes_per_second = 1000000000\n";
    let app = TestApp::start(&format!("{limits}{}", something_large()));
    let mut raw = Raw::narrow(app.server.url()).await;
    raw.send(post(READ)).await;
    let (mut part, mut taken) = (vec![0; 64 * 1024], raw.stream.read(&mut [0; 1]).await.unwrap());
    assert_eq!(taken, 1, "it is answered");
    // It never takes nothing for a second, and far less than it should for two.
    let mut beat = interval(Duration::from_millis(10));
    for _ in 0..200 {
        beat.tick().await;
        taken += raw.stream.read(&mut part).await.unwrap_or(0);
    }
    taken += raw.closed().await.len();
    assert!(taken < LARGE, "all of it was sent: {taken} bytes");
}

#[tokio::test]
async fn one_owner_has_so_much_on_its_way_and_others_are_served() {
    let app = TestApp::start(&format!("[limits]\nmax_bytes_in_hand = 67108864\n{}", something_large()));
    let mut first = Raw::narrow(app.server.url()).await;
    first.send(post(READ)).await;
    assert_eq!(first.stream.read(&mut [0; 1]).await.unwrap(), 1, "it is on its way");
    let mut second = Raw::narrow(app.server.url()).await;
    second.send(post(READ)).await;
    let (code, words) = second.answer().await.unwrap().error();
    assert!(code == 503 && words.contains("on its way"), "{code} {words}");
    assert_eq!(second.post(LIST).await.status, 200, "what is small is answered");
    // Once it is taken there is room again.
    assert!(first.answer().await.unwrap().body.len() > LARGE);
    assert_eq!(first.post(LIST).await.status, 200, "what was before is over");
    second.send(post(READ)).await;
    assert!(second.answer().await.unwrap().body.len() > LARGE);
}

/// A message whose body is announced to be so long, as far as it is sent.
fn begun(announced: usize, sent: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{}",
        " ".repeat(sent)
    )
}

#[tokio::test]
async fn messages_that_do_not_come_to_an_end_are_counted_while_they_are_waited_for() {
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
    // One owner's part of it is 256 KiB.
    let part = answers("max_bytes_in_hand = 1048576", 200 * 1024, 65 * 1024).await;
    assert_eq!(part, [408, 503, 503], "so many bytes at once");
}

/// Tools whose list is long.
fn many_tools() -> String {
    let long = "x".repeat(2_000);
    let tool =
        |n: usize| format!("[tools.t{n}]\nbackend = \"sim\"\ndescription = \"{long}\"\ntarget = {{}}\n");
    format!("[backends.sim]\nkind = \"sim\"\n{}", (0..50).map(tool).collect::<String>())
}
