//! Tests of the limits on replies: size, decompressed size, time, and completeness.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::*;

fn with_encoding(encoding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-encoding: {encoding}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn reply_is_read_whole() {
    let reply = get(|_| reply(201, "x-one: 1\r\n", "hello")).await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.body[..]), (201, &b"hello"[..]));
    assert_eq!((reply.headers["x-one"].as_bytes(), reply.url.path()), (&b"1"[..], "/x"));
}

/// A reply that states more bytes than allowed is refused without reading it.
#[tokio::test]
async fn stated_length_over_limit_is_refused() {
    let huge = "HTTP/1.1 200 OK\r\ncontent-length: 4294967296\r\n\r\n";
    let error = get(move |_| Step::Hang(huge.into())).await.unwrap_err();
    let SendError::TooLarge { status, size, .. } = &error else { panic!("{error:?}") };
    assert_eq!((status.as_u16(), *size), (200, Some(4_294_967_296)));
}

/// A reply of unknown length is cut off at the limit, although the server never stops.
#[tokio::test]
async fn endless_reply_is_refused() {
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let error = get(move |_| Step::Repeat(head.into(), chunk.clone().into_bytes())).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { size: None, .. }), "{error:?}");
}

#[tokio::test]
async fn compressed_reply_is_decompressed() {
    let reply = get(|_| Step::Send(with_encoding("gzip", &gzip(b"hello")))).await.unwrap();
    assert_eq!(&reply.body[..], b"hello");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"hello").unwrap();
    let deflated = encoder.finish().unwrap();
    let reply = get(move |_| Step::Send(with_encoding("deflate", &deflated))).await.unwrap();
    assert_eq!(&reply.body[..], b"hello");
}

/// 16 MiB that compress to less than the limit are refused.
#[tokio::test]
async fn decompression_bomb_is_refused() {
    let bomb = gzip(&vec![0; 16 << 20]);
    assert!((bomb.len() as u64) < MAX_REPLY);
    let error = get(move |_| Step::Send(with_encoding("gzip", &bomb))).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { size: None, .. }), "{error:?}");
}

#[tokio::test]
async fn unknown_or_broken_encoding_is_uncertain() {
    for (encoding, body) in [("br", "hello"), ("gzip", "no gzip")] {
        let error = get(move |_| Step::Send(with_encoding(encoding, body.as_bytes()))).await.unwrap_err();
        assert!(matches!(error, SendError::Uncertain(_)), "{error:?}");
    }
}

/// A body that is shorter than stated is no reply.
#[tokio::test]
async fn short_body_is_uncertain() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello";
    let error = get(move |_| Step::Send(short.into())).await.unwrap_err();
    assert!(matches!(&error, SendError::Uncertain(why) if why.contains("not complete")), "{error:?}");
}

/// A body that is longer than stated is cut off at the stated length.
#[tokio::test]
async fn long_body_is_cut_at_stated_length() {
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more";
    assert_eq!(&get(move |_| Step::Send(long.into())).await.unwrap().body[..], b"hello");
}

/// Slow bytes do not extend the timeout: it covers the whole exchange.
#[tokio::test]
async fn slow_reply_ends_at_timeout() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n";
    let server = TestServer::start(move |_| Step::Repeat(head.into(), b"x".into())).await;
    let mut request = server.request(Method::GET, "/x");
    request.timeout = Duration::from_secs(1);
    let error = server.client().send(request).await.unwrap_err();
    assert!(matches!(&error, SendError::Uncertain(why) if why.contains("in time")), "{error:?}");
}

/// Requests ask for no compression.
#[tokio::test]
async fn requests_ask_for_no_compression() {
    let server = TestServer::start(|_| reply(200, "", "")).await;
    server.client().send(server.request(Method::GET, "/x")).await.unwrap();
    assert_eq!(server.received()[0].header("accept-encoding").as_deref(), Some("identity"));
}
