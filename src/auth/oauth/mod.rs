//! [`OAuth`]: authentication by access tokens of configured issuers (RFC 6750): signed ones (JWT), and opaque
//! ones by introspection. Only the config determines which keys and issuers are trusted; a token cannot add
//! any. This module must not know what a token is used for, and sends no token anywhere but an opaque one to
//! the issuer with introspection.

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
pub use claims::{Bearer, Claim, ClaimRules};
pub use fetch::{IssuerNetwork, is_safe};
pub use flaw::Flaw;
pub use introspection::Introspection;
pub use jwks::KeySet;
pub use keyring::Source;
pub use resource::{Resource, WELL_KNOWN};

use super::{CallerCredential, CredentialKind, Identity, Principal, Unauthorized};
use crate::clock::Clock;
use introspection::Examiner;
use jwt::Jwt;
use keyring::{Keyring, TokenRejection};

/// Maximum size of a token, in bytes.
const LARGEST: usize = 16 * 1024;

/// Maximum time that one verification of a token is valid, whatever its expiry. An issuer may revoke the
/// token, and an attacker with a stolen key chooses the expiry. Afterwards the client of a long-lived stream
/// must present the token again.
const HOLDS: Duration = Duration::from_secs(15 * 60);

/// A trusted issuer of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// The source of its keys.
    pub source: Source,
    /// Accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// True if tokens must be marked as access tokens (RFC 9068).
    pub require_at_jwt: bool,
    /// How its tokens are interpreted.
    pub reading: ClaimRules,
    /// Introspection settings for opaque tokens.
    pub introspection: Option<Introspection>,
}

/// Authenticates callers by access tokens.
#[derive(Clone)]
pub struct OAuth {
    resource: Resource,
    required: Vec<String>,
    issuers: Vec<Issuer>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
struct Issuer {
    trusted: TrustedIssuer,
    keyring: Arc<Keyring>,
    examiner: Option<Arc<Examiner>>,
}

/// The signature data of the token that authenticated a caller.
#[derive(PartialEq, Eq)]
pub(super) struct Signed {
    key: PublicKey,
    algorithm: Algorithm,
    /// True if the token was marked as an access token.
    says_access: bool,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.issuers()).finish()
    }
}

impl OAuth {
    /// Accepts tokens of these issuers that have all required scopes. Nothing is fetched yet.
    ///
    /// # Errors
    /// If the network settings of an issuer are invalid.
    pub fn new(
        resource: Resource,
        required: Vec<String>,
        issuers: impl IntoIterator<Item = TrustedIssuer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let issuers = issuers.into_iter().map(Issuer::new).collect::<Result<_, _>>()?;
        Ok(Self { resource, required, issuers, clock })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the protected resource that this server represents.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the scopes that every token needs.
    pub fn required(&self) -> &[String] {
        &self.required
    }

    /// Returns the issuers, as their tokens name them.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| issuer.trusted.reading.issuer.as_str())
    }

