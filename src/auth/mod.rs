//! Authentication: which principal sends a request. It must not know what the request does.

mod certificate;
mod certificates;
mod challenge;
mod identity;
mod keys;
mod network;
pub mod oauth;
mod sign_in;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use certificate::{Certificate, Name};
pub use certificates::{CertificateConditions, Certificates};
pub use identity::{Identity, Peer, RequestCredentials};
pub use keys::{ApiKeys, InvalidKey, Key, generate as make_key};
pub use network::client_limit_key;
use oauth::{OAuth, TokenError, TokenSignature};
pub use sign_in::{SignIn, SignInMethods};
use taskbridge_sdk::Timestamp;

use crate::tasks::task::Owner;

/// Owner of the tasks of all callers that cannot be distinguished.
pub const EVERYONE: &str = "everyone";

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The owner of the tasks that the caller creates and can see.
    pub owner: Owner,
    /// True if different callers have different owners, or the config declares a single user. Only then can a
    /// caller list its own tasks.
    pub identified: bool,
    /// The credential that authenticated the caller.
    pub credential: CallerCredential,
    /// The caller's identity, in more detail than the owner.
    pub identity: Arc<Identity>,
    /// Client address of the request, if it came over a network.
    pub client_address: Option<IpAddr>,
}

/// The credential that authenticated a caller, and its expiry.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallerCredential {
    kind: CredentialKind,
    expires_at: Option<Timestamp>,
}

/// The kind of credential.
#[derive(Clone, Default, PartialEq, Eq)]
enum CredentialKind {
    /// No authentication was required.
    #[default]
    Unauthenticated,
    /// An API key, as the digest in the config.
    Key([u8; 32]),
    /// A token with this signature data.
    SignedToken(Arc<TokenSignature>),
    /// A token that its issuer confirmed by introspection.
    IntrospectedToken,
    /// A client certificate.
    Certificate(Arc<Certificate>),
    /// The session of a browser, whose person signed in at an issuer.
    SignedIn,
}

impl std::fmt::Debug for CallerCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.kind == CredentialKind::Unauthenticated {
            "CallerCredential(none)"
        } else {
            "CallerCredential(hidden)"
        })
    }
}

impl Principal {
    /// Returns the single user of a server that serves one user only (`single_user`, or stdio).
    pub fn single_user() -> Self {
        Self { identified: true, ..Self::anonymous() }
    }

    /// Returns the anonymous principal. All anonymous callers share one owner, so access to a task only
    /// requires its id.
    pub fn anonymous() -> Self {
        let (credential, identity) = Default::default();
        Self { owner: Owner::new(EVERYONE), identified: false, credential, identity, client_address: None }
    }

    /// Returns the client certificate that authenticated the caller, if it was one.
    pub fn certificate(&self) -> Option<&Certificate> {
        match &self.credential.kind {
            CredentialKind::Certificate(certificate) => Some(certificate),
            CredentialKind::Unauthenticated
            | CredentialKind::Key(_)
            | CredentialKind::SignedToken(_)
            | CredentialKind::IntrospectedToken
            | CredentialKind::SignedIn => None,
        }
    }

    /// Returns true if both are the same caller with the same credential. The client address does not matter.
    fn is_same(&self, other: &Principal) -> bool {
        let Self { owner, identified, credential, identity, client_address: _ } = self;
        (owner, identified, credential, identity)
            == (&other.owner, &other.identified, &other.credential, &other.identity)
    }
}

/// Authenticates callers.
#[derive(Clone, Debug)]
pub enum Authenticator {
    /// No authentication.
    None {
        /// True if all callers are the same user.
        single_user: bool,
    },
    /// `Authorization: Bearer KEY`, with keys from the config.
    ApiKeys(ApiKeys),
    /// `Authorization: Bearer TOKEN`, with tokens of configured issuers, or one of these keys.
    OAuth(Box<OAuth>, ApiKeys),
    /// The client certificate of the TLS handshake. If a second method exists, a request with `Authorization`
    /// is authenticated by that method alone.
    Certificates(Certificates, Option<Box<Authenticator>>),
}

