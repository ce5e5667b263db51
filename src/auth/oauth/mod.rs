//! [`OAuth`]: authentication by access tokens of configured issuers (RFC 6750): signed ones (JWT), and opaque
//! ones by introspection. Only the config determines which keys and issuers are trusted; a token cannot add
//! any. This module must not know what a token is used for, and sends no token anywhere but an opaque one to
//! the issuer with introspection.

mod algorithm;
mod claims;
mod code_flow;
mod discovery;
mod fetch;
mod id_token;
mod introspection;
mod jwks;
mod jwt;
mod keyring;
mod resource;
mod token_error;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_sdk::Timestamp;

pub use algorithm::Algorithm;
use algorithm::PublicKey;
pub use claims::{Bearer, Claim, ClaimRules};
pub use code_flow::{CodeFlowError, PendingSignIn, Returned, SignInClient};
pub use fetch::{IssuerNetwork, is_safe};
pub use introspection::Introspection;
pub use jwks::KeySet;
pub use keyring::KeySource;
pub use resource::{Resource, WELL_KNOWN};
pub use token_error::TokenError;

use super::{CallerCredential, CredentialKind, Identity, Principal, Unauthorized};
use crate::clock::Clock;
use code_flow::CodeFlow;
use introspection::Introspector;
use jwt::Jwt;
use keyring::{Keyring, TokenRejection};

/// Maximum size of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Maximum time that one verification of a token is valid, whatever its expiry. An issuer may revoke the
/// token, and an attacker with a stolen key chooses the expiry. Afterwards the client of a long-lived stream
/// must present the token again.
const MAX_VERIFICATION_AGE: Duration = Duration::from_secs(15 * 60);

/// A trusted issuer of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// The source of its keys.
    pub key_source: KeySource,
    /// Accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
    /// True if tokens must be marked as access tokens (RFC 9068).
    pub require_at_jwt: bool,
    /// How its tokens are interpreted.
    pub claim_rules: ClaimRules,
    /// Introspection settings for opaque tokens.
    pub introspection: Option<Introspection>,
    /// This server as a client of the issuer, if persons sign in there.
    pub sign_in: Option<SignInClient>,
}

/// Authenticates callers by access tokens.
#[derive(Clone)]
pub struct OAuth {
    resource: Resource,
    required_scopes: Vec<String>,
    issuers: Vec<Issuer>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
struct Issuer {
    settings: TrustedIssuer,
    keyring: Arc<Keyring>,
    introspector: Option<Arc<Introspector>>,
    code_flow: Option<Arc<CodeFlow>>,
}

/// The signature data of the token that authenticated a caller.
#[derive(PartialEq, Eq)]
pub(super) struct TokenSignature {
    key: PublicKey,
    algorithm: Algorithm,
    /// True if the token was marked as an access token.
    is_access_token: bool,
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
        required_scopes: Vec<String>,
        issuers: impl IntoIterator<Item = TrustedIssuer>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let issuers = issuers.into_iter().map(Issuer::new).collect::<Result<_, _>>()?;
        Ok(Self { resource, required_scopes, issuers, clock })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the protected resource that this server represents.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the scopes that every token needs.
    pub fn required_scopes(&self) -> &[String] {
        &self.required_scopes
    }

    /// Returns the issuers, as their tokens name them.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| issuer.settings.claim_rules.issuer.as_str())
    }

