//! Tests for clients that are slow on purpose. The paused clock advances by itself while nothing else
//! happens, so that no test waits.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::bench::Server;

/// Longer than any timeout of the server.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn missing_body_times_out() {
    let server = Server::start().await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut continue_response = [0; 25];
    connection.read_exact(&mut continue_response).await.unwrap();
    assert_eq!(&continue_response, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection.write_all(b"{\"jsonrpc\":").await.unwrap();
    tokio::time::pause();
    let mut response = String::new();
    timeout(LONG, connection.read_to_string(&mut response)).await.expect("the server gives up").unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains("the body did not arrive in time"), "{response}");
}

#[tokio::test]
async fn missing_head_times_out() {
    let server = Server::start().await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc").await.unwrap();
    tokio::time::pause();
    let mut response = Vec::new();
    timeout(LONG, connection.read_to_end(&mut response)).await.expect("the server gives up").unwrap();
    let text = String::from_utf8_lossy(&response);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408 "), "{text}");
}
