//! [`Keyring`]: the cached keys of one issuer. It fetches them on first use, when they are old, when a token
//! has an unknown key id, and when the signature of a token without one matches no key. The number of fetches
//! in a period is limited, so that a flood of forged tokens does not reach the issuer. Old keys stay usable
//! for a while if the issuer is unavailable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use reqwest::Url;
use tokio::time::Instant;

use super::algorithm::{Algorithm, PublicKey};
use super::discovery;
use super::fetch::{IssuerClient, IssuerNetwork, redacted_url};
use super::jwks::KeySet;
use super::jwt::Jwt;
use super::token_error::TokenError;

/// Age from which keys are fetched again. A revoked key stays usable for this long (up to `MAX_AGE` if the
/// issuer is unavailable).
const REFRESH_AGE: Duration = Duration::from_secs(10 * 60);

/// Maximum age of keys while the issuer is unavailable.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Maximum number of fetches in [`FETCH_WINDOW`], for any number of tokens, unless the last one failed.
const MAX_FETCHES: usize = 3;

/// Period of the fetch limit.
const FETCH_WINDOW: Duration = Duration::from_secs(90);

/// Shortest interval between fetches after a failure. Failures have no other limit, so that a recovered
/// issuer is noticed soon.
const FAILURE_BACKOFF: Duration = Duration::from_secs(2);

/// The source of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// The issuer as a URL.
    pub url: Url,
    /// URL of the keys; without it, the issuer's metadata has it.
    pub keys_url: Option<Url>,
    /// Network settings.
    pub network: IssuerNetwork,
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct Keyring {
    source: KeySource,
    client: IssuerClient,
    cache: Mutex<CachedKeys>,
}

/// The cached keys and the state of fetches.
#[derive(Debug, Default)]
struct CachedKeys {
    keys: Option<(Arc<KeySet>, Instant)>,
    /// Start times of the last fetches.
    attempts: VecDeque<Instant>,
    last_failed: bool,
    pending_fetch: Option<Shared<BoxFuture<'static, ()>>>,
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRejection {
    /// The token is invalid.
    Invalid(TokenError),
    /// The token cannot be verified now: the issuer is unavailable, or too many requests to it are in
    /// progress.
    Unavailable,
}

impl CachedKeys {
    /// Returns the keys unless they exceed the maximum age.
    fn usable(&self, now: Instant) -> Option<Arc<KeySet>> {
        let (keys, fetched_at) = self.keys.as_ref()?;
        (now.duration_since(*fetched_at) < MAX_AGE).then(|| Arc::clone(keys))
    }

    /// Returns true if the keys are due for a fetch.
    fn is_due(&self, now: Instant) -> bool {
        self.keys.as_ref().is_none_or(|(_, fetched_at)| now.duration_since(*fetched_at) >= REFRESH_AGE)
    }

    /// Returns true if a fetch may start.
    fn may_fetch(&self, now: Instant) -> bool {
        if self.last_failed {
            return self
                .attempts
                .back()
                .is_none_or(|attempt| now.duration_since(*attempt) >= FAILURE_BACKOFF);
        }
        self.attempts.iter().filter(|attempt| now.duration_since(**attempt) < FETCH_WINDOW).count()
            < MAX_FETCHES
    }

    fn record_attempt(&mut self, now: Instant) {
        if self.attempts.len() >= MAX_FETCHES {
            self.attempts.pop_front();
        }
        self.attempts.push_back(now);
    }
}

impl Keyring {
    pub(super) fn new(source: KeySource) -> Result<Arc<Self>, String> {
        let is_plain_http = [Some(&source.url), source.keys_url.as_ref()]
            .into_iter()
            .flatten()
            .all(|url| url.scheme() == "http");
        let client = IssuerClient::new(&source.network, is_plain_http)?;
        Ok(Arc::new(Self { source, client, cache: Mutex::default() }))
    }

    pub(super) fn source(&self) -> &KeySource {
        &self.source
    }

    /// Fetches the keys and returns their number.
    pub(super) async fn fetch_key_count(&self) -> Result<usize, String> {
        self.fetch_keys().await.map(|keys| keys.len())
    }

