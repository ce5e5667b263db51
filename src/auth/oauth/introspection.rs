//! [`Examiner`]: token introspection at an issuer (RFC 7662), with a cache.
//!
//! The cache keeps only digests of tokens. Concurrent requests are limited in total and per client address.
//! So a flood of forged tokens does not reach the issuer in full, and does not delay tokens that were valid
//! before. A token without an answer is unknown, not invalid.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use super::claims::{Bearer, ClaimRules};
use super::fetch::{IssuerClient, IssuerNetwork, form_encoded};
use super::flaw::Flaw;
use super::keyring::TokenRejection;
use crate::auth::of_one_user;

/// Maximum number of cached valid tokens, and of cached invalid ones.
const MOST_KEPT: usize = 10_000;

/// Cache lifetime of an invalid token.
const INACTIVE_KEPT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent requests, without those of [`PLACES_OF_KNOWN`].
const PLACES: usize = 12;

/// Maximum number of those for unknown tokens of one client address.
const PER_ADDRESS: usize = 4;

/// Additional concurrent requests for tokens that were valid before.
const PLACES_OF_KNOWN: usize = 4;

/// Number of tracked addresses above which those without a request are removed.
const MANY_ADDRESSES: usize = 1_000;

/// How long a request waits for a permit. Also the interval between attempts to refresh an entry.
const PATIENCE: Duration = Duration::from_secs(2);

/// Introspection settings of an issuer.
#[derive(Clone, PartialEq, Eq)]
pub struct Introspection {
    /// Introspection endpoint.
    pub endpoint: Url,
    /// Client id of this server at the issuer.
    pub client: String,
    /// Client secret.
    pub secret: Zeroizing<String>,
    /// Cache lifetime of a valid token, limited by its expiry.
    pub keep: Duration,
    /// True if the issuer answers only for tokens for this server, and its responses may lack `aud`.
    pub audience_implied: bool,
    /// Network settings.
    pub way: IssuerNetwork,
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Introspects tokens at one issuer.
#[derive(Debug)]
pub(super) struct Examiner {
    asks: Introspection,
    line: IssuerClient,
    words: Mutex<IntrospectionCache>,
    places: Semaphore,
    places_of_known: Semaphore,
    by_address: Mutex<HashMap<Option<IpAddr>, Arc<Semaphore>>>,
    failed: AtomicBool,
}

/// A permit for one request.
struct IntrospectionPermit<'a> {
    _one: SemaphorePermit<'a>,
    _of_address: Option<OwnedSemaphorePermit>,
}

/// Cached responses by the digest of the token.
#[derive(Debug, Default)]
struct IntrospectionCache {
    good: HashMap<[u8; 32], Good>,
    bad: HashMap<[u8; 32], (Flaw, Instant)>,
}

/// A valid token. The entry stays after it expires until the cache is full, so that the token counts as
/// previously valid.
#[derive(Debug)]
struct Good {
    claims: Map<String, Value>,
    /// Time from which the entry is refreshed.
    renew: Instant,
    until: Instant,
}

impl IntrospectionCache {
    fn of(&self, token: &[u8; 32], now: Instant) -> Option<Result<Map<String, Value>, Flaw>> {
        match (self.good.get(token), self.bad.get(token)) {
            (Some(good), _) if now < good.until => Some(Ok(good.claims.clone())),
            (_, Some((flaw, until))) if now < *until => Some(Err(*flaw)),
            _ => None,
        }
    }

    /// Returns true if the last lookup found the token valid, and its entry is still in the cache.
    fn was_good(&self, token: &[u8; 32]) -> bool {
        self.good.contains_key(token)
    }

    /// Returns true if the caller should refresh an entry before it expires. Only one request gets true, and
    /// the next one only after [`PATIENCE`].
    fn is_due(&mut self, token: &[u8; 32], now: Instant) -> bool {
        let due = self.good.get_mut(token).filter(|good| good.renew <= now && now < good.until);
        due.map(|good| good.renew = now + PATIENCE).is_some()
    }

    fn good(&mut self, token: [u8; 32], claims: Map<String, Value>, keep_for: Duration, now: Instant) {
        self.bad.remove(&token);
        let good = Good { claims, renew: now + keep_for * 3 / 4, until: now + keep_for };
        keep(&mut self.good, token, good, |good| now < good.until);
    }

    fn bad(&mut self, token: [u8; 32], flaw: Flaw, now: Instant) {
        self.good.remove(&token);
        keep(&mut self.bad, token, (flaw, now + INACTIVE_KEPT), |(_, until)| now < *until);
    }
}