/// Why a caller is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// The request has no credential, or only a client certificate that no rule matches while another method
    /// exists.
    #[error("authentication is required: send the header Authorization: Bearer <API key or access token>")]
    Missing,
    /// The header is malformed, or there are several.
    #[error("invalid Authorization header: send exactly one, of the form: Bearer <API key or access token>")]
    Malformed,
    /// No such API key.
    #[error("the API key is not known to this server")]
    UnknownKey,
    /// The API key has expired.
    #[error("the API key has expired")]
    KeyExpired,
    /// The token is invalid, or not valid for this server.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token is valid but lacks scopes: these are required.
    #[error("the access token must grant the scopes {}", .0.join(", "))]
    InsufficientScope(Vec<String>),
    /// A client certificate is required, and none was presented.
    #[error("this server requires a client certificate (mTLS): connect with one")]
    NoCertificate,
    /// No rule of the config matches the client certificate.
    #[error("the client certificate matches no rule of this server's config ([[auth.certificates]])")]
    UnknownCertificate,
    /// The client certificate has expired since the handshake.
    #[error("the client certificate has expired since the TLS handshake: reconnect with a valid one")]
    CertificateExpired,
    /// The token cannot be verified now, because its issuer is unavailable.
    #[error("the access token cannot be checked now: its issuer does not answer; try again")]
    Unavailable,
}

impl Authenticator {
    /// Authenticates a request by its credentials.
    ///
    /// # Errors
    /// See [`Unauthorized`]. Never fails with [`Authenticator::None`], which checks nothing.
    pub async fn authenticate(
        &self,
        credentials: &RequestCredentials<'_>,
    ) -> Result<Principal, Unauthorized> {
        let client_address = credentials.peer.address.map(|address| address.ip());
        let bearer_token = || parse_bearer(credentials.authorization.ok_or(Unauthorized::Missing)?);
        let principal = match self {
            Authenticator::None { single_user } => Self::default_principal(*single_user),
            Authenticator::ApiKeys(keys) => keys.principal(bearer_token()?)?,
            Authenticator::OAuth(oauth, keys) => match keys.principal(bearer_token()?) {
                // A generated API key must never be sent to an issuer.
                Err(Unauthorized::UnknownKey) if !keys::is_generated_key(bearer_token()?) => {
                    oauth.principal(bearer_token()?, client_address).await?
                }
                result => result?,
            },
            Authenticator::Certificates(certificates, other_method) => {
                match (&credentials.peer.certificate, credentials.authorization, other_method) {
                    // An explicit key or token takes precedence over the certificate.
                    (_, Some(_), Some(other_method)) => {
                        Box::pin(other_method.authenticate(credentials)).await?
                    }
                    (Some(certificate), None, Some(_)) => match certificates.principal(certificate) {
                        Err(Unauthorized::UnknownCertificate) => return Err(Unauthorized::Missing),
                        result => result?,
                    },
                    (None, None, Some(_)) => return Err(Unauthorized::Missing),
                    (Some(certificate), _, None) => certificates.principal(certificate)?,
                    (None, _, None) => return Err(Unauthorized::NoCertificate),
                }
            }
        };
        Ok(Principal { client_address, ..principal })
    }

    fn default_principal(single_user: bool) -> Principal {
        if single_user { Principal::single_user() } else { Principal::anonymous() }
    }

    /// Returns true if these rules would admit an authenticated caller again, with the same identity. It
    /// ignores expiry, which [`Authenticator::time_left`] returns.
    pub fn still_admits(&self, principal: &Principal) -> bool {
        let by_key = |keys: &ApiKeys, digest| {
            keys.find_principal(digest).is_some_and(|current| current.is_same(principal))
        };
        match (self, &principal.credential.kind) {
            (Authenticator::None { single_user }, _) => {
                Self::default_principal(*single_user).is_same(principal)
            }
            (Authenticator::ApiKeys(keys) | Authenticator::OAuth(_, keys), CredentialKind::Key(digest)) => {
                by_key(keys, *digest)
            }
            (
                Authenticator::OAuth(oauth, _),
                CredentialKind::SignedToken(_) | CredentialKind::IntrospectedToken,
            ) => oauth.still_admits(principal),
            (Authenticator::ApiKeys(_) | Authenticator::OAuth(..), _) => false,
            (Authenticator::Certificates(certificates, _), CredentialKind::Certificate(certificate)) => {
                certificates.find_principal(certificate).is_some_and(|current| current.is_same(principal))
            }
            (Authenticator::Certificates(_, other_method), _) => {
                other_method.as_ref().is_some_and(|other_method| other_method.still_admits(principal))
            }
        }
    }