    /// Returns true if tokens signed with this key are valid now, without a request.
    pub(super) fn has_key(&self, key: &PublicKey, algorithm: Algorithm) -> bool {
        let usable = self.cache.lock().usable(Instant::now());
        usable.is_some_and(|keys| keys.has(key, algorithm))
    }

    /// Verifies the signature of a token and returns the key that matches.
    pub(super) async fn check(self: &Arc<Self>, token: &Jwt<'_>) -> Result<PublicKey, TokenRejection> {
        let (is_due, failed) = {
            let cache = self.cache.lock();
            (cache.is_due(Instant::now()), cache.last_failed)
        };
        let fetch = if is_due { self.fetch() } else { None };
        let mut usable = self.cache.lock().usable(Instant::now());
        // Old keys are used while the issuer is unavailable, but not during a fetch, because one of them may
        // have been revoked.
        if let Some(fetch) = fetch.filter(|_| !failed || usable.is_none()) {
            fetch.await;
            usable = self.cache.lock().usable(Instant::now());
        }
        let keys = usable.ok_or(TokenRejection::Unavailable)?;
        match keys.check(token) {
            Ok(key) => Ok(key.clone()),
            // Without a key id, a signature that does not match may be from a new key.
            Err(error) if error == TokenError::Key || token.key_id().is_none() => {
                self.check_with_newer_keys(token, &keys, error).await
            }
            Err(error) => Err(TokenRejection::Invalid(error)),
        }
    }

    /// Verifies a token with keys that are newer than these, if there are any.
    async fn check_with_newer_keys(
        self: &Arc<Self>,
        token: &Jwt<'_>,
        old_keys: &Arc<KeySet>,
        error: TokenError,
    ) -> Result<PublicKey, TokenRejection> {
        if let Some(fetch) = self.fetch() {
            fetch.await;
        }
        let (keys, failed) = {
            let cache = self.cache.lock();
            (cache.usable(Instant::now()), cache.last_failed)
        };
        match keys {
            Some(keys) if !Arc::ptr_eq(&keys, old_keys) => {
                keys.check(token).cloned().map_err(TokenRejection::Invalid)
            }
            // A key that cannot be fetched now may have signed the token.
            _ if failed => Err(TokenRejection::Unavailable),
            _ => Err(TokenRejection::Invalid(error)),
        }
    }

    /// Starts a fetch, or joins the one in progress. Returns `None` if the fetch limit is reached.
    fn fetch(self: &Arc<Self>) -> Option<Shared<BoxFuture<'static, ()>>> {
        let mut cache = self.cache.lock();
        if let Some(pending) = cache.pending_fetch.as_ref().filter(|pending| pending.peek().is_none()) {
            return Some(pending.clone());
        }
        let now = Instant::now();
        if !cache.may_fetch(now) {
            return None;
        }
        cache.record_attempt(now);
        let pending = spawn(Arc::clone(self).refresh()).map(|_| ()).boxed().shared();
        cache.pending_fetch = Some(pending.clone());
        Some(pending)
    }

    async fn refresh(self: Arc<Self>) {
        let result = self.fetch_keys().await;
        let mut cache = self.cache.lock();
        cache.pending_fetch = None;
        match result {
            Ok(keys) => {
                if cache.last_failed {
                    tracing::info!(issuer = self.source.issuer, "issuer keys fetched again");
                }
                cache.last_failed = false;
                cache.keys = Some((Arc::new(keys), Instant::now()));
            }
            Err(why) => {
                if !cache.last_failed {
                    let has_usable = cache.usable(Instant::now()).is_some();
                    let consequence =
                        if has_usable { "cached keys are used" } else { "its tokens cannot be verified" };
                    tracing::warn!(
                        issuer = self.source.issuer,
                        why,
                        "the issuer's keys cannot be fetched; {consequence}"
                    );
                }
                cache.last_failed = true;
            }
        }
    }

