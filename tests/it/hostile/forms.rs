//! Tests for heads and bodies that a proxy and this server could read differently (request smuggling), and
//! for heads that are too large. They also cover what the HTTP library refuses by itself, so that a change of
//! it is noticed.

use super::raw::{LIST, RawConnection, post};
use crate::support::TestApp;

const CONFIG: &str = r#"
[limits]
max_head_bytes = 4096
max_headers = 20
max_url_bytes = 200
"#;

/// Returns the status for bytes on their own connection; 0 if it is closed without a response.
async fn status(app: &TestApp, bytes: &[u8]) -> u16 {
    let mut raw = RawConnection::open(app.server.url()).await;
    raw.send(bytes).await;
    raw.read_response().await.map_or(0, |response| response.status)
}

#[tokio::test]
async fn ambiguous_head_is_refused() {
    let app = TestApp::start(CONFIG);
    let list = format!("Content-Type: application/json\r\n\r\n{LIST}");
    for (case, bytes) in [
        (
            "two lengths",
            format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n{list}"
            ),
        ),
        (
            "a list of lengths",
            format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 6\r\n{list}"),
        ),
        ("a signed length", format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n{list}")),
        (
            "a length in hexadecimal",
            format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n{list}"),
        ),
        ("an empty length", format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n{list}")),
        (
            "a coding that is not chunked",
            format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n{list}"),
        ),
        (
            "chunked not last",
            format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n{list}"),
        ),
        (
            "a coding in 1.0",
            format!("POST /mcp HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{list}"),
        ),
        ("two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".to_owned()),
        ("no host", "GET /healthz HTTP/1.1\r\n\r\n".to_owned()),
        ("a folded header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n\r\n".to_owned()),
        (
            "a blank before the colon",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n".to_owned(),
        ),
        (
            "a header without a colon",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nnothing\r\n\r\n".to_owned(),
        ),
        ("a null in a header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\0c\r\n\r\n".to_owned()),
        (
            "a lone CR in a header",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\rX-B: c\r\n\r\n".to_owned(),
        ),
        ("blanks in the target", "GET /healthz /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()),
        ("another version", "GET /healthz HTTP/1.7\r\nHost: localhost\r\n\r\n".to_owned()),
    ] {
        assert_eq!(status(&app, bytes.as_bytes()).await, 400, "{case}");
    }
}

/// HTTP/2, TLS, HTTP/0.9 and garbage get 400 or no answer.
#[tokio::test]
async fn foreign_protocol_is_refused() {
    let app = TestApp::start(CONFIG);
    for (case, bytes) in [
        ("HTTP/2", &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]),
        ("TLS", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n"),
        ("HTTP/0.9", b"GET /healthz\r\n\r\n"),
        ("garbage", b"\x00\xff\x00\xff\r\n\r\n\r\n\r\n"),
    ] {
        let status = status(&app, bytes).await;
        assert!(matches!(status, 0 | 400), "{case}: {status}");
    }
    assert_eq!(RawConnection::open(app.server.url()).await.get("/healthz").await.unwrap().status, 200);
}

/// A host name in the request target is checked like one in the `Host` header.
#[tokio::test]
async fn target_host_follows_host_rules() {
    let app = TestApp::start(CONFIG);
    let request = |target: &str| post(LIST).replacen("POST /mcp ", &format!("POST {target} "), 1);
    assert_eq!(status(&app, request("http://localhost/mcp").as_bytes()).await, 200);
    assert_eq!(status(&app, request("http://evil.example/mcp").as_bytes()).await, 403);
}

/// After a body with both a length and chunks, the server closes the connection.
#[tokio::test]
async fn request_after_ambiguous_body_is_ignored() {
    let app = TestApp::start(CONFIG);
    let mut raw = RawConnection::open(app.server.url()).await;
    // A parser that uses the length takes what follows the chunks as part of this body. One that uses the
    // chunks takes it as a request. The chunks count, and then the connection is closed.
    let smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let head = post("").replacen("Content-Length: 0", "Content-Length: 500\r\nTransfer-Encoding: chunked", 1);
    let body = format!("{:x}\r\n{LIST}\r\n0\r\n\r\n", LIST.len());
    raw.send(format!("{head}{body}{smuggled}")).await;
    let received = raw.read_to_end().await;
    assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("connection: close"), "{received}");
    assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{received}");
}

#[tokio::test]
async fn coding_other_than_chunked_is_refused() {
    let app = TestApp::start(CONFIG);
    let body = format!("{:x}\r\n{LIST}\r\n0\r\n\r\n", LIST.len());
    for (expected, coding) in [
        (200, "Transfer-Encoding: Chunked"),
        (400, "Transfer-Encoding: gzip, chunked"),
        (400, "Transfer-Encoding: chunked, chunked"),
        (400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        (400, "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
    ] {
        let head = post("").replacen("Content-Length: 0", coding, 1);
        assert_eq!(status(&app, format!("{head}{body}").as_bytes()).await, expected, "{coding}");
    }
}

#[tokio::test]
async fn two_origins_are_refused() {
    let app = TestApp::start(CONFIG);
    let with_origins = |origins: &str| {
        post(LIST).replacen("Host: localhost\r\n", &format!("Host: localhost\r\n{origins}"), 1)
    };
    let (ours, foreign) = ("Origin: http://localhost\r\n", "Origin: http://evil.example\r\n");
    for (expected, origins) in [
        (200, ours.to_owned()),
        (400, format!("{ours}{foreign}")),
        (400, format!("{foreign}{ours}")),
        (400, format!("{ours}{ours}")),
    ] {
        assert_eq!(status(&app, with_origins(&origins).as_bytes()).await, expected, "{origins}");
    }
}

#[tokio::test]
async fn bare_lf_in_head_is_refused() {
    let app = TestApp::start(CONFIG);
    let (head, body) = post(LIST).split_once("\r\n\r\n").map(|(h, b)| (h.to_owned(), b.to_owned())).unwrap();
    for (case, head) in [
        ("everywhere", format!("{}\n\n", head.replace("\r\n", "\n"))),
        ("behind the first line", format!("{}\r\n\r\n", head.replacen("\r\n", "\n", 1))),
        ("behind the last header", format!("{head}\n\r\n")),
        ("at the end", format!("{head}\r\n\n")),
        ("before the first line", format!("\n{head}\r\n\r\n")),
    ] {
        assert_eq!(status(&app, format!("{head}{body}").as_bytes()).await, 400, "{case}");
    }
    // Line endings inside a body do not matter, and requests before one with a bare LF are answered.
    let spaced = post(&LIST.replacen('{', "{\n\n\r\n", 1));
    let mut raw = RawConnection::open(app.server.url()).await;
    raw.send(format!("{spaced}{spaced}GET /healthz HTTP/1.1\nHost: localhost\n\n")).await;
    let received = raw.read_to_end().await;
    let statuses: Vec<&str> =
        received.match_indices("HTTP/1.1 ").map(|(at, _)| &received[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "200", "400"], "{received}");
}

#[tokio::test]
async fn chunks_that_are_none_are_refused() {
    let app = TestApp::start(CONFIG);
    let head = post("").replacen("Content-Length: 0", "Transfer-Encoding: chunked", 1);
    for (case, body) in [
        ("no number", "zz\r\n"),
        ("a negative number", "-1\r\n"),
        ("more than there can be", "fffffffffffffffff\r\n"),
        ("without its end", "1\r\nab\r\n0\r\n\r\n"),
        ("a lone LF behind the number", "1;\n \r\n0\r\n\r\n"),
    ] {
        let status = status(&app, format!("{head}{body}").as_bytes()).await;
        assert!(matches!(status, 0 | 400), "{case}: {status}");
    }
}

#[tokio::test]
async fn a_head_has_its_sizes() {
    let app = TestApp::start(CONFIG);
    let with_headers = |headers: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let many: String = (0..30).map(|n| format!("X-{n}: a\r\n")).collect();
    let large = format!("X-A: {}\r\n", "a".repeat(6_000));
    let endless = format!("X-A: {}", "a".repeat(200_000));
    let long_target = format!("GET /healthz?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(300));
    for (case, expected, bytes) in [
        ("what clients send", 200, with_headers("X-A: a\r\n")),
        ("too many headers", 431, with_headers(&many)),
        ("a large header", 431, with_headers(&large)),
        ("a long address", 414, long_target),
    ] {
        assert_eq!(status(&app, bytes.as_bytes()).await, expected, "{case}");
    }
    // The connection may be reset while the rest of the head is in transit.
    let mut raw = RawConnection::open(app.server.url()).await;
    let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.stream, with_headers(&endless).as_bytes()).await;
    let received = raw.read_to_end().await;
    assert!(received.is_empty() || received.starts_with("HTTP/1.1 431 "), "{received}");
}

#[tokio::test]
async fn pipelined_requests_run_in_order() {
    let app = TestApp::start(CONFIG);
    let mut raw = RawConnection::open(app.server.url()).await;
    // They are answered one after the other, in order.
    let ids: Vec<String> =
        (1..=50).map(|n| post(&LIST.replacen("\"id\":1", &format!("\"id\":{n}"), 1))).collect();
    raw.send(ids.concat()).await;
    let mut received = String::new();
    let last = "\"id\":50";
    while !received.contains(last) {
        let mut buffer = vec![0; 65_536];
        let read = tokio::io::AsyncReadExt::read(&mut raw.stream, &mut buffer).await.unwrap();
        received.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    let positions: Vec<usize> = (1..=50).filter_map(|n| received.find(&format!("\"id\":{n},"))).collect();
    assert!(positions.len() == 50 && positions.is_sorted(), "{positions:?}");
}
