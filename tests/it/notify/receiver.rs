//! [`WebhookReceiver`]: a receiver of notices that checks every POST: headers, signature and the shape of the
//! event. A test sets its replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

/// The shared secret.
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The shared secret after the rotation.
pub(super) const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDAAAAAAAAAAA=";

const TIMEOUT: Duration = Duration::from_secs(60);

/// A reply of the receiver.
#[derive(Clone, Copy)]
pub(super) enum Reply {
    /// This status.
    Status(u16),
    /// 429 with `Retry-After`.
    After(u64),
    /// No reply.
    Hang,
}

/// A valid POST.
pub(super) struct ReceivedNotice {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) event: Value,
    pub(super) signatures: usize,
    pub(super) at: Instant,
}

#[derive(Default)]
struct ReceiverState {
    replies: VecDeque<Reply>,
    always: Option<Reply>,
    received: VecDeque<ReceivedNotice>,
    count: usize,
    in_flight: usize,
    max_in_flight: usize,
    error: Option<String>,
}

/// A receiver.
#[derive(Clone)]
pub(super) struct WebhookReceiver {
    state: Arc<Mutex<ReceiverState>>,
    arrival: Arc<Notify>,
    port: u16,
}

impl WebhookReceiver {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hooks = Self { state: Arc::default(), arrival: Arc::default(), port };
        let router = Router::new().route("/hook", post(receive)).with_state(hooks.clone());
        #[expect(clippy::disallowed_methods, reason = "a test's own receiver needs somebody to drive it")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        hooks
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Sets the replies to the next POSTs. All later ones succeed.
    pub(super) fn replies(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().replies.extend(replies);
    }

    /// Sets the reply to all POSTs.
    pub(super) fn always(&self, reply: Reply) {
        self.state.lock().always = Some(reply);
    }

    /// Returns the next POST, in order of arrival.
    pub(super) async fn next(&self) -> ReceivedNotice {
        let next = async {
            loop {
                let arrival = self.arrival.notified();
                {
                    let mut state = self.state.lock();
                    assert_eq!(state.error, None);
                    if let Some(notice) = state.received.pop_front() {
                        return notice;
                    }
                }
                arrival.await;
            }
        };
        tokio::time::timeout(TIMEOUT, next).await.expect("somebody is told")
    }

    /// Returns the total number of POSTs.
    pub(super) fn count(&self) -> usize {
        self.state.lock().count
    }

    /// Returns the maximum number of concurrent POSTs.
    pub(super) fn max_in_flight(&self) -> usize {
        self.state.lock().max_in_flight
    }
}

/// Counts one POST while it is in progress: the sender may abort it.
struct InFlight(Arc<Mutex<ReceiverState>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

async fn receive(State(hooks): State<WebhookReceiver>, headers: HeaderMap, body: Bytes) -> Response {
    let in_flight;
    let reply = {
        let mut state = hooks.state.lock();
        state.count += 1;
        state.in_flight += 1;
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
        in_flight = InFlight(Arc::clone(&hooks.state));
        match read(&headers, &body) {
            Ok(notice) => state.received.push_back(notice),
            Err(error) => state.error = Some(error),
        }
        let next = state.replies.pop_front();
        state.always.or(next).unwrap_or(Reply::Status(204))
    };
    hooks.arrival.notify_one();
    let response = match reply {
        Reply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reply::After(seconds) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response()
        }
        Reply::Hang => std::future::pending().await,
    };
    drop(in_flight);
    response
}

/// Checks a POST by the rules of the webhook scheme.
fn read(headers: &HeaderMap, body: &[u8]) -> Result<ReceivedNotice, String> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned).ok_or_else(|| format!("no {name}"))
    };
    let (id, stamp, signature) =
        (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
    if header("content-type")? != "application/cloudevents+json; charset=utf-8" {
        return Err("another content type".to_owned());
    }
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    if stamp.parse::<u64>().map_err(|error| error.to_string())?.abs_diff(now) > 300 {
        return Err(format!("{stamp} is not now"));
    }
    let signed = [format!("{id}.{stamp}.").as_bytes(), body].concat();
    let valid = [SECRET, OTHER_SECRET].map(|secret| {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        format!("v1,{}", STANDARD.encode(hmac(&key, &signed)))
    });
    let signatures: Vec<&str> = signature.split(' ').collect();
    if let Some(invalid) = signatures.iter().find(|one| !valid.iter().any(|valid| valid == *one)) {
        return Err(format!("the signature {invalid} is wrong"));
    }
    let event: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if event["id"] != id.as_str() {
        return Err(format!("{} is not {id}", event["id"]));
    }
    let (body, signatures) = (String::from_utf8_lossy(body).into_owned(), signatures.len());
    Ok(ReceivedNotice { id, body, event, signatures, at: Instant::now() })
}

/// HMAC-SHA256 (RFC 2104), computed here.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::digest([&block.map(|byte| byte ^ 0x36)[..], text].concat());
    Sha256::digest([&block.map(|byte| byte ^ 0x5c)[..], &inner[..]].concat()).into()
}

/// Returns the digest as `sha256sum` prints it.
pub(super) fn sha256_hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
