//! [`Examiner`]: asks an issuer what a token is that only the issuer can read (RFC 7662), and keeps its word for a moment.
//! Tokens are kept as digests only. How many questions are under way is bounded, so that a flood of made-up tokens is not
//! passed on whole; what is not answered is not known, which is something else than wrong.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use super::claims::{Bearer, Reading};
use super::fetch::{Line, Way, form_encoded};
use super::flaw::Flaw;
use super::keyring::Refused;

/// Tokens that are known to be good, and as many that are known not to be.
const MOST_KEPT: usize = 10_000;

/// How long a token that is not active is known to be so.
const INACTIVE_KEPT: Duration = Duration::from_secs(10);

/// Questions under way at the same time.
const PLACES: usize = 16;

/// How long a question waits for a place.
const PATIENCE: Duration = Duration::from_secs(2);

/// How an issuer is asked about tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Introspection {
    /// Where.
    pub endpoint: Url,
    /// As whom this server asks.
    pub client: String,
    /// By what it shows that.
    pub secret: Zeroizing<String>,
    /// How long a good answer is kept, if the token lives so long.
    pub keep: Duration,
    /// True if it answers only for tokens that are meant for this server, and does not say so (`aud`) with each.
    pub audience_implied: bool,
    /// How it is reached.
    pub way: Way,
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Asks one issuer.
#[derive(Debug)]
pub(super) struct Examiner {
    asks: Introspection,
    line: Line,
    words: Mutex<Words>,
    places: Semaphore,
    failed: AtomicBool,
}

/// What was answered, by the digest of the token.
#[derive(Debug, Default)]
struct Words {
    good: HashMap<[u8; 32], (Map<String, Value>, Instant)>,
    bad: HashMap<[u8; 32], (Flaw, Instant)>,
}

impl Words {
    fn of(&self, token: &[u8; 32], now: Instant) -> Option<Result<Map<String, Value>, Flaw>> {
        match (self.good.get(token), self.bad.get(token)) {
            (Some((claims, until)), _) if now < *until => Some(Ok(claims.clone())),
            (_, Some((flaw, until))) if now < *until => Some(Err(*flaw)),
            _ => None,
        }
    }

    fn good(&mut self, token: [u8; 32], claims: Map<String, Value>, until: Instant, now: Instant) {
        self.bad.remove(&token);
        keep(&mut self.good, token, (claims, until), |(_, until)| now < *until);
    }

    fn bad(&mut self, token: [u8; 32], flaw: Flaw, now: Instant) {
        self.good.remove(&token);
        keep(&mut self.bad, token, (flaw, now + INACTIVE_KEPT), |(_, until)| now < *until);
    }
}

/// Keeps one more. Where there is no room, those that are over go, and else any: it will be asked for again.
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
        let line = Line::new(&asks.way, asks.endpoint.scheme() == "http")?;
        let places = Semaphore::new(PLACES);
        Ok(Self { asks, line, words: Mutex::default(), places, failed: AtomicBool::new(false) })
    }

    pub(super) fn asks(&self) -> &Introspection {
        &self.asks
    }

    /// Asks about a token that nobody has.
    pub(super) async fn look(&self) -> Result<(), String> {
        let word = self.asked(b"made-up-by-taskbridge-doctor").await?;
        match word.get("active") {
            Some(Value::Bool(false)) => Ok(()),
            _ => Err("it does not say of a made-up token that it is not active".to_owned()),
        }
    }

    /// Whom a token stands for.
    pub(super) async fn examine(
        &self,
        token: &[u8],
        reading: &Reading,
        now: Timestamp,
    ) -> Result<Bearer, Refused> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let read = |claims| reading.of_word(claims, now, self.asks.audience_implied);
        let known = self.words.lock().of(&digest, Instant::now());
        if let Some(word) = known {
            return word.and_then(read).map_err(Refused::Flawed);
        }
        let claims = self.word_on(token).await.ok_or(Refused::Unknown)?;
        let bearer = read(claims.clone());
        let at = Instant::now();
        match &bearer {
            Ok(bearer) => {
                let left = bearer.until.map_or(self.asks.keep, |until| until.since(now));
                self.words.lock().good(digest, claims, at + left.min(self.asks.keep), at);
            }
            Err(flaw) => self.words.lock().bad(digest, *flaw, at),
        }
        bearer.map_err(Refused::Flawed)
    }

    /// What the issuer says. `None` if it says nothing that can be understood; the log says why, once.
    async fn word_on(&self, token: &[u8]) -> Option<Map<String, Value>> {
        let word = match timeout(PATIENCE, self.places.acquire()).await {
            Ok(Ok(_place)) => self.asked(token).await,
            _ => Err("too many questions to it are under way".to_owned()),
        };
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

    async fn asked(&self, token: &[u8]) -> Result<Map<String, Value>, String> {
        let token = str::from_utf8(token).map_err(|_| "a token is no text".to_owned())?;
        let form = format!("token={}&token_type_hint=access_token", form_encoded(token));
        let credentials = (self.asks.client.as_str(), self.asks.secret.as_str());
        let answer = self.line.ask(self.asks.endpoint.clone(), credentials, form).await;
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|_| "its answer is no JSON object".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_for_a_while_and_never_too_many() {
        let (mut words, now) = (Words::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        let token = |n: usize| <[u8; 32]>::from(Sha256::digest(n.to_string()));
        words.good(token(0), Map::new(), later, now);
        words.bad(token(1), Flaw::Inactive, now);
        assert_eq!(words.of(&token(0), now), Some(Ok(Map::new())));
        assert_eq!(words.of(&token(1), now), Some(Err(Flaw::Inactive)));
        assert_eq!(words.of(&token(2), now), None);
        assert_eq!(words.of(&token(0), later), None, "it has to be asked again");
        assert_eq!(words.of(&token(1), now + INACTIVE_KEPT), None);

        for n in 0..MOST_KEPT + 100 {
            words.bad(token(n + 10), Flaw::Inactive, now);
        }
        assert_eq!(words.bad.len(), MOST_KEPT);
        assert_eq!(words.of(&token(0), now), Some(Ok(Map::new())), "bad ones do not push good ones out");
        words.bad(token(0), Flaw::Inactive, now);
        assert_eq!(words.of(&token(0), now), Some(Err(Flaw::Inactive)), "the last word counts");
    }
}