    /// Returns the principal of a token that a client address presented.
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
            None => self.introspect(token, from, now).await.map(|bearer| (bearer, CredentialKind::Word)),
        };
        let (bearer, by) = known.map_err(|refused| match refused {
            TokenRejection::Flawed(flaw) => Unauthorized::Token(flaw),
            TokenRejection::Unknown => Unauthorized::Unavailable,
        })?;
        self.admit(bearer, by, now)
    }

    /// Returns true if these rules would admit the caller again by the same token, with the same identity.
    pub(super) fn still_admits(&self, principal: &Principal) -> bool {
        let last = principal.pass.until.map(|until| until - Duration::from_millis(1));
        let now = self.now().min(last.unwrap_or(Timestamp::from_millis(i64::MAX)));
        let of = |issuer: &&Issuer| principal.who.issuer.as_ref() == Some(&issuer.trusted.reading.issuer);
        let Some(issuer) = self.issuers.iter().find(of) else { return false };
        let (reading, claims) = (&issuer.trusted.reading, principal.who.claims.clone());
        let bearer = match (&principal.pass.by, &issuer.trusted.introspection) {
            (CredentialKind::Token(signed), _) if issuer.takes(signed) => reading.of_token(claims, now),
            (CredentialKind::Word, Some(asks)) => reading.of_word(claims, now, asks.audience_implied),
            _ => return false,
        };
        bearer.is_ok_and(|bearer| {
            (&bearer.owner, &bearer.who) == (&principal.owner, &*principal.who)
                && self.lacking(&bearer.who).is_empty()
        })
    }

    /// Takes over cached data of issuers whose connection settings are unchanged.
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

    async fn signed(
        &self,
        token: &Jwt<'_>,
        now: Timestamp,
    ) -> Result<(Bearer, CredentialKind), TokenRejection> {
        let by = |issuer: &&Issuer| token.issuer() == Some(&issuer.trusted.reading.issuer);
        let issuer = self.issuers.iter().find(by).ok_or(TokenRejection::Flawed(Flaw::Issuer))?;
        if !issuer.trusted.algorithms.contains(&token.algorithm) {
            return Err(TokenRejection::Flawed(Flaw::Algorithm));
        }
        if issuer.trusted.require_at_jwt && !token.says_access {
            return Err(TokenRejection::Flawed(Flaw::Type));
        }
        let key = issuer.keyring.check(token).await?;
        let bearer =
            issuer.trusted.reading.of_token(token.claims.clone(), now).map_err(TokenRejection::Flawed)?;
        Ok((
            bearer,
            CredentialKind::Token(Arc::new(Signed {
                key,
                algorithm: token.algorithm,
                says_access: token.says_access,
            })),
        ))
    }

    /// Reads an opaque token by introspection. The config enables it for at most one issuer, so that tokens
    /// are not offered to several.
    async fn introspect(
        &self,
        token: &[u8],
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Bearer, TokenRejection> {
        let asked = self.issuers.iter().find_map(|issuer| Some((issuer, issuer.examiner.as_ref()?)));
        let (issuer, examiner) = asked.ok_or(TokenRejection::Flawed(Flaw::Opaque))?;
        examiner.examine(token, from, &issuer.trusted.reading, now).await
    }

    fn admit(&self, bearer: Bearer, by: CredentialKind, now: Timestamp) -> Result<Principal, Unauthorized> {
        let lacking = self.lacking(&bearer.who);
        if !lacking.is_empty() {
            return Err(Unauthorized::Scope(self.required.clone()));
        }
        let until = bearer.until.into_iter().chain([now + HOLDS]).min();
        let pass = CallerCredential { by, until };
        Ok(Principal { owner: bearer.owner, identified: true, pass, who: Arc::new(bearer.who), from: None })
    }

    /// Returns the required scopes that an identity lacks.
    fn lacking(&self, who: &Identity) -> Vec<&str> {
        self.required.iter().map(String::as_str).filter(|scope| !who.scopes.contains(*scope)).collect()
    }
}

/// The results of testing an issuer without a real token.
#[derive(Clone, Debug)]
pub struct IssuerCheck {
    /// Number of usable keys, or why there are none.
    pub keys: Result<usize, String>,
    /// Whether introspection works, if it is configured.
    pub introspection: Option<Result<(), String>>,
}

/// Tests whether an issuer can be used.
///
/// # Errors
/// If its network settings are invalid.
pub async fn check_issuer(trusted: TrustedIssuer) -> Result<IssuerCheck, String> {
    let Issuer { keyring, examiner, .. } = Issuer::new(trusted)?;
    let introspection = match &examiner {
        None => None,
        Some(examiner) => Some(examiner.check_endpoint().await),
    };
    Ok(IssuerCheck { keys: keyring.look().await, introspection })
}

impl Issuer {
    fn new(trusted: TrustedIssuer) -> Result<Self, String> {
        let named = |why| format!("issuer {}: {why}", trusted.reading.issuer);
        let keyring = Keyring::new(trusted.source.clone()).map_err(named)?;
        let examiner = trusted.introspection.clone().map(Examiner::new).transpose().map_err(named)?;
        Ok(Self { keyring, examiner: examiner.map(Arc::new), trusted })
    }

    /// Returns true if this issuer still accepts tokens with this signature data.
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

    /// A principal is admitted for at most `HOLDS`, whatever expiry a token has.
    #[test]
    fn admission_time_is_capped() {
        let resource = Resource::new("https://bridge.example/mcp", None, Vec::new()).unwrap();
        let oauth = OAuth::new(resource, Vec::new(), [], System::clock()).unwrap();
        let now = oauth.now();
        let signed =
            Signed { key: PublicKey::Ed25519(Vec::new()), algorithm: Algorithm::EdDsa, says_access: true };
        let by = CredentialKind::Token(Arc::new(signed));
        for (end, expected) in [
            (Some(now + Duration::from_secs(60)), now + Duration::from_secs(60)),
            (Some(now + Duration::from_secs(1_000_000_000)), now + HOLDS),
            (None, now + HOLDS),
        ] {
            for by in [by.clone(), CredentialKind::Word] {
                let bearer = Bearer { owner: Owner::new("x"), who: Identity::default(), until: end };
                assert_eq!(oauth.admit(bearer, by, now).unwrap().pass.until, Some(expected));
            }
        }
    }
}