/// Adds an entry to a cache. A full cache drops expired entries, or else any other entry, which costs another
/// request.
fn keep<T>(map: &mut HashMap<[u8; 32], T>, token: [u8; 32], word: T, counts: impl Fn(&T) -> bool) {
    if map.len() >= MOST_KEPT && !map.contains_key(&token) {
        map.retain(|_, word| counts(word));
    }
    if map.len() >= MOST_KEPT
        && let Some(any) = map.keys().next().copied()
    {
        map.remove(&any);
    }
    map.insert(token, word);
}

impl Examiner {
    pub(super) fn new(asks: Introspection) -> Result<Self, String> {
        let line = IssuerClient::new(&asks.way, asks.endpoint.scheme() == "http")?;
        let (places, places_of_known) = (Semaphore::new(PLACES), Semaphore::new(PLACES_OF_KNOWN));
        let (words, by_address, failed) = Default::default();
        Ok(Self { asks, line, words, places, places_of_known, by_address, failed })
    }

    pub(super) fn asks(&self) -> &Introspection {
        &self.asks
    }

    /// Tests the endpoint with a token that does not exist.
    pub(super) async fn check_endpoint(&self) -> Result<(), String> {
        let word = self.asked("made-up-by-taskbridge-doctor").await?;
        match word.get("active") {
            Some(Value::Bool(false)) => Ok(()),
            _ => Err("it does not say of a made-up token that it is not active".to_owned()),
        }
    }

    /// Returns the bearer of a token that a client address presented.
    pub(super) async fn examine(
        &self,
        token: &[u8],
        from: Option<IpAddr>,
        reading: &ClaimRules,
        now: Timestamp,
    ) -> Result<Bearer, TokenRejection> {
        // The request is a form, which can only contain text.
        let text = str::from_utf8(token).map_err(|_| TokenRejection::Flawed(Flaw::Form))?;
        let digest: [u8; 32] = Sha256::digest(token).into();
        let read = |claims| reading.of_word(claims, now, self.asks.audience_implied);
        let (known, was_good, due) = {
            let (mut words, at) = (self.words.lock(), Instant::now());
            (words.of(&digest, at), words.was_good(&digest), words.is_due(&digest, at))
        };
        let said = match &known {
            Some(_) if !due => None,
            _ => self.introspect(text, was_good, from).await,
        };
        let Some(claims) = said else {
            // The cached response stays valid until it expires, even if a refresh fails.
            return known.ok_or(TokenRejection::Unknown)?.and_then(read).map_err(TokenRejection::Flawed);
        };
        let bearer = read(claims.clone());
        let at = Instant::now();
        match &bearer {
            Ok(bearer) => {
                let left = bearer.until.map_or(self.asks.keep, |until| until.since(now));
                self.words.lock().good(digest, claims, left.min(self.asks.keep), at);
            }
            Err(flaw) => self.words.lock().bad(digest, *flaw, at),
        }
        bearer.map_err(TokenRejection::Flawed)
    }

    /// Returns the issuer's response. `None` if no permit is free within [`PATIENCE`], or if there is no
    /// valid response. The log reports the first response that fails.
    async fn introspect(
        &self,
        token: &str,
        was_good: bool,
        from: Option<IpAddr>,
    ) -> Option<Map<String, Value>> {
        let Ok(Ok(_place)) = timeout(PATIENCE, self.place(was_good, from)).await else {
            // This is no failure of the issuer; a client that sends forged tokens can cause it.
            tracing::debug!("too many questions to an issuer are under way");
            return None;
        };
        let word = self.asked(token).await;
        let failed_before = self.failed.swap(word.is_err(), Ordering::Relaxed);
        match word {
            Ok(claims) => Some(claims),
            Err(why) => {
                if !failed_before {
                    let endpoint = self.asks.endpoint.host_str();
                    tracing::warn!(
                        endpoint,
                        why,
                        "tokens cannot be looked up; their bearers are told to come back"
                    );
                }
                None
            }
        }
    }

