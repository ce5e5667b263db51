//! [`HttpResponse`]: reads a response without waiting, and checks the invariants of every response.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use futures_util::{StreamExt as _, poll};
use serde_json::Value;
use tower::ServiceExt as _;

/// Maximum number of bytes to read from a stream.
const MAX_STREAMED: usize = 256 * 1024;

/// Number of polls for a response. Nothing here waits for another thread, so a response that is not ready by
/// then waits for a job or an event.
const MAX_POLLS: usize = 64;

/// The response to a request, as far as it arrived.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Vec<u8>,
}

/// Sends a request, and reads the response until no more bytes arrive.
pub(crate) async fn read_response(
    router: Router,
    request: Request<Body>,
    max_bytes: usize,
) -> Option<HttpResponse> {
    let mut response_future = std::pin::pin!(router.oneshot(request));
    let response = poll_ready(&mut response_future).await?.unwrap_or_else(|never| match never {});
    let (head, body) = response.into_parts();
    let is_stream = head.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "text/event-stream");
    let mut chunks = body.into_data_stream();
    let mut body = Vec::new();
    while let Some(Some(chunk)) = poll_ready(&mut chunks.next()).await {
        let chunk = chunk.expect("no answer breaks off");
        body.extend_from_slice(&chunk);
        // A stream has events of any number of tasks, and each event is a response of its own.
        let length = if is_stream { chunk.len() } else { body.len() };
        assert!(length <= max_bytes, "an answer of more than {max_bytes} bytes");
        if body.len() > MAX_STREAMED {
            break;
        }
    }
    Some(HttpResponse { status: head.status.as_u16(), headers: head.headers, body })
}

/// Returns the future's output if it is ready without waiting.
async fn poll_ready<T>(mut work: impl Future<Output = T> + Unpin) -> Option<T> {
    for _ in 0..MAX_POLLS {
        if let std::task::Poll::Ready(output) = poll!(&mut work) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

impl HttpResponse {
    /// Parses the JSON of a response.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    fn has_content_type(&self, kind: &str) -> bool {
        self.headers.get(header::CONTENT_TYPE).is_some_and(|value| value == kind)
    }

    /// Checks the invariants of a response to these bytes.
    pub(crate) fn check(&self, sent: &[u8]) {
        let text = String::from_utf8_lossy(&self.body);
        // The database and the engine have no faults, so the client caused every error.
        assert!(self.status < 500, "status {}: {text}", self.status);
        if self.body.is_empty() {
            return assert!(self.status < 400, "status {} and no reason", self.status);
        }
        if self.has_content_type("text/event-stream") {
            let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
            return events.for_each(|data| check_message(&serde_json::from_str(data).expect(data), sent));
        }
        assert!(
            self.has_content_type("application/json"),
            "status {} with {:?}: {text}",
            self.status,
            self.headers
        );
        check_message(&self.json(), sent);
    }
}

/// Checks the invariants of every message from the server.
fn check_message(message: &Value, sent: &[u8]) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    if message.get("method").is_some() {
        return;
    }
    let (result, error) = (message.get("result"), message.get("error"));
    assert!(result.is_some() != error.is_some(), "{message}");
    if let Some(error) = error {
        let reason = error["message"].as_str().unwrap_or_default();
        assert!(error["code"].is_i64() && !reason.is_empty(), "{message}");
        assert_ne!(error["code"], -32603, "{message}");
    }
    if let (Ok(sent), Some(id)) = (serde_json::from_slice::<Value>(sent), message.get("id"))
        && !id.is_null()
    {
        assert_eq!(*id, sent["id"], "an answer to another request");
    }
}
