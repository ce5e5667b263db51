//! [`Hooks`]: a receiver of notices that checks every POST: headers, signature and the shape of the event. A
//! test sets its replies.

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

const PATIENCE: Duration = Duration::from_secs(60);

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
pub(super) struct Told {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) event: Value,
    pub(super) signatures: usize,
    pub(super) at: Instant,
}

#[derive(Default)]
struct Desk {
    replies: VecDeque<Reply>,
    always: Option<Reply>,
    told: VecDeque<Told>,
    count: usize,
    now: usize,
    most: usize,
    wrong: Option<String>,
}

/// A receiver.
#[derive(Clone)]
pub(super) struct Hooks {
    desk: Arc<Mutex<Desk>>,
    came: Arc<Notify>,
    port: u16,
}

impl Hooks {
    pub(super) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hooks = Self { desk: Arc::default(), came: Arc::default(), port };
        let router = Router::new().route("/hook", post(take)).with_state(hooks.clone());
        #[expect(clippy::disallowed_methods, reason = "a test's own receiver needs somebody to drive it")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        hooks
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Sets the replies to the next POSTs. All later ones succeed.
    pub(super) fn replies(&self, replies: impl IntoIterator<Item = Reply>) {
        self.desk.lock().replies.extend(replies);
    }

    /// Sets the reply to all POSTs.
    pub(super) fn always(&self, reply: Reply) {
        self.desk.lock().always = Some(reply);
    }

    /// Returns the next POST, in order of arrival.
    pub(super) async fn next(&self) -> Told {
        let next = async {
            loop {
                let came = self.came.notified();
                {
                    let mut desk = self.desk.lock();
                    assert_eq!(desk.wrong, None);
                    if let Some(told) = desk.told.pop_front() {
                        return told;
                    }
                }
                came.await;
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("somebody is told")
    }

    /// Returns the total number of POSTs.
    pub(super) fn count(&self) -> usize {
        self.desk.lock().count
    }

    /// Returns the maximum number of concurrent POSTs.
    pub(super) fn most_at_once(&self) -> usize {
        self.desk.lock().most
    }
}

/// Counts one POST while it is in progress: the sender may abort it.
struct UnderWay(Arc<Mutex<Desk>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().now -= 1;
    }
}

async fn take(State(hooks): State<Hooks>, headers: HeaderMap, body: Bytes) -> Response {
    let under_way;
    let reply = {
        let mut desk = hooks.desk.lock();
        desk.count += 1;
        desk.now += 1;
        desk.most = desk.most.max(desk.now);
        under_way = UnderWay(Arc::clone(&hooks.desk));
        match read(&headers, &body) {
            Ok(told) => desk.told.push_back(told),
            Err(wrong) => desk.wrong = Some(wrong),
        }
        let next = desk.replies.pop_front();
        desk.always.or(next).unwrap_or(Reply::Status(204))
    };
    hooks.came.notify_one();
    let answer = match reply {
        Reply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reply::After(seconds) => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", seconds.to_string())]).into_response()
        }
        Reply::Hang => std::future::pending().await,
    };
    drop(under_way);
    answer
}

/// Checks a POST by the rules of the webhook scheme.
fn read(headers: &HeaderMap, body: &[u8]) -> Result<Told, String> {
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
    let right = [SECRET, OTHER_SECRET].map(|secret| {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        format!("v1,{}", STANDARD.encode(hmac(&key, &signed)))
    });
    let signatures: Vec<&str> = signature.split(' ').collect();
    if let Some(wrong) = signatures.iter().find(|one| !right.iter().any(|right| right == *one)) {
        return Err(format!("the signature {wrong} is wrong"));
    }
    let event: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if event["id"] != id.as_str() {
        return Err(format!("{} is not {id}", event["id"]));
    }
    let (body, signatures) = (String::from_utf8_lossy(body).into_owned(), signatures.len());
    Ok(Told { id, body, event, signatures, at: Instant::now() })
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
