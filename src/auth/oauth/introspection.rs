//! [`Introspector`]: token introspection at an issuer (RFC 7662), with a cache.
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
use super::keyring::TokenRejection;
use super::token_error::TokenError;
use crate::auth::client_limit_key;

/// Maximum number of cached valid tokens, and of cached invalid ones.
const MAX_CACHED: usize = 10_000;

/// Cache lifetime of an invalid token.
const INACTIVE_TTL: Duration = Duration::from_secs(10);

/// Maximum number of concurrent requests, without those of [`MAX_REQUESTS_FOR_KNOWN`].
const MAX_REQUESTS: usize = 12;

/// Maximum number of those for unknown tokens of one client address.
const MAX_REQUESTS_PER_ADDRESS: usize = 4;

/// Additional concurrent requests for tokens that were valid before.
const MAX_REQUESTS_FOR_KNOWN: usize = 4;

/// Number of tracked addresses above which those without a request are removed.
const ADDRESS_CLEANUP_SIZE: usize = 1_000;

/// How long a request waits for a permit. Also the interval between attempts to refresh an entry.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

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
    pub cache_ttl: Duration,
    /// True if the issuer answers only for tokens for this server, and its responses may lack `aud`.
    pub audience_implied: bool,
    /// Network settings.
    pub network: IssuerNetwork,
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Introspects tokens at one issuer.
#[derive(Debug)]
pub(super) struct Introspector {
    settings: Introspection,
    client: IssuerClient,
    cache: Mutex<IntrospectionCache>,
    permits: Semaphore,
    known_permits: Semaphore,
    permits_by_address: Mutex<HashMap<Option<IpAddr>, Arc<Semaphore>>>,
    last_failed: AtomicBool,
}

/// A permit for one request.
struct IntrospectionPermit<'a> {
    _permit: SemaphorePermit<'a>,
    _address_permit: Option<OwnedSemaphorePermit>,
}

/// Cached responses by the digest of the token.
#[derive(Debug, Default)]
struct IntrospectionCache {
    valid: HashMap<[u8; 32], ValidToken>,
    invalid: HashMap<[u8; 32], (TokenError, Instant)>,
}

/// A valid token. The entry stays after it expires until the cache is full, so that the token counts as
/// previously valid.
#[derive(Debug)]
struct ValidToken {
    claims: Map<String, Value>,
    /// Time from which the entry is refreshed.
    refresh_at: Instant,
    expires_at: Instant,
}

impl IntrospectionCache {
    fn get(&self, token: &[u8; 32], now: Instant) -> Option<Result<Map<String, Value>, TokenError>> {
        match (self.valid.get(token), self.invalid.get(token)) {
            (Some(entry), _) if now < entry.expires_at => Some(Ok(entry.claims.clone())),
            (_, Some((error, expires_at))) if now < *expires_at => Some(Err(*error)),
            _ => None,
        }
    }

    /// Returns true if the last lookup found the token valid, and its entry is still in the cache.
    fn was_valid(&self, token: &[u8; 32]) -> bool {
        self.valid.contains_key(token)
    }

    /// Returns true if the caller should refresh an entry before it expires. Only one request gets true, and
    /// the next one only after [`PERMIT_TIMEOUT`].
    fn claim_refresh(&mut self, token: &[u8; 32], now: Instant) -> bool {
        let entry = self
            .valid
            .get_mut(token)
            .filter(|valid_token| valid_token.refresh_at <= now && now < valid_token.expires_at);
        entry.map(|valid_token| valid_token.refresh_at = now + PERMIT_TIMEOUT).is_some()
    }

    fn insert_valid(&mut self, token: [u8; 32], claims: Map<String, Value>, ttl: Duration, now: Instant) {
        self.invalid.remove(&token);
        let entry = ValidToken { claims, refresh_at: now + ttl * 3 / 4, expires_at: now + ttl };
        insert_bounded(&mut self.valid, token, entry, |entry| now < entry.expires_at);
    }

    fn insert_invalid(&mut self, token: [u8; 32], error: TokenError, now: Instant) {
        self.valid.remove(&token);
        insert_bounded(&mut self.invalid, token, (error, now + INACTIVE_TTL), |(_, expires_at)| {
            now < *expires_at
        });
    }
}

/// Adds an entry to a cache. A full cache drops expired entries, or else any other entry, which costs another
/// request.
fn insert_bounded<T>(
    map: &mut HashMap<[u8; 32], T>,
    token: [u8; 32],
    entry: T,
    is_current: impl Fn(&T) -> bool,
) {
    if map.len() >= MAX_CACHED && !map.contains_key(&token) {
        map.retain(|_, entry| is_current(entry));
    }
    if map.len() >= MAX_CACHED
        && let Some(evicted) = map.keys().next().copied()
    {
        map.remove(&evicted);
    }
    map.insert(token, entry);
}

