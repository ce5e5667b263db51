//! [`OAuth`]: access tokens of issuers that the config names (RFC 6750), signed ones (JWT) and those that only their
//! issuer can read. Which keys and which words are believed is said in the config alone, and nothing in a token adds to
//! it. It must not know what is asked with a token, and hands none on to anybody but its issuer.

mod algorithm;
mod claims;
mod discovery;
mod fetch;
mod flaw;
mod introspection;
mod jwks;
mod jwt;
mod keyring;
mod resource;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

pub use algorithm::Algorithm;
use algorithm::PublicKey;
pub use claims::{Bearer, Claim, Reading};
pub use fetch::{Way, is_safe};
pub use flaw::Flaw;
pub use introspection::Introspection;
pub use jwks::KeySet;
pub use keyring::Source;
pub use resource::{Resource, WELL_KNOWN};

use super::{By, Identity, Pass, Principal, Unauthorized};
use crate::clock::Clock;
use introspection::Examiner;
use jwt::Jwt;
use keyring::{Keyring, Refused};

/// The largest token, in bytes.
const LARGEST: usize = 16 * 1024;

/// The longest that somebody is let in for by one look at a token, whatever end it names: an issuer may take back its word,
/// and whoever stole a key names the end that they like. Who only listens shows the token again after that.
const HOLDS: Duration = Duration::from_secs(15 * 60);

/// An issuer, as the config has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// Where its keys come from.
    pub source: Source,
    /// What its tokens may be signed by.
    pub algorithms: Vec<Algorithm>,
    /// True if they must say that they are access tokens (RFC 9068).
    pub require_at_jwt: bool,
    /// What they are read by.
    pub reading: Reading,
    /// How it is asked about tokens that only it can read.
    pub introspection: Option<Introspection>,
}

/// Who is let in by access tokens.
#[derive(Clone)]
pub struct OAuth {
    resource: Resource,
    required: Vec<String>,
    issuers: Vec<Issuer>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
struct Issuer {
    trusted: Trusted,
    keyring: Arc<Keyring>,
    examiner: Option<Arc<Examiner>>,
}

/// How the token was signed that somebody was let in by.
#[derive(PartialEq, Eq)]
pub(super) struct Signed {
    key: PublicKey,
    algorithm: Algorithm,
    /// True if it said that it is an access token.
    says_access: bool,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.issuers()).finish()
    }
}

impl OAuth {
    /// Lets in whoever has a token of one of these with all of the required scopes. Nothing is fetched yet.
    ///
    /// # Errors
    /// If an issuer cannot be reached for what the config says of the way there.
    pub fn new(
        resource: Resource,
        required: Vec<String>,
        issuers: impl IntoIterator<Item = Trusted>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let issuers = issuers.into_iter().map(Issuer::new).collect::<Result<_, _>>()?;
        Ok(Self { resource, required, issuers, clock })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What this server is to clients.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The scopes that every token needs.
    pub fn required(&self) -> &[String] {
        &self.required
    }

    /// The issuers, as their tokens name them.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| issuer.trusted.reading.issuer.as_str())
    }

    /// Whose token this is, that was shown from an address.
    pub(super) async fn principal(
        &self,
        token: &[u8],
        from: Option<IpAddr>,
    ) -> Result<Principal, Unauthorized> {
        let now = self.now();
        if token.len() > LARGEST {
            return Err(Unauthorized::Token(Flaw::Size));
        }
        let known = match Jwt::parse(token) {
            Some(jwt) => self.signed(&jwt.map_err(Unauthorized::Token)?, now).await,
            None => self.told(token, from, now).await.map(|bearer| (bearer, By::Word)),
        };
        let (bearer, by) = known.map_err(|refused| match refused {
            Refused::Flawed(flaw) => Unauthorized::Token(flaw),
            Refused::Unknown => Unauthorized::Unavailable,
        })?;
        self.admit(bearer, by, now)
    }

    /// True if what was let in by a token would have been let in by these rules as well, and been the same.
    pub(super) fn still_knows(&self, principal: &Principal) -> bool {
        let last = principal.pass.until.map(|until| until - Duration::from_millis(1));
        let now = self.now().min(last.unwrap_or(Timestamp::from_millis(i64::MAX)));
        let of = |issuer: &&Issuer| principal.who.issuer.as_ref() == Some(&issuer.trusted.reading.issuer);
        let Some(issuer) = self.issuers.iter().find(of) else { return false };
        let (reading, claims) = (&issuer.trusted.reading, principal.who.claims.clone());
        let bearer = match (&principal.pass.by, &issuer.trusted.introspection) {
            (By::Token(signed), _) if issuer.takes(signed) => reading.of_token(claims, now),
            (By::Word, Some(asks)) => reading.of_word(claims, now, asks.audience_implied),
            _ => return false,
        };
        bearer.is_ok_and(|bearer| {
            (&bearer.owner, &bearer.who) == (&principal.owner, &*principal.who)
                && self.lacking(&bearer.who).is_empty()
        })
    }