    async fn fetch_keys(&self) -> Result<KeySet, String> {
        let KeySource { issuer, url, keys_url, .. } = &self.source;
        let location = match keys_url {
            Some(keys_url) => keys_url.clone(),
            None => discovery::discover(&self.client, url, issuer)
                .await
                .and_then(|metadata| metadata.keys_url(url))
                .map_err(|reason| format!("{reason}; set `jwks_uri`"))?,
        };
        let display_url = redacted_url(&location);
        let document = self.client.get(location).await.map_err(|error| format!("{display_url}: {error}"))?;
        KeySet::parse(&document).map_err(|reason| format!("{display_url}: {reason}"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fetch outlives its first request, because other requests may wait for it"
)]
fn spawn(work: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::spawn(work)
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64URL_NOPAD;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Keys are refreshed when they are old, and expire when the issuer stays unavailable.
    #[test]
    fn signing_keys_are_refreshed_and_expire() {
        let start = Instant::now();
        let mut cache = CachedKeys::default();
        assert!(cache.is_due(start) && cache.may_fetch(start) && cache.usable(start).is_none());
        for _ in 0..MAX_FETCHES {
            assert!(cache.may_fetch(start));
            cache.record_attempt(start);
        }
        cache.keys = Some((Arc::default(), start));
        for (after, due, may_fetch, usable) in [
            (0, false, false, true),
            (89, false, false, true),
            (90, false, true, true),
            (599, false, true, true),
            (600, true, true, true),
            (3599, true, true, true),
            (3600, true, true, false),
        ] {
            let now = start + Duration::from_secs(after);
            assert_eq!(
                (cache.is_due(now), cache.may_fetch(now), cache.usable(now).is_some()),
                (due, may_fetch, usable),
                "after {after} s"
            );
        }
        cache.last_failed = true;
        assert!(!cache.may_fetch(start + Duration::from_secs(1)));
        assert!(cache.may_fetch(start + Duration::from_secs(2)));
    }

    /// Returns a JWKS document with keys of these ids.
    fn jwks_document(ids: &[&str]) -> Vec<u8> {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let key = |id: &&str| json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id});
        json!({"keys": ids.iter().map(key).collect::<Vec<_>>()}).to_string().into_bytes()
    }

    /// Serves one key to all requests.
    async fn serve_keys(listener: TcpListener, id: &str) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let count = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(count > 0);
            let body = jwks_document(&[id]);
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        }
    }

    /// A token is never checked with older keys than those that the issuer publishes now.
    #[tokio::test]
    async fn withdrawn_key_is_refused_after_refresh() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let keys_url = Url::parse(&format!("http://{}/keys", listener.local_addr().unwrap())).unwrap();
        let (issuer, network) = ("https://login.example".to_owned(), IssuerNetwork::default());
        let url = Url::parse(&issuer).unwrap();
        let keyring = Keyring::new(KeySource { issuer, url, keys_url: Some(keys_url), network }).unwrap();
        let header = BASE64URL_NOPAD.encode(br#"{"alg":"EdDSA","kid":"withdrawn"}"#);
        let token = format!("{header}.e30.AAAA");
        let token = Jwt::parse(token.as_bytes()).unwrap().unwrap();
        let fetched_at = Instant::now();
        keyring.cache.lock().keys =
            Some((Arc::new(KeySet::parse(&jwks_document(&["withdrawn"])).unwrap()), fetched_at));
        assert_eq!(
            keyring.check(&token).await,
            Err(TokenRejection::Invalid(TokenError::Signature)),
            "the key of this id is used"
        );

        tokio::time::pause();
        tokio::time::advance(REFRESH_AGE).await;
        tokio::time::resume();
        let result = tokio::select! {
            result = keyring.check(&token) => result,
            () = serve_keys(listener, "new") => unreachable!("the key server never stops"),
        };
        assert_eq!(result, Err(TokenRejection::Invalid(TokenError::Key)), "the issuer has withdrawn the key");

        // The server no longer listens now.
        keyring.cache.lock().keys =
            Some((Arc::new(KeySet::parse(&jwks_document(&["withdrawn"])).unwrap()), fetched_at));
        assert_eq!(
            keyring.check(&token).await,
            Err(TokenRejection::Invalid(TokenError::Signature)),
            "no newer keys are available"
        );
    }
}
