//! Authentication: which principal sends a request. It must not know what the request does.

mod certificate;
mod certificates;
mod challenge;
mod identity;
mod keys;
mod network;
pub mod oauth;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use certificate::{Certificate, Name};
pub use certificates::{CertificateConditions, Certificates};
pub use identity::{Identity, Peer, Presented};
pub use keys::{ApiKeys, BadKey, Key, make as make_key};
pub use network::of_one_user;
use oauth::{Flaw, OAuth, Signed};
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
    pub pass: CallerCredential,
    /// The caller's identity, in more detail than the owner.
    pub who: Arc<Identity>,
    /// Client address of the request, if it came over a network.
    pub from: Option<IpAddr>,
}

/// The credential that authenticated a caller, and its expiry.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallerCredential {
    by: CredentialKind,
    until: Option<Timestamp>,
}

/// The kind of credential.
#[derive(Clone, Default, PartialEq, Eq)]
enum CredentialKind {
    /// No authentication was required.
    #[default]
    Nothing,
    /// An API key, as the digest in the config.
    Key([u8; 32]),
    /// A token with this signature data.
    Token(Arc<Signed>),
    /// A token that its issuer confirmed by introspection.
    Word,
    /// A client certificate.
    Certificate(Arc<Certificate>),
}

impl std::fmt::Debug for CallerCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.by == CredentialKind::Nothing { "Pass(none)" } else { "Pass(hidden)" })
    }
}

impl Principal {
    /// Returns the single user of a server that serves one user only (`single_user`, or stdio).
    pub fn single_user() -> Self {
        Self { identified: true, ..Self::anybody() }
    }

    /// Returns the anonymous principal. All anonymous callers share one owner, so access to a task only
    /// requires its id.
    pub fn anybody() -> Self {
        let (pass, who) = Default::default();
        Self { owner: Owner::new(EVERYONE), identified: false, pass, who, from: None }
    }

    /// Returns the client certificate that authenticated the caller, if it was one.
    pub fn certificate(&self) -> Option<&Certificate> {
        match &self.pass.by {
            CredentialKind::Certificate(shown) => Some(shown),
            CredentialKind::Nothing
            | CredentialKind::Key(_)
            | CredentialKind::Token(_)
            | CredentialKind::Word => None,
        }
    }

    /// Returns true if both are the same caller with the same credential. The client address does not matter.
    fn is_same(&self, other: &Principal) -> bool {
        let Self { owner, identified, pass, who, from: _ } = self;
        (owner, identified, pass, who) == (&other.owner, &other.identified, &other.pass, &other.who)
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
    #[error(
        "this server asks who is calling: send the header Authorization: Bearer <API key or access token>"
    )]
    Missing,
    /// The header is malformed, or there are several.
    #[error("there must be one Authorization header, of the form: Bearer <API key or access token>")]
    Form,
    /// No such API key.
    #[error("the API key is not known to this server")]
    Unknown,
    /// The API key has expired.
    #[error("the API key has expired")]
    Over,
    /// The token is invalid, or not valid for this server.
    #[error(transparent)]
    Token(#[from] Flaw),
    /// The token is valid but lacks scopes: these are required.
    #[error("the access token must grant the scopes {}", .0.join(", "))]
    Scope(Vec<String>),
    /// A client certificate is required, and none was presented.
    #[error(
        "this server lets in by client certificate (mTLS), and there is none here that counts: connect with one"
    )]
    NoCertificate,
    /// No rule of the config matches the client certificate.
    #[error(
        "the client certificate stands for nobody whom this server's config names ([[auth.certificates]])"
    )]
    UnknownCertificate,
    /// The client certificate has expired since the handshake.
    #[error("the client certificate has expired since the connection began: connect again with another")]
    CertificateOver,
    /// The token cannot be verified now, because its issuer is unavailable.
    #[error("the access token cannot be checked now: its issuer does not answer; try again")]
    Unavailable,
}