    /// Returns the time until the caller's credential has been expired for this grace period. `None` if it
    /// does not expire.
    pub fn time_left(&self, principal: &Principal, grace: Duration) -> Option<Duration> {
        let now = match self {
            Authenticator::None { .. } => return None,
            Authenticator::ApiKeys(keys) => keys.now(),
            Authenticator::OAuth(oauth, _) => oauth.now(),
            Authenticator::Certificates(certificates, _) => certificates.now(),
        };
        principal.credential.expires_at.map(|expires_at| (expires_at + grace).since(now))
    }

    /// Takes over cached data of issuers whose connection settings are unchanged, so that new rules need not
    /// fetch it again.
    pub fn inherit(&mut self, old: &Authenticator) {
        match (self, old.oauth()) {
            (Authenticator::OAuth(new, _), Some(old)) => new.inherit(old),
            (Authenticator::Certificates(_, Some(new)), _) => new.inherit(old),
            _ => {}
        }
    }
}

/// Returns the credential of a `Bearer` header. Several headers arrive joined by commas.
fn parse_bearer(header: &[u8]) -> Result<&[u8], Unauthorized> {
    let (scheme, credential) = header.split_at_checked("Bearer ".len()).ok_or(Unauthorized::Malformed)?;
    let credential = credential.trim_ascii();
    let is_single =
        !credential.is_empty() && !credential.iter().any(|byte| matches!(byte, b',' | b' ' | b'\t'));
    if scheme.eq_ignore_ascii_case(b"Bearer ") && is_single {
        Ok(credential)
    } else {
        Err(Unauthorized::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Authenticates a request with this `Authorization` header.
    pub(super) fn authenticate(
        auth: &Authenticator,
        header: Option<&str>,
    ) -> Result<Principal, Unauthorized> {
        let peer = Peer { address: Some(([192, 0, 2, 7], 1234).into()), certificate: None };
        let credentials = RequestCredentials { authorization: header.map(str::as_bytes), peer: &peer };
        futures_util::FutureExt::now_or_never(auth.authenticate(&credentials))
            .expect("no request to an issuer is needed")
    }

    /// Without auth, only the single user of a server counts as identified.
    #[test]
    fn callers_without_auth_share_owner() {
        let anonymous = authenticate(&Authenticator::None { single_user: false }, None).unwrap();
        let user = authenticate(&Authenticator::None { single_user: true }, Some("Basic x")).unwrap();
        assert_eq!(anonymous.owner, user.owner);
        assert!(!anonymous.identified);
        assert!(user.identified);
    }

    /// A principal is recognized again only while the same credential still maps to it.
    #[test]
    fn principal_is_recognized_while_authorized() {
        let digest = |key: &str| {
            use sha2::Digest as _;
            data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(key))
        };
        let (a, b) = (digest("a"), digest("b"));
        let keys = |pairs: &[(&str, &str)]| {
            let key = |(name, sha256): &(&str, &str)| Key::new(sha256, Identity::named(name));
            Authenticator::ApiKeys(ApiKeys::new(pairs.iter().map(key)).unwrap())
        };
        let before = keys(&[("ann", &a), ("ann", &b)]);
        let ann = authenticate(&before, Some("Bearer a")).unwrap();
        let open = Authenticator::None { single_user: true };
        for (authenticator, expected) in [
            (&before, true),
            (&keys(&[("ann", &a)]), true),
            (&keys(&[("ann", &b)]), false),
            (&keys(&[("bob", &a)]), false),
            (&open, false),
        ] {
            assert_eq!(authenticator.still_admits(&ann), expected, "{authenticator:?}");
        }
        let user = authenticate(&open, None).unwrap();
        assert!(open.still_admits(&user) && !before.still_admits(&user));
        assert!(!Authenticator::None { single_user: false }.still_admits(&user));
        assert_eq!(format!("{:?}", ann.credential), "CallerCredential(hidden)");
    }
}
