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
use super::flaw::Flaw;
use super::jwks::KeySet;
use super::jwt::Jwt;

/// Age from which keys are fetched again. A revoked key stays usable for this long (up to `TOO_OLD` if the
/// issuer is unavailable).
const OLD: Duration = Duration::from_secs(10 * 60);

/// Maximum age of keys while the issuer is unavailable.
const TOO_OLD: Duration = Duration::from_secs(60 * 60);

/// Maximum number of fetches in [`WHILE`], for any number of tokens, unless the last one failed.
const MOST_FETCHES: usize = 3;

/// Period of the fetch limit.
const WHILE: Duration = Duration::from_secs(90);

/// Shortest interval between fetches after a failure. Failures have no other limit, so that a recovered
/// issuer is noticed soon.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The source of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// The issuer as a URL.
    pub url: Url,
    /// URL of the keys; without it, the issuer's metadata has it.
    pub keys: Option<Url>,
    /// Network settings.
    pub way: IssuerNetwork,
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct Keyring {
    source: Source,
    line: IssuerClient,
    kept: Mutex<CachedKeys>,
}

/// The cached keys and the state of fetches.
#[derive(Debug, Default)]
struct CachedKeys {
    keys: Option<(Arc<KeySet>, Instant)>,
    /// Start times of the last fetches.
    tried: VecDeque<Instant>,
    failed: bool,
    under_way: Option<Shared<BoxFuture<'static, ()>>>,
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRejection {
    /// The token is invalid.
    Flawed(Flaw),
    /// The token cannot be verified now: the issuer is unavailable, or too many requests to it are in
    /// progress.
    Unknown,
}

impl CachedKeys {
    /// Returns the keys unless they exceed the maximum age.
    fn usable(&self, now: Instant) -> Option<Arc<KeySet>> {
        let (keys, since) = self.keys.as_ref()?;
        (now.duration_since(*since) < TOO_OLD).then(|| Arc::clone(keys))
    }

    /// Returns true if the keys are due for a fetch.
    fn is_due(&self, now: Instant) -> bool {
        self.keys.as_ref().is_none_or(|(_, since)| now.duration_since(*since) >= OLD)
    }

    /// Returns true if a fetch may start.
    fn may_fetch(&self, now: Instant) -> bool {
        if self.failed {
            return self.tried.back().is_none_or(|tried| now.duration_since(*tried) >= PAUSE_AFTER_FAILURE);
        }
        self.tried.iter().filter(|tried| now.duration_since(**tried) < WHILE).count() < MOST_FETCHES
    }

    fn begins(&mut self, now: Instant) {
        if self.tried.len() >= MOST_FETCHES {
            self.tried.pop_front();
        }
        self.tried.push_back(now);
    }
}

impl Keyring {
    pub(super) fn new(source: Source) -> Result<Arc<Self>, String> {
        let plain =
            [Some(&source.url), source.keys.as_ref()].into_iter().flatten().all(|url| url.scheme() == "http");
        let line = IssuerClient::new(&source.way, plain)?;
        Ok(Arc::new(Self { source, line, kept: Mutex::default() }))
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Fetches the keys and returns their number.
    pub(super) async fn look(&self) -> Result<usize, String> {
        self.fetched().await.map(|keys| keys.len())
    }

    /// Returns true if tokens signed with this key are valid now, without a request.
    pub(super) fn has(&self, key: &PublicKey, algorithm: Algorithm) -> bool {
        let usable = self.kept.lock().usable(Instant::now());
        usable.is_some_and(|keys| keys.has(key, algorithm))
    }

    /// Verifies the signature of a token and returns the key that matches.
    pub(super) async fn check(self: &Arc<Self>, token: &Jwt<'_>) -> Result<PublicKey, TokenRejection> {
        let (due, failed) = {
            let kept = self.kept.lock();
            (kept.is_due(Instant::now()), kept.failed)
        };
        let fetch = if due { self.fetch() } else { None };
        let mut usable = self.kept.lock().usable(Instant::now());
        // Old keys are used while the issuer is unavailable, but not during a fetch, because one of them may
        // have been revoked.
        if let Some(fetch) = fetch.filter(|_| !failed || usable.is_none()) {
            fetch.await;
            usable = self.kept.lock().usable(Instant::now());
        }
        let keys = usable.ok_or(TokenRejection::Unknown)?;
        match keys.check(token) {
            Ok(key) => Ok(key.clone()),
            // Without a key id, a signature that does not match may be from a new key.
            Err(flaw) if flaw == Flaw::Key || token.key_id().is_none() => {
                self.check_anew(token, &keys, flaw).await
            }
            Err(flaw) => Err(TokenRejection::Flawed(flaw)),
        }
    }

    /// Verifies a token with keys that are newer than these, if there are any.
    async fn check_anew(
        self: &Arc<Self>,
        token: &Jwt<'_>,
        known: &Arc<KeySet>,
        flaw: Flaw,
    ) -> Result<PublicKey, TokenRejection> {
        if let Some(fetch) = self.fetch() {
            fetch.await;
        }
        let (keys, failed) = {
            let kept = self.kept.lock();
            (kept.usable(Instant::now()), kept.failed)
        };
        match keys {
            Some(keys) if !Arc::ptr_eq(&keys, known) => {
                keys.check(token).cloned().map_err(TokenRejection::Flawed)
            }
            // A key that cannot be fetched now may have signed the token.
            _ if failed => Err(TokenRejection::Unknown),
            _ => Err(TokenRejection::Flawed(flaw)),
        }
    }

    /// Starts a fetch, or joins the one in progress. Returns `None` if the fetch limit is reached.
    fn fetch(self: &Arc<Self>) -> Option<Shared<BoxFuture<'static, ()>>> {
        let mut kept = self.kept.lock();
        if let Some(under_way) = kept.under_way.as_ref().filter(|under_way| under_way.peek().is_none()) {
            return Some(under_way.clone());
        }
        let now = Instant::now();
        if !kept.may_fetch(now) {
            return None;
        }
        kept.begins(now);
        let under_way = spawn(Arc::clone(self).renew()).map(|_| ()).boxed().shared();
        kept.under_way = Some(under_way.clone());
        Some(under_way)
    }