impl Authenticator {
    /// Authenticates a request by its credentials.
    ///
    /// # Errors
    /// See [`Unauthorized`]. Never fails with [`Authenticator::None`], which checks nothing.
    pub async fn authenticate(&self, presented: &Presented<'_>) -> Result<Principal, Unauthorized> {
        let from = presented.peer.address.map(|address| address.ip());
        let shown = || bearer(presented.authorization.ok_or(Unauthorized::Missing)?);
        let principal = match self {
            Authenticator::None { single_user } => Self::unnamed(*single_user),
            Authenticator::ApiKeys(keys) => keys.principal(shown()?)?,
            Authenticator::OAuth(oauth, keys) => match keys.principal(shown()?) {
                // A generated API key must never be sent to an issuer.
                Err(Unauthorized::Unknown) if !keys::looks_like_one(shown()?) => {
                    oauth.principal(shown()?, from).await?
                }
                known => known?,
            },
            Authenticator::Certificates(certificates, otherwise) => {
                match (&presented.peer.certificate, presented.authorization, otherwise) {
                    // An explicit key or token takes precedence over the certificate.
                    (_, Some(_), Some(otherwise)) => Box::pin(otherwise.authenticate(presented)).await?,
                    (Some(shown), None, Some(_)) => match certificates.principal(shown) {
                        Err(Unauthorized::UnknownCertificate) => return Err(Unauthorized::Missing),
                        known => known?,
                    },
                    (None, None, Some(_)) => return Err(Unauthorized::Missing),
                    (Some(shown), _, None) => certificates.principal(shown)?,
                    (None, _, None) => return Err(Unauthorized::NoCertificate),
                }
            }
        };
        Ok(Principal { from, ..principal })
    }

    fn unnamed(single_user: bool) -> Principal {
        if single_user { Principal::single_user() } else { Principal::anybody() }
    }

    /// Returns true if these rules would admit an authenticated caller again, with the same identity. It
    /// ignores expiry, which [`Authenticator::time_left`] returns.
    pub fn still_admits(&self, principal: &Principal) -> bool {
        let by_key =
            |keys: &ApiKeys, digest| keys.known(digest).is_some_and(|known| known.is_same(principal));
        match (self, &principal.pass.by) {
            (Authenticator::None { single_user }, _) => Self::unnamed(*single_user).is_same(principal),
            (Authenticator::ApiKeys(keys) | Authenticator::OAuth(_, keys), CredentialKind::Key(digest)) => {
                by_key(keys, *digest)
            }
            (Authenticator::OAuth(oauth, _), CredentialKind::Token(_) | CredentialKind::Word) => {
                oauth.still_admits(principal)
            }
            (Authenticator::ApiKeys(_) | Authenticator::OAuth(..), _) => false,
            (Authenticator::Certificates(certificates, _), CredentialKind::Certificate(shown)) => {
                certificates.known(shown).is_some_and(|known| known.is_same(principal))
            }
            (Authenticator::Certificates(_, otherwise), _) => {
                otherwise.as_ref().is_some_and(|otherwise| otherwise.still_admits(principal))
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
        principal.pass.until.map(|until| (until + grace).since(now))
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
fn bearer(header: &[u8]) -> Result<&[u8], Unauthorized> {
    let (scheme, credential) = header.split_at_checked("Bearer ".len()).ok_or(Unauthorized::Form)?;
    let credential = credential.trim_ascii();
    let is_one = !credential.is_empty() && !credential.iter().any(|byte| matches!(byte, b',' | b' ' | b'\t'));
    if scheme.eq_ignore_ascii_case(b"Bearer ") && is_one { Ok(credential) } else { Err(Unauthorized::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Authenticates a request with this `Authorization` header.
    pub(super) fn shown(auth: &Authenticator, header: Option<&str>) -> Result<Principal, Unauthorized> {
        let peer = Peer { address: Some(([192, 0, 2, 7], 1234).into()), certificate: None };
        let presented = Presented { authorization: header.map(str::as_bytes), peer: &peer };
        futures_util::FutureExt::now_or_never(auth.authenticate(&presented))
            .expect("nothing has to be looked up")
    }

    /// Without auth, only the single user of a server counts as identified.
    #[test]
    fn callers_without_auth_share_owner() {
        let anybody = shown(&Authenticator::None { single_user: false }, None).unwrap();
        let user = shown(&Authenticator::None { single_user: true }, Some("Basic x")).unwrap();
        assert_eq!(anybody.owner, user.owner);
        assert!(!anybody.identified);
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
        let ann = shown(&before, Some("Bearer a")).unwrap();
        let open = Authenticator::None { single_user: true };
        for (now, knows) in [
            (&before, true),
            (&keys(&[("ann", &a)]), true),
            (&keys(&[("ann", &b)]), false),
            (&keys(&[("bob", &a)]), false),
            (&open, false),
        ] {
            assert_eq!(now.still_admits(&ann), knows, "{now:?}");
        }
        let user = shown(&open, None).unwrap();
        assert!(open.still_admits(&user) && !before.still_admits(&user));
        assert!(!Authenticator::None { single_user: false }.still_admits(&user));
        assert_eq!(format!("{:?}", ann.pass), "Pass(hidden)");
    }
}