    /// Takes over what is known of issuers that are reached as before.
    pub(super) fn inherit(&mut self, old: &OAuth) {
        for issuer in &mut self.issuers {
            for known in &old.issuers {
                if known.keyring.source() == issuer.keyring.source() {
                    issuer.keyring = Arc::clone(&known.keyring);
                }
                if let (Some(mine), Some(theirs)) = (&mut issuer.examiner, &known.examiner)
                    && mine.asks() == theirs.asks()
                    && known.trusted.reading.issuer == issuer.trusted.reading.issuer
                {
                    *mine = Arc::clone(theirs);
                }
            }
        }
    }

    async fn signed(&self, token: &Jwt<'_>, now: Timestamp) -> Result<(Bearer, By), Refused> {
        let by = |issuer: &&Issuer| token.issuer() == Some(&issuer.trusted.reading.issuer);
        let issuer = self.issuers.iter().find(by).ok_or(Refused::Flawed(Flaw::Issuer))?;
        if !issuer.trusted.algorithms.contains(&token.algorithm) {
            return Err(Refused::Flawed(Flaw::Algorithm));
        }
        if issuer.trusted.require_at_jwt && !token.says_access {
            return Err(Refused::Flawed(Flaw::Type));
        }
        let key = issuer.keyring.check(token).await?;
        let bearer = issuer.trusted.reading.of_token(token.claims.clone(), now).map_err(Refused::Flawed)?;
        Ok((
            bearer,
            By::Token(Arc::new(Signed { key, algorithm: token.algorithm, says_access: token.says_access })),
        ))
    }

    /// By the word of the issuer that is asked. There is one at most, so that no issuer sees the tokens of another.
    async fn told(&self, token: &[u8], from: Option<IpAddr>, now: Timestamp) -> Result<Bearer, Refused> {
        let asked = self.issuers.iter().find_map(|issuer| Some((issuer, issuer.examiner.as_ref()?)));
        let (issuer, examiner) = asked.ok_or(Refused::Flawed(Flaw::Opaque))?;
        examiner.examine(token, from, &issuer.trusted.reading, now).await
    }

    fn admit(&self, bearer: Bearer, by: By, now: Timestamp) -> Result<Principal, Unauthorized> {
        let lacking = self.lacking(&bearer.who);
        if !lacking.is_empty() {
            return Err(Unauthorized::Scope(self.required.clone()));
        }
        let until = bearer.until.into_iter().chain([now + HOLDS]).min();
        let pass = Pass { by, until };
        Ok(Principal { owner: bearer.owner, identified: true, pass, who: Arc::new(bearer.who), from: None })
    }

    /// The required scopes that somebody does not have.
    fn lacking(&self, who: &Identity) -> Vec<&str> {
        self.required.iter().map(String::as_str).filter(|scope| !who.scopes.contains(*scope)).collect()
    }
}

/// What an issuer answers, asked without any token of anybody.
#[derive(Clone, Debug)]
pub struct Look {
    /// How many of its keys tokens can be checked by, or why it shows none.
    pub keys: Result<usize, String>,
    /// Whether it can be asked about tokens, if it should be.
    pub introspection: Option<Result<(), String>>,
}

/// Looks whether an issuer can be used.
///
/// # Errors
/// If it cannot be reached for what the config says of the way there.
pub async fn look(trusted: Trusted) -> Result<Look, String> {
    let Issuer { keyring, examiner, .. } = Issuer::new(trusted)?;
    let introspection = match &examiner {
        None => None,
        Some(examiner) => Some(examiner.look().await),
    };
    Ok(Look { keys: keyring.look().await, introspection })
}

impl Issuer {
    fn new(trusted: Trusted) -> Result<Self, String> {
        let named = |why| format!("issuer {}: {why}", trusted.reading.issuer);
        let keyring = Keyring::new(trusted.source.clone()).map_err(named)?;
        let examiner = trusted.introspection.clone().map(Examiner::new).transpose().map_err(named)?;
        Ok(Self { keyring, examiner: examiner.map(Arc::new), trusted })
    }

    /// True if tokens that are signed like this are good here now.
    fn takes(&self, Signed { key, algorithm, says_access }: &Signed) -> bool {
        self.trusted.algorithms.contains(algorithm)
            && (*says_access || !self.trusted.require_at_jwt)
            && self.keyring.has(key, *algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;
    use crate::tasks::task::Owner;

    #[test]
    fn nobody_is_let_in_for_longer_than_a_while_whatever_end_a_token_names() {
        let resource = Resource::new("https://bridge.example/mcp", None, Vec::new()).unwrap();
        let oauth = OAuth::new(resource, Vec::new(), [], System::clock()).unwrap();
        let now = oauth.now();
        let signed =
            Signed { key: PublicKey::Ed25519(Vec::new()), algorithm: Algorithm::EdDsa, says_access: true };
        let by = By::Token(Arc::new(signed));
        for (end, expected) in [
            (Some(now + Duration::from_secs(60)), now + Duration::from_secs(60)),
            (Some(now + Duration::from_secs(1_000_000_000)), now + HOLDS),
            (None, now + HOLDS),
        ] {
            for by in [by.clone(), By::Word] {
                let bearer = Bearer { owner: Owner::new("x"), who: Identity::default(), until: end };
                assert_eq!(oauth.admit(bearer, by, now).unwrap().pass.until, Some(expected));
            }
        }
    }
}