    /// Waits for a permit.
    async fn place(
        &self,
        was_good: bool,
        from: Option<IpAddr>,
    ) -> Result<IntrospectionPermit<'_>, AcquireError> {
        if was_good {
            let place = tokio::select! {
                place = self.places_of_known.acquire() => place?,
                place = self.places.acquire() => place?,
            };
            return Ok(IntrospectionPermit { _one: place, _of_address: None });
        }
        let of_address = self.places_of(from).acquire_owned().await?;
        Ok(IntrospectionPermit { _one: self.places.acquire().await?, _of_address: Some(of_address) })
    }

    /// Returns the permits of a client address.
    fn places_of(&self, from: Option<IpAddr>) -> Arc<Semaphore> {
        let from = from.map(of_one_user);
        let mut by_address = self.by_address.lock();
        if by_address.len() >= MANY_ADDRESSES {
            by_address.retain(|_, places| Arc::strong_count(places) > 1);
        }
        Arc::clone(by_address.entry(from).or_insert_with(|| Arc::new(Semaphore::new(PER_ADDRESS))))
    }

    async fn asked(&self, token: &str) -> Result<Map<String, Value>, String> {
        let form = format!("token={}&token_type_hint=access_token", form_encoded(token));
        let credentials = (self.asks.client.as_str(), self.asks.secret.as_str());
        let answer = self.line.ask(self.asks.endpoint.clone(), credentials, form).await;
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|_| "its answer is no JSON object".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::claims::Claim;
    use super::*;

    /// Results expire after their time, and invalid tokens do not evict valid ones.
    #[test]
    fn introspection_cache_is_bounded() {
        let (mut words, now) = (IntrospectionCache::default(), Instant::now());
        let (minute, later) = (Duration::from_secs(60), now + Duration::from_secs(60));
        let token = |n: usize| <[u8; 32]>::from(Sha256::digest(n.to_string()));
        words.good(token(0), Map::new(), minute, now);
        words.bad(token(1), Flaw::Inactive, now);
        assert_eq!(words.of(&token(0), now), Some(Ok(Map::new())));
        assert_eq!(words.of(&token(1), now), Some(Err(Flaw::Inactive)));
        assert_eq!(words.of(&token(2), now), None);
        assert_eq!(words.of(&token(0), later), None, "it has to be asked again");
        assert!(words.was_good(&token(0)) && !words.was_good(&token(1)) && !words.was_good(&token(2)));
        assert_eq!(words.of(&token(1), now + INACTIVE_KEPT), None);

        for n in 0..MOST_KEPT + 100 {
            words.bad(token(n + 10), Flaw::Inactive, now);
        }
        assert_eq!(words.bad.len(), MOST_KEPT);
        assert_eq!(words.of(&token(0), now), Some(Ok(Map::new())), "bad ones do not push good ones out");
        words.bad(token(0), Flaw::Inactive, now);
        assert_eq!(words.of(&token(0), now), Some(Err(Flaw::Inactive)), "the last word counts");
    }

    /// A result is renewed before it expires, by one request at a time.
    #[test]
    fn introspection_result_is_renewed_early() {
        let (mut words, start) = (IntrospectionCache::default(), Instant::now());
        let token = [7; 32];
        words.good(token, Map::new(), Duration::from_secs(60), start);
        for (after, due) in [(0, false), (44, false), (45, true), (46, false), (48, true), (60, false)] {
            assert_eq!(words.is_due(&token, start + Duration::from_secs(after)), due, "after {after} s");
        }
        assert!(!words.is_due(&[8; 32], start));
    }

    /// Creates an examiner whose endpoint is unreachable.
    fn examiner() -> Examiner {
        let asks = Introspection {
            endpoint: Url::parse("http://127.0.0.1:9").unwrap(),
            client: String::new(),
            secret: Zeroizing::default(),
            keep: Duration::ZERO,
            audience_implied: false,
            way: IssuerNetwork::default(),
        };
        Examiner::new(asks).unwrap()
    }

    /// A malformed token, or a caller at its limit, does not count as an outage of the issuer.
    #[tokio::test(start_paused = true)]
    async fn bad_token_does_not_blame_issuer() {
        let examiner = examiner();
        let reading = ClaimRules {
            issuer: "https://login.example".to_owned(),
            audiences: Vec::new(),
            leeway: Duration::ZERO,
            groups: Claim::new("groups"),
            tenant: None,
            name: Claim::new("name"),
            implied: BTreeMap::new(),
        };
        let from = Some("192.0.2.1".parse().unwrap());
        let examined = async |token: &[u8]| {
            let bearer = examiner.examine(token, from, &reading, Timestamp::from_millis(0)).await;
            (bearer.unwrap_err(), examiner.failed.load(Ordering::Relaxed))
        };
        assert_eq!(examined(b"\xff").await, (TokenRejection::Flawed(Flaw::Form), false));
        let all =
            examiner.places_of(from).acquire_many_owned(u32::try_from(PER_ADDRESS).unwrap()).await.unwrap();
        assert_eq!(examined(b"new").await, (TokenRejection::Unknown, false), "there is no place");
        drop(all);
    }

    /// All addresses of one IPv6 network count as one, and unused entries are dropped.
    #[test]
    fn ipv6_network_shares_introspection_limit() {
        let examiner = examiner();
        let of = |address: &str| examiner.places_of(Some(address.parse().unwrap()));
        let same = |one: &str, other: &str| Arc::ptr_eq(&of(one), &of(other));
        assert!(same("2001:db8::1", "2001:db8::ffff:1") && same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1") && !same("192.0.2.1", "192.0.2.2"));
        for n in 0..10_000_u32 {
            drop(examiner.places_of(Some(IpAddr::from(n.to_be_bytes()))));
        }
        assert!(examiner.by_address.lock().len() <= MANY_ADDRESSES, "those of nobody go");
    }
}