    async fn renew(self: Arc<Self>) {
        let fetched = self.fetched().await;
        let mut kept = self.kept.lock();
        kept.under_way = None;
        match fetched {
            Ok(keys) => {
                if kept.failed {
                    tracing::info!(issuer = self.source.issuer, "the issuer's keys could be fetched again");
                }
                kept.failed = false;
                kept.keys = Some((Arc::new(keys), Instant::now()));
            }
            Err(why) => {
                if !kept.failed {
                    let have = kept.usable(Instant::now()).is_some();
                    let meanwhile =
                        if have { "those that it had are used" } else { "nobody can be let in by it" };
                    tracing::warn!(
                        issuer = self.source.issuer,
                        why,
                        "the issuer's keys cannot be fetched; {meanwhile}"
                    );
                }
                kept.failed = true;
            }
        }
    }

    async fn fetched(&self) -> Result<KeySet, String> {
        let Source { issuer, url, keys, .. } = &self.source;
        let at = match keys {
            Some(keys) => keys.clone(),
            None => discovery::keys_at(&self.line, url, issuer).await?,
        };
        let told = redacted_url(&at);
        let document = self.line.get(at).await.map_err(|error| format!("{told}: {error}"))?;
        KeySet::parse(&document).map_err(|why| format!("{told}: {why}"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fetch outlives the request that asked for it: whoever hangs up must not keep others waiting"
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
        let mut kept = CachedKeys::default();
        assert!(kept.is_due(start) && kept.may_fetch(start) && kept.usable(start).is_none());
        for _ in 0..MOST_FETCHES {
            assert!(kept.may_fetch(start));
            kept.begins(start);
        }
        kept.keys = Some((Arc::default(), start));
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
                (kept.is_due(now), kept.may_fetch(now), kept.usable(now).is_some()),
                (due, may_fetch, usable),
                "after {after} s"
            );
        }
        kept.failed = true;
        assert!(!kept.may_fetch(start + Duration::from_secs(1)));
        assert!(kept.may_fetch(start + Duration::from_secs(2)));
    }

    /// Returns a JWKS document with keys of these ids.
    fn shown(ids: &[&str]) -> Vec<u8> {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let key = |id: &&str| json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id});
        json!({"keys": ids.iter().map(key).collect::<Vec<_>>()}).to_string().into_bytes()
    }

    /// Serves one key to all requests.
    async fn show(listener: TcpListener, id: &str) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let read = stream.read(&mut [0; 4096]).await.unwrap();
            assert!(read > 0);
            let body = shown(&[id]);
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        }
    }

    /// A token is never checked with older keys than those that the issuer publishes now.
    #[tokio::test]
    async fn withdrawn_key_is_refused_after_refresh() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let keys = Url::parse(&format!("http://{}/keys", listener.local_addr().unwrap())).unwrap();
        let (issuer, way) = ("https://login.example".to_owned(), IssuerNetwork::default());
        let url = Url::parse(&issuer).unwrap();
        let ring = Keyring::new(Source { issuer, url, keys: Some(keys), way }).unwrap();
        let header = BASE64URL_NOPAD.encode(br#"{"alg":"EdDSA","kid":"withdrawn"}"#);
        let token = format!("{header}.e30.AAAA");
        let token = Jwt::parse(token.as_bytes()).unwrap().unwrap();
        let since = Instant::now();
        ring.kept.lock().keys = Some((Arc::new(KeySet::parse(&shown(&["withdrawn"])).unwrap()), since));
        assert_eq!(
            ring.check(&token).await,
            Err(TokenRejection::Flawed(Flaw::Signature)),
            "by the key of that name"
        );

        tokio::time::pause();
        tokio::time::advance(OLD).await;
        tokio::time::resume();
        let checked = tokio::select! {
            checked = ring.check(&token) => checked,
            () = show(listener, "new") => unreachable!("it shows them without end"),
        };
        assert_eq!(checked, Err(TokenRejection::Flawed(Flaw::Key)), "there is no such key any more");

        // The server no longer listens now.
        ring.kept.lock().keys = Some((Arc::new(KeySet::parse(&shown(&["withdrawn"])).unwrap()), since));
        assert_eq!(
            ring.check(&token).await,
            Err(TokenRejection::Flawed(Flaw::Signature)),
            "no others can be had"
        );
    }
}