    /// Returns the principal of a token that a client address presented.
    pub(super) async fn principal(
        &self,
        token: &[u8],
        client_address: Option<IpAddr>,
    ) -> Result<Principal, Unauthorized> {
        let now = self.now();
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Unauthorized::Token(TokenError::TooLarge));
        }
        let result = match Jwt::parse(token) {
            Some(jwt) => self.verify_signed(&jwt.map_err(Unauthorized::Token)?, now).await,
            None => self
                .introspect(token, client_address, now)
                .await
                .map(|bearer| (bearer, CredentialKind::IntrospectedToken)),
        };
        let (bearer, kind) = result.map_err(|rejection| match rejection {
            TokenRejection::Invalid(flaw) => Unauthorized::Token(flaw),
            TokenRejection::Unavailable => Unauthorized::Unavailable,
        })?;
        self.admit(bearer, kind, now)
    }

    /// Returns true if these rules would admit the caller again by the same token, with the same identity.
    pub(super) fn still_admits(&self, principal: &Principal) -> bool {
        let last_valid =
            principal.credential.expires_at.map(|expires_at| expires_at - Duration::from_millis(1));
        let now = self.now().min(last_valid.unwrap_or(Timestamp::from_millis(i64::MAX)));
        let is_issuer = |issuer: &&Issuer| {
            principal.identity.issuer.as_ref() == Some(&issuer.settings.claim_rules.issuer)
        };
        let Some(issuer) = self.issuers.iter().find(is_issuer) else { return false };
        let (claim_rules, claims) = (&issuer.settings.claim_rules, principal.identity.claims.clone());
        let bearer = match (&principal.credential.kind, &issuer.settings.introspection) {
            (CredentialKind::SignedToken(signed), _) if issuer.accepts(signed) => {
                claim_rules.read_token(claims, now)
            }
            (CredentialKind::IntrospectedToken, Some(introspection)) => {
                claim_rules.read_introspection(claims, now, introspection.audience_implied)
            }
            _ => return false,
        };
        bearer.is_ok_and(|bearer| {
            (&bearer.owner, &bearer.identity) == (&principal.owner, &*principal.identity)
                && self.missing_scopes(&bearer.identity).is_empty()
        })
    }

    /// Takes over cached data of issuers whose connection settings are unchanged.
    pub(super) fn inherit(&mut self, old: &OAuth) {
        for issuer in &mut self.issuers {
            for old_issuer in &old.issuers {
                if old_issuer.keyring.source() == issuer.keyring.source() {
                    issuer.keyring = Arc::clone(&old_issuer.keyring);
                }
                if let (Some(introspector), Some(old_introspector)) =
                    (&mut issuer.introspector, &old_issuer.introspector)
                    && introspector.settings() == old_introspector.settings()
                    && old_issuer.settings.claim_rules.issuer == issuer.settings.claim_rules.issuer
                {
                    *introspector = Arc::clone(old_introspector);
                }
            }
        }
    }

    /// Returns the issuers at which persons sign in.
    pub fn sign_in_issuers(&self) -> impl Iterator<Item = &str> {
        let offering = self.issuers.iter().filter(|issuer| issuer.code_flow.is_some());
        offering.map(|issuer| issuer.settings.claim_rules.issuer.as_str())
    }

    /// Returns the address to which a browser is sent, so that its person signs in at the issuer.
    pub(super) async fn authorization_url(
        &self,
        pending: &PendingSignIn,
        redirect_uri: &str,
    ) -> Result<String, CodeFlowError> {
        let (_, code_flow) = self.signing_in(&pending.issuer)?;
        code_flow.authorization_url(pending, redirect_uri).await
    }

    /// Exchanges the code with which the issuer sent the browser back. Returns the claims that a session of
    /// the person keeps.
    pub(super) async fn finish_sign_in(
        &self,
        pending: &PendingSignIn,
        returned: &Returned<'_>,
        redirect_uri: &str,
    ) -> Result<Map<String, Value>, CodeFlowError> {
        let (issuer, code_flow) = self.signing_in(&pending.issuer)?;
        let (id_token, scope) = code_flow.exchange(pending, returned, redirect_uri).await?;
        let invalid = |error| CodeFlowError::Unauthorized(Unauthorized::Token(error));
        let token = Jwt::parse(id_token.as_bytes()).ok_or_else(|| invalid(TokenError::Malformed))?;
        let token = token.map_err(invalid)?;
        if !issuer.settings.algorithms.contains(&token.algorithm) {
            return Err(invalid(TokenError::Algorithm));
        }
        issuer.keyring.check(&token).await.map_err(|rejection| match rejection {
            TokenRejection::Invalid(error) => invalid(error),
            TokenRejection::Unavailable => CodeFlowError::Unauthorized(Unauthorized::Unavailable),
        })?;
        let (rules, now) = (&issuer.settings.claim_rules, self.now());
        let client = code_flow.client_id();
        rules.read_id_token(token.claims, client, &pending.nonce, &scope, now).map_err(invalid)
    }

    /// Returns the principal of a session that keeps these claims of an issuer, by the rules in force.
    pub(super) fn signed_in(
        &self,
        issuer: &str,
        claims: &Map<String, Value>,
    ) -> Result<Principal, Unauthorized> {
        let (issuer, _) = self.signing_in(issuer).map_err(|_| Unauthorized::Token(TokenError::Issuer))?;
        let bearer = issuer.settings.claim_rules.read_session(claims.clone(), self.now());
        self.admit(bearer.map_err(Unauthorized::Token)?, CredentialKind::SignedIn, self.now())
    }

    fn signing_in(&self, name: &str) -> Result<(&Issuer, &CodeFlow), CodeFlowError> {
        let named = self.issuers.iter().find(|issuer| issuer.settings.claim_rules.issuer == name);
        let found = named.and_then(|issuer| Some((issuer, issuer.code_flow.as_deref()?)));
        found.ok_or(CodeFlowError::Unauthorized(Unauthorized::Token(TokenError::Issuer)))
    }

    async fn verify_signed(
        &self,
        token: &Jwt<'_>,
        now: Timestamp,
    ) -> Result<(Bearer, CredentialKind), TokenRejection> {
        let by = |issuer: &&Issuer| token.issuer() == Some(&issuer.settings.claim_rules.issuer);
        let issuer = self.issuers.iter().find(by).ok_or(TokenRejection::Invalid(TokenError::Issuer))?;
        if !issuer.settings.algorithms.contains(&token.algorithm) {
            return Err(TokenRejection::Invalid(TokenError::Algorithm));
        }
        if issuer.settings.require_at_jwt && !token.is_access_token {
            return Err(TokenRejection::Invalid(TokenError::Type));
        }
        let key = issuer.keyring.check(token).await?;
        let bearer = issuer
            .settings
            .claim_rules
            .read_token(token.claims.clone(), now)
            .map_err(TokenRejection::Invalid)?;
        Ok((
            bearer,
            CredentialKind::SignedToken(Arc::new(TokenSignature {
                key,
                algorithm: token.algorithm,
                is_access_token: token.is_access_token,
            })),
        ))
    }

    /// Reads an opaque token by introspection. The config enables it for at most one issuer, so that tokens
    /// are not offered to several.
    async fn introspect(
        &self,
        token: &[u8],
        client_address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<Bearer, TokenRejection> {
        let introspecting =
            self.issuers.iter().find_map(|issuer| Some((issuer, issuer.introspector.as_ref()?)));
        let (issuer, introspector) = introspecting.ok_or(TokenRejection::Invalid(TokenError::Opaque))?;
        introspector.authenticate(token, client_address, &issuer.settings.claim_rules, now).await
    }

    fn admit(&self, bearer: Bearer, kind: CredentialKind, now: Timestamp) -> Result<Principal, Unauthorized> {
        let missing = self.missing_scopes(&bearer.identity);
        if !missing.is_empty() {
            return Err(Unauthorized::InsufficientScope(self.required_scopes.clone()));
        }
        let expires_at = bearer.expires_at.into_iter().chain([now + MAX_VERIFICATION_AGE]).min();
        let credential = CallerCredential { kind, expires_at };
        Ok(Principal {
            owner: bearer.owner,
            identified: true,
            credential,
            identity: Arc::new(bearer.identity),
            client_address: None,
        })
    }

    /// Returns the required scopes that an identity lacks.
    fn missing_scopes(&self, identity: &Identity) -> Vec<&str> {
        self.required_scopes
            .iter()
            .map(String::as_str)
            .filter(|scope| !identity.scopes.contains(*scope))
            .collect()
    }
}

