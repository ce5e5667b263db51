//! [`Issuer`]: a small authorization server with real keys, on a local port: its metadata, its keys, and
//! token introspection. It signs what a test specifies, valid or not, and counts requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The audience of its tokens, unless a test sets another.
pub(crate) const RESOURCE: &str = "http://127.0.0.1:8808/mcp";

/// The client id and the client secret that a bridge uses for introspection.
pub(crate) const CLIENT: (&str, &str) = ("bridge", "client:secret&1");

/// A signing key.
pub(crate) struct Signer {
    pub(crate) id: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
    Ed(Box<Ed25519KeyPair>),
}

/// An authorization server. Dropping it stops it.
pub(crate) struct Issuer {
    url: String,
    state: Arc<Inner>,
    server_task: JoinHandle<()>,
}

#[derive(Default)]
struct Inner {
    url: String,
    keys: Mutex<Vec<Value>>,
    introspections: Mutex<HashMap<String, Value>>,
    down: AtomicBool,
    /// Whether introspection of unknown tokens is never answered.
    hangs_on_unknown_tokens: AtomicBool,
    key_requests: AtomicUsize,
    introspection_requests: AtomicUsize,
    /// Number of requests for unknown paths.
    unknown_path_requests: AtomicUsize,
}

impl Signer {
    pub(crate) fn rsa(id: &str) -> Self {
        let pair = Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()));
        Self { id: id.to_owned(), pair }
    }

    pub(crate) fn ec(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ec(Box::new(pair)) }
    }

    pub(crate) fn ed(id: &str) -> Self {
        Self { id: id.to_owned(), pair: Pair::Ed(Box::new(Ed25519KeyPair::generate().unwrap())) }
    }

    /// Returns the public key, as it is published.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let key = pair.public_key();
                let (n, e) = (key.modulus(), key.exponent());
                json!({
                    "kty": "RSA", "n": text(n.big_endian_without_leading_zero()),
                    "e": text(e.big_endian_without_leading_zero()),
                })
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])})
            }
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())}),
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk
    }

    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// Returns a token with this header and these claims. The algorithm is the key's usual one unless the
    /// header specifies `PS256`.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let mut head = json!({"alg": self.algorithm(), "kid": self.id, "typ": "at+jwt"});
        merge(&mut head, header);
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&head), part(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let padding = if head["alg"] == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(padding, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

/// Overrides valid members with those of a test; null removes a member.
fn merge(valid: &mut Value, overrides: &Value) {
    let (valid, overrides) = (valid.as_object_mut().unwrap(), overrides.as_object().unwrap());
    valid.extend(overrides.clone());
    valid.retain(|_, value| !value.is_null());
}

impl Issuer {
    /// Starts an issuer that publishes these keys.
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    pub(crate) async fn with(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realm", listener.local_addr().unwrap());
        let state = Arc::new(Inner { url: url.clone(), ..Inner::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let server_task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let issuer = Self { url, state, server_task };
        issuer.publish(keys);
        issuer
    }

    /// Returns its URL, which is its issuer name.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Replaces the published keys.
    pub(crate) fn publish(&self, keys: &[&Signer]) {
        *self.state.keys.lock() = keys.iter().map(|key| key.jwk()).collect();
    }

    /// Answers every request with 503, or works again.
    pub(crate) fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::SeqCst);
    }

    /// Leaves introspection requests for unknown tokens unanswered from now on.
    pub(crate) fn hang_on_unknown_tokens(&self) {
        self.state.hangs_on_unknown_tokens.store(true, Ordering::SeqCst);
    }

    /// Sets the introspection response for a token.
    pub(crate) fn set_introspection(&self, token: &str, response: Value) {
        self.state.introspections.lock().insert(token.to_owned(), response);
    }

    /// Returns the number of requests for its keys.
    pub(crate) fn key_requests(&self) -> usize {
        self.state.key_requests.load(Ordering::SeqCst)
    }

    /// Returns the number of introspection requests.
    pub(crate) fn introspection_requests(&self) -> usize {
        self.state.introspection_requests.load(Ordering::SeqCst)
    }

    /// Returns the number of requests for unknown paths.
    pub(crate) fn unknown_path_requests(&self) -> usize {
        self.state.unknown_path_requests.load(Ordering::SeqCst)
    }

    /// Returns the claims of a valid token for a subject, overridden by `overrides`.
    pub(crate) fn claims(&self, subject: &str, overrides: &Value) -> Value {
        let mut claims = json!({
            "iss": self.url, "aud": RESOURCE, "sub": subject, "exp": seconds(3600), "iat": seconds(-1),
            "client_id": "somebody", "jti": "1",
        });
        merge(&mut claims, overrides);
        claims
    }

    /// Returns the config that accepts its tokens.
    pub(crate) fn config(&self) -> String {
        format!("mode = \"oauth\"\nresource = \"{RESOURCE}\"\n[[auth.issuers]]\nissuer = \"{}\"\n", self.url)
    }

    /// Returns the additional config for introspection of opaque tokens.
    pub(crate) fn introspection(&self) -> String {
        let (client, secret) = CLIENT;
        format!(
            "[auth.issuers.introspection]\nendpoint = \"{}/introspect\"\nclient_id = \"{client}\"\nclient_secret = \"{secret}\"\n",
            self.url
        )
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.server_task.abort();
    }
}

/// Returns a time relative to now, in seconds since 1970.
pub(crate) fn seconds(from_now: i64) -> i64 {
    use taskbridge::clock::Clock as _;
    taskbridge::clock::System.now().as_millis() / 1000 + from_now
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    if inner.down.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let url = &inner.url;
    match request.uri().path() {
        "/.well-known/openid-configuration/realm" => {
            Json(json!({"issuer": url, "jwks_uri": format!("{url}/keys")})).into_response()
        }
        "/realm/keys" => {
            inner.key_requests.fetch_add(1, Ordering::SeqCst);
            Json(json!({"keys": *inner.keys.lock()})).into_response()
        }
        "/realm/introspect" => {
            inner.introspection_requests.fetch_add(1, Ordering::SeqCst);
            introspect(&inner, request).await
        }
        "/.well-known/oauth-authorization-server/realm" => StatusCode::NOT_FOUND.into_response(),
        _ => {
            inner.unknown_path_requests.fetch_add(1, Ordering::SeqCst);
            StatusCode::NOT_FOUND.into_response()
        }
    }
}

async fn introspect(inner: &Inner, request: Request) -> Response {
    // RFC 6749, section 2.3.1: both are form-encoded before they are joined.
    let credentials = format!("Basic {}", BASE64.encode(b"bridge:client%3Asecret%261"));
    if request.headers().get("authorization").is_none_or(|header| header != credentials.as_str()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let form: Map<String, Value> = reqwest::Url::parse(&format!("x:?{}", str::from_utf8(&body).unwrap()))
        .unwrap()
        .query_pairs()
        .map(|(name, value)| (name.into_owned(), json!(value)))
        .collect();
    let token = form["token"].as_str().unwrap();
    let response = inner.introspections.lock().get(token).cloned();
    if response.is_none() && inner.hangs_on_unknown_tokens.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    Json(response.unwrap_or(json!({"active": false}))).into_response()
}