impl Introspector {
    pub(super) fn new(settings: Introspection) -> Result<Self, String> {
        let client = IssuerClient::new(&settings.network, settings.endpoint.scheme() == "http")?;
        let (permits, known_permits) = (Semaphore::new(MAX_REQUESTS), Semaphore::new(MAX_REQUESTS_FOR_KNOWN));
        let (cache, permits_by_address, last_failed) = Default::default();
        Ok(Self { settings, client, cache, permits, known_permits, permits_by_address, last_failed })
    }

    pub(super) fn settings(&self) -> &Introspection {
        &self.settings
    }

    /// Tests the endpoint with a token that does not exist.
    pub(super) async fn check_endpoint(&self) -> Result<(), String> {
        let response = self.send_request("made-up-by-taskbridge-doctor").await?;
        match response.get("active") {
            Some(Value::Bool(false)) => Ok(()),
            _ => Err("the endpoint does not report an invalid token as inactive".to_owned()),
        }
    }

    /// Returns the bearer of a token that a client address presented.
    pub(super) async fn authenticate(
        &self,
        token: &[u8],
        client_address: Option<IpAddr>,
        claim_rules: &ClaimRules,
        now: Timestamp,
    ) -> Result<Bearer, TokenRejection> {
        // The request is a form, which can only contain text.
        let text = str::from_utf8(token).map_err(|_| TokenRejection::Invalid(TokenError::Malformed))?;
        let digest: [u8; 32] = Sha256::digest(token).into();
        let read_claims =
            |claims| claim_rules.read_introspection(claims, now, self.settings.audience_implied);
        let (cached, was_valid, refresh) = {
            let (mut cache, at) = (self.cache.lock(), Instant::now());
            (cache.get(&digest, at), cache.was_valid(&digest), cache.claim_refresh(&digest, at))
        };
        let response = match &cached {
            Some(_) if !refresh => None,
            _ => self.introspect(text, was_valid, client_address).await,
        };
        let Some(claims) = response else {
            // The cached response stays valid until it expires, even if a refresh fails.
            return cached
                .ok_or(TokenRejection::Unavailable)?
                .and_then(read_claims)
                .map_err(TokenRejection::Invalid);
        };
        let bearer = read_claims(claims.clone());
        let at = Instant::now();
        match &bearer {
            Ok(bearer) => {
                let remaining =
                    bearer.expires_at.map_or(self.settings.cache_ttl, |expires_at| expires_at.since(now));
                self.cache.lock().insert_valid(digest, claims, remaining.min(self.settings.cache_ttl), at);
            }
            Err(error) => self.cache.lock().insert_invalid(digest, *error, at),
        }
        bearer.map_err(TokenRejection::Invalid)
    }