/// The results of testing an issuer without a real token.
#[derive(Clone, Debug)]
pub struct IssuerCheck {
    /// Number of usable keys, or why there are none.
    pub keys: Result<usize, String>,
    /// Whether introspection works, if it is configured.
    pub introspection: Option<Result<(), String>>,
    /// Whether the metadata has what signing in needs, if it is configured.
    pub sign_in: Option<Result<(), String>>,
}

/// Tests whether an issuer can be used.
///
/// # Errors
/// If its network settings are invalid.
pub async fn check_issuer(settings: TrustedIssuer) -> Result<IssuerCheck, String> {
    let Issuer { keyring, introspector, code_flow, .. } = Issuer::new(settings)?;
    let introspection = match &introspector {
        None => None,
        Some(introspector) => Some(introspector.check_endpoint().await),
    };
    let sign_in = match &code_flow {
        None => None,
        Some(code_flow) => Some(code_flow.check_endpoints().await),
    };
    Ok(IssuerCheck { keys: keyring.fetch_key_count().await, introspection, sign_in })
}

impl Issuer {
    fn new(settings: TrustedIssuer) -> Result<Self, String> {
        let with_issuer = |reason| format!("issuer {}: {reason}", settings.claim_rules.issuer);
        let keyring = Keyring::new(settings.key_source.clone()).map_err(with_issuer)?;
        let introspector =
            settings.introspection.clone().map(Introspector::new).transpose().map_err(with_issuer)?;
        let code_flow = settings.sign_in.clone().map(|client| CodeFlow::new(client, &settings.key_source));
        let code_flow = code_flow.transpose().map_err(with_issuer)?.map(Arc::new);
        Ok(Self { keyring, introspector: introspector.map(Arc::new), code_flow, settings })
    }

    /// Returns true if this issuer still accepts tokens with this signature data.
    fn accepts(&self, TokenSignature { key, algorithm, is_access_token }: &TokenSignature) -> bool {
        self.settings.algorithms.contains(algorithm)
            && (*is_access_token || !self.settings.require_at_jwt)
            && self.keyring.has_key(key, *algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;
    use crate::tasks::task::Owner;

    /// A principal is admitted for at most `MAX_VERIFICATION_AGE`, whatever expiry a token has.
    #[test]
    fn admission_time_is_capped() {
        let resource = Resource::new("https://bridge.example/mcp", None, Vec::new()).unwrap();
        let oauth = OAuth::new(resource, Vec::new(), [], System::clock()).unwrap();
        let now = oauth.now();
        let signature = TokenSignature {
            key: PublicKey::Ed25519(Vec::new()),
            algorithm: Algorithm::EdDsa,
            is_access_token: true,
        };
        let kind = CredentialKind::SignedToken(Arc::new(signature));
        for (expires_at, expected) in [
            (Some(now + Duration::from_secs(60)), now + Duration::from_secs(60)),
            (Some(now + Duration::from_secs(1_000_000_000)), now + MAX_VERIFICATION_AGE),
            (None, now + MAX_VERIFICATION_AGE),
        ] {
            for kind in [kind.clone(), CredentialKind::IntrospectedToken] {
                let bearer = Bearer { owner: Owner::new("x"), identity: Identity::default(), expires_at };
                assert_eq!(oauth.admit(bearer, kind, now).unwrap().credential.expires_at, Some(expected));
            }
        }
    }
}
