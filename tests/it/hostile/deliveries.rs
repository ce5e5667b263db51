//! Tests for `/hooks/...`, where anyone may post: unauthenticated bodies use bounded memory.

use futures_util::FutureExt as _;
use futures_util::future::select_all;

use super::raw::RawConnection;
use crate::support::TestApp;

const CONFIG: &str = r#"
[limits]
body_within = "60s"
min_body_bytes_per_second = 1

[backends.forge]
kind = "sim"
address = "127.0.0.1:9"
hook_secret = "only the engine knows"

[backends.deaf]
kind = "sim"
address = "127.0.0.1:9"
"#;

/// The largest body. An address may have four of them in transit, all addresses together sixteen.
const MAX_BODY_BYTES: usize = 1024 * 1024;
const MAX_PER_ADDRESS: usize = 4;

/// How many bytes of a body are sent before the rest is delayed.
const PARTIAL_BYTES: usize = 100;

fn head(backend: &str, length: usize) -> String {
    format!("POST /hooks/{backend} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n")
}

/// Begins one body more than the limit of an address. One of them is refused, and the server waits for the
/// others.
async fn fill(url: &str, last: u8) -> Vec<RawConnection> {
    let mut pending = Vec::new();
    for _ in 0..=MAX_PER_ADDRESS {
        let mut raw = RawConnection::open_from(url, [127, 0, 0, last].into()).await;
        raw.send(head("forge", MAX_BODY_BYTES) + &"x".repeat(PARTIAL_BYTES)).await;
        pending.push(raw);
    }
    let (refused, index, _) = select_all(pending.iter_mut().map(|raw| raw.read_head().boxed())).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 1"), "{refused}");
    pending.remove(index);
    pending
}

/// A delivery over the budget gets 503. The memory is free again after the check of a body.
#[tokio::test]
async fn unauthenticated_bodies_share_budget() {
    let app = TestApp::start(CONFIG);
    let url = app.server.url();
    let mut pending = Vec::new();
    for last in 1..=4 {
        pending.push(fill(url, last).await);
    }
    let small_delivery = |secret: &str| {
        head("forge", 2).replace("\r\n\r\n", &format!("\r\nX-Sim-Secret: {secret}\r\n\r\n{{}}"))
    };
    let mut engine = RawConnection::open_from(url, [127, 0, 0, 5].into()).await;
    engine.send(small_delivery("only the engine knows")).await;
    let refused = engine.read_head().await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "there is no more room for anybody: {refused}");

    let mut complete = pending.swap_remove(0).swap_remove(0);
    complete.send(vec![b'x'; MAX_BODY_BYTES - PARTIAL_BYTES]).await;
    assert_eq!(complete.read_response().await.unwrap().status, 401, "it came whole, and nothing proves it");
    let mut engine = RawConnection::open_from(url, [127, 0, 0, 5].into()).await;
    engine.send(small_delivery("only the engine knows")).await;
    assert_eq!(engine.read_response().await.unwrap().status, 202);
}

/// The head is enough to refuse a delivery for such a backend, or one that is too large.
#[tokio::test]
async fn unwanted_delivery_body_is_unread() {
    let app = TestApp::start(CONFIG);
    for backend in ["none", "deaf"] {
        let mut raw = RawConnection::open(app.server.url()).await;
        raw.send(head(backend, MAX_BODY_BYTES)).await;
        assert!(raw.read_head().await.starts_with("HTTP/1.1 404 "), "{backend}");
    }
    let mut raw = RawConnection::open(app.server.url()).await;
    raw.send(head("forge", MAX_BODY_BYTES + 1)).await;
    assert!(raw.read_head().await.starts_with("HTTP/1.1 413 "));
}