    /// Returns the issuer's response. `None` if no permit is free within [`PERMIT_TIMEOUT`], or if there is
    /// no valid response. The log reports the first response that fails.
    async fn introspect(
        &self,
        token: &str,
        was_valid: bool,
        client_address: Option<IpAddr>,
    ) -> Option<Map<String, Value>> {
        let Ok(Ok(_permit)) = timeout(PERMIT_TIMEOUT, self.acquire_permit(was_valid, client_address)).await
        else {
            // This is no failure of the issuer; a client that sends forged tokens can cause it.
            tracing::debug!("too many concurrent requests to an issuer");
            return None;
        };
        let result = self.send_request(token).await;
        let failed_before = self.last_failed.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(claims) => Some(claims),
            Err(why) => {
                if !failed_before {
                    let endpoint = self.settings.endpoint.host_str();
                    tracing::warn!(
                        endpoint,
                        why,
                        "tokens cannot be introspected; their requests are refused with status 503"
                    );
                }
                None
            }
        }
    }

    /// Waits for a permit.
    async fn acquire_permit(
        &self,
        was_valid: bool,
        client_address: Option<IpAddr>,
    ) -> Result<IntrospectionPermit<'_>, AcquireError> {
        if was_valid {
            let permit = tokio::select! {
                permit = self.known_permits.acquire() => permit?,
                permit = self.permits.acquire() => permit?,
            };
            return Ok(IntrospectionPermit { _permit: permit, _address_permit: None });
        }
        let address_permit = self.address_permits(client_address).acquire_owned().await?;
        Ok(IntrospectionPermit {
            _permit: self.permits.acquire().await?,
            _address_permit: Some(address_permit),
        })
    }

    /// Returns the permits of a client address.
    fn address_permits(&self, client_address: Option<IpAddr>) -> Arc<Semaphore> {
        let client_address = client_address.map(client_limit_key);
        let mut permits_by_address = self.permits_by_address.lock();
        if permits_by_address.len() >= ADDRESS_CLEANUP_SIZE {
            permits_by_address.retain(|_, permits| Arc::strong_count(permits) > 1);
        }
        Arc::clone(
            permits_by_address
                .entry(client_address)
                .or_insert_with(|| Arc::new(Semaphore::new(MAX_REQUESTS_PER_ADDRESS))),
        )
    }

    async fn send_request(&self, token: &str) -> Result<Map<String, Value>, String> {
        let form = format!("token={}&token_type_hint=access_token", form_encoded(token));
        let credentials = (self.settings.client.as_str(), self.settings.secret.as_str());
        let response = self.client.post_form(self.settings.endpoint.clone(), Some(credentials), form).await;
        let response = response.map_err(|error| error.to_string())?;
        serde_json::from_slice(&response).map_err(|_| "the response is not a JSON object".to_owned())
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
        let (mut cache, now) = (IntrospectionCache::default(), Instant::now());
        let (minute, later) = (Duration::from_secs(60), now + Duration::from_secs(60));
        let token = |n: usize| <[u8; 32]>::from(Sha256::digest(n.to_string()));
        cache.insert_valid(token(0), Map::new(), minute, now);
        cache.insert_invalid(token(1), TokenError::Inactive, now);
        assert_eq!(cache.get(&token(0), now), Some(Ok(Map::new())));
        assert_eq!(cache.get(&token(1), now), Some(Err(TokenError::Inactive)));
        assert_eq!(cache.get(&token(2), now), None);
        assert_eq!(cache.get(&token(0), later), None, "the entry has expired");
        assert!(cache.was_valid(&token(0)) && !cache.was_valid(&token(1)) && !cache.was_valid(&token(2)));
        assert_eq!(cache.get(&token(1), now + INACTIVE_TTL), None);

        for n in 0..MAX_CACHED + 100 {
            cache.insert_invalid(token(n + 10), TokenError::Inactive, now);
        }
        assert_eq!(cache.invalid.len(), MAX_CACHED);
        assert_eq!(cache.get(&token(0), now), Some(Ok(Map::new())), "invalid tokens evict no valid ones");
        cache.insert_invalid(token(0), TokenError::Inactive, now);
        assert_eq!(cache.get(&token(0), now), Some(Err(TokenError::Inactive)), "the latest response counts");
    }

    /// A result is renewed before it expires, by one request at a time.
    #[test]
    fn introspection_result_is_renewed_early() {
        let (mut cache, start) = (IntrospectionCache::default(), Instant::now());
        let token = [7; 32];
        cache.insert_valid(token, Map::new(), Duration::from_secs(60), start);
        for (after, expected) in [(0, false), (44, false), (45, true), (46, false), (48, true), (60, false)] {
            assert_eq!(
                cache.claim_refresh(&token, start + Duration::from_secs(after)),
                expected,
                "after {after} s"
            );
        }
        assert!(!cache.claim_refresh(&[8; 32], start));
    }

    /// Creates an examiner whose endpoint is unreachable.
    fn introspector() -> Introspector {
        let settings = Introspection {
            endpoint: Url::parse("http://127.0.0.1:9").unwrap(),
            client: String::new(),
            secret: Zeroizing::default(),
            cache_ttl: Duration::ZERO,
            audience_implied: false,
            network: IssuerNetwork::default(),
        };
        Introspector::new(settings).unwrap()
    }

    /// A malformed token, or a caller at its limit, does not count as an outage of the issuer.
    #[tokio::test(start_paused = true)]
    async fn bad_token_does_not_blame_issuer() {
        let examiner = introspector();
        let claim_rules = ClaimRules {
            issuer: "https://login.example".to_owned(),
            audiences: Vec::new(),
            leeway: Duration::ZERO,
            groups: Claim::new("groups"),
            tenant: None,
            name: Claim::new("name"),
            implied: BTreeMap::new(),
        };
        let client_address = Some("192.0.2.1".parse().unwrap());
        let authenticate = async |token: &[u8]| {
            let bearer =
                examiner.authenticate(token, client_address, &claim_rules, Timestamp::from_millis(0)).await;
            (bearer.unwrap_err(), examiner.last_failed.load(Ordering::Relaxed))
        };
        assert_eq!(authenticate(b"\xff").await, (TokenRejection::Invalid(TokenError::Malformed), false));
        let permits = examiner
            .address_permits(client_address)
            .acquire_many_owned(u32::try_from(MAX_REQUESTS_PER_ADDRESS).unwrap())
            .await
            .unwrap();
        assert_eq!(authenticate(b"new").await, (TokenRejection::Unavailable, false), "no permit is free");
        drop(permits);
    }

    /// All addresses of one IPv6 network count as one, and unused entries are dropped.
    #[test]
    fn ipv6_network_shares_introspection_limit() {
        let examiner = introspector();
        let permits = |address: &str| examiner.address_permits(Some(address.parse().unwrap()));
        let same = |one: &str, other: &str| Arc::ptr_eq(&permits(one), &permits(other));
        assert!(same("2001:db8::1", "2001:db8::ffff:1") && same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1") && !same("192.0.2.1", "192.0.2.2"));
        for n in 0..10_000_u32 {
            drop(examiner.address_permits(Some(IpAddr::from(n.to_be_bytes()))));
        }
        assert!(
            examiner.permits_by_address.lock().len() <= ADDRESS_CLEANUP_SIZE,
            "unused entries are removed"
        );
    }
}
