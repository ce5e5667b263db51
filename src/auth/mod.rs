//! Who is asking. It must not know what they ask for.

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
pub use certificates::{Certificates, Says};
pub use identity::{Identity, Peer, Presented};
pub use keys::{ApiKeys, BadKey, Key, make as make_key};
pub use network::of_one_user;
use oauth::{Flaw, OAuth, Signed};
use taskbridge_sdk::Timestamp;

use crate::tasks::task::Owner;

/// Whose tasks are those of callers that nothing tells apart.
pub const EVERYONE: &str = "everyone";

/// Who is asking, as far as the server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The owner of the tasks that they make, and of the tasks that they see.
    pub owner: Owner,
    /// True if different callers have different owners, or all callers are one by config: then, and only then, a
    /// caller's own tasks can be listed.
    pub identified: bool,
    /// What they were let in by.
    pub pass: Pass,
    /// Who they are, in more words than an owner has.
    pub who: Arc<Identity>,
    /// Where the request came from, where it came over a network.
    pub from: Option<IpAddr>,
}

/// What a caller was let in by, and until when that is good.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pass {
    by: By,
    until: Option<Timestamp>,
}

/// What a caller was let in by.
#[derive(Clone, Default, PartialEq, Eq)]
enum By {
    /// Nothing was asked for.
    #[default]
    Nothing,
    /// A key, in the form in which the config has it.
    Key([u8; 32]),
    /// A token that was signed like this.
    Token(Arc<Signed>),
    /// An issuer's word about a token.
    Word,
    /// A client's certificate.
    Certificate(Arc<Certificate>),
}

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.by == By::Nothing { "Pass(none)" } else { "Pass(hidden)" })
    }
}

impl Principal {
    /// The one user of a server that belongs to them alone (`single_user`, or stdio).
    pub fn single_user() -> Self {
        Self { identified: true, ..Self::anybody() }
    }

    /// Anybody. They share one owner, so a task is open to whoever knows its id, and to nobody else.
    pub fn anybody() -> Self {
        let (pass, who) = Default::default();
        Self { owner: Owner::new(EVERYONE), identified: false, pass, who, from: None }
    }

    /// The certificate that they were let in by, if it was one.
    pub fn certificate(&self) -> Option<&Certificate> {
        match &self.pass.by {
            By::Certificate(shown) => Some(shown),
            By::Nothing | By::Key(_) | By::Token(_) | By::Word => None,
        }
    }

    /// True if both are the same person, let in by the same: where a request came from does not matter.
    fn is_same(&self, other: &Principal) -> bool {
        let Self { owner, identified, pass, who, from: _ } = self;
        (owner, identified, pass, who) == (&other.owner, &other.identified, &other.pass, &other.who)
    }
}

/// Finds out who is asking.
#[derive(Clone, Debug)]
pub enum Authenticator {
    /// Nobody is asked who they are.
    None {
        /// True if all callers are one and the same user.
        single_user: bool,
    },
    /// `Authorization: Bearer KEY`, with keys from the config.
    ApiKeys(ApiKeys),
    /// `Authorization: Bearer TOKEN`, with tokens of issuers that the config names, or one of these keys.
    OAuth(Box<OAuth>, ApiKeys),
    /// The certificate that was shown when the connection began. Who sends `Authorization` is let in by that alone, where
    /// there is another way beside certificates.
    Certificates(Certificates, Option<Box<Authenticator>>),
}

/// The caller is not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// Nothing was said.
    #[error(
        "this server asks who is calling: send the header Authorization: Bearer <API key or access token>"
    )]
    Missing,
    /// The header has another form, or there are several.
    #[error("there must be one Authorization header, of the form: Bearer <API key or access token>")]
    Form,
    /// Nobody has this key.
    #[error("the API key is not known to this server")]
    Unknown,
    /// The key is past its end.
    #[error("the API key has expired")]
    Over,
    /// The token is not good, or not here.
    #[error(transparent)]
    Token(#[from] Flaw),
    /// The token is good, and grants too little: these are needed.
    #[error("the access token must grant the scopes {}", .0.join(", "))]
    Scope(Vec<String>),
    /// A certificate was asked for, and none was shown.
    #[error(
        "this server lets in by client certificate (mTLS), and there is none here that counts: connect with one"
    )]
    NoCertificate,
    /// One was shown that the config does not know.
    #[error(
        "the client certificate stands for nobody whom this server's config names ([[auth.certificates]])"
    )]
    UnknownCertificate,
    /// One was shown whose time is over by now.
    #[error("the client certificate has expired since the connection began: connect again with another")]
    CertificateOver,
    /// It cannot be told now: the issuer is away.
    #[error("the access token cannot be checked now: its issuer does not answer; try again")]
    Unavailable,
}

impl Authenticator {
    /// Who sent a request that shows this.
    ///
    /// # Errors
    /// See [`Unauthorized`]. Never with [`Authenticator::None`], which looks at nothing.
    pub async fn authenticate(&self, presented: &Presented<'_>) -> Result<Principal, Unauthorized> {
        let from = presented.peer.address.map(|address| address.ip());
        let shown = || bearer(presented.authorization.ok_or(Unauthorized::Missing)?);
        let principal = match self {
            Authenticator::None { single_user } => Self::unnamed(*single_user),
            Authenticator::ApiKeys(keys) => keys.principal(shown()?)?,
            Authenticator::OAuth(oauth, keys) => match keys.principal(shown()?) {
                // A key that was made here is nothing that an issuer should see.
                Err(Unauthorized::Unknown) if !keys::looks_like_one(shown()?) => {
                    oauth.principal(shown()?, from).await?
                }
                known => known?,
            },
            Authenticator::Certificates(certificates, otherwise) => {
                match (&presented.peer.certificate, presented.authorization, otherwise) {
                    // Who sends a key or a token wants to be who that says.
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

    /// True if somebody who was let in before would be let in by these rules as well, and be the same. Whether what they
    /// were let in by is over by now is said by [`Authenticator::time_left`].
    pub fn still_knows(&self, principal: &Principal) -> bool {
        let by_key =
            |keys: &ApiKeys, digest| keys.known(digest).is_some_and(|known| known.is_same(principal));
        match (self, &principal.pass.by) {
            (Authenticator::None { single_user }, _) => Self::unnamed(*single_user).is_same(principal),
            (Authenticator::ApiKeys(keys) | Authenticator::OAuth(_, keys), By::Key(digest)) => {
                by_key(keys, *digest)
            }
            (Authenticator::OAuth(oauth, _), By::Token(_) | By::Word) => oauth.still_knows(principal),
            (Authenticator::ApiKeys(_) | Authenticator::OAuth(..), _) => false,
            (Authenticator::Certificates(certificates, _), By::Certificate(shown)) => {
                certificates.known(shown).is_some_and(|known| known.is_same(principal))
            }
            (Authenticator::Certificates(_, otherwise), _) => {
                otherwise.as_ref().is_some_and(|otherwise| otherwise.still_knows(principal))
            }
        }
    }

    /// How long it is until what somebody was let in by has been over for this grace, if it has an end.
    pub fn time_left(&self, principal: &Principal, grace: Duration) -> Option<Duration> {
        let now = match self {
            Authenticator::None { .. } => return None,
            Authenticator::ApiKeys(keys) => keys.now(),
            Authenticator::OAuth(oauth, _) => oauth.now(),
            Authenticator::Certificates(certificates, _) => certificates.now(),
        };
        principal.pass.until.map(|until| (until + grace).since(now))
    }

    /// Takes over what is known of issuers that are reached as before, so that other rules do not ask them anew.
    pub fn inherit(&mut self, old: &Authenticator) {
        match (self, old.oauth()) {
            (Authenticator::OAuth(new, _), Some(old)) => new.inherit(old),
            (Authenticator::Certificates(_, Some(new)), _) => new.inherit(old),
            _ => {}
        }
    }
}

/// The credential of a `Bearer` header. Several headers come here as one, with commas between.
fn bearer(header: &[u8]) -> Result<&[u8], Unauthorized> {
    let (scheme, credential) = header.split_at_checked("Bearer ".len()).ok_or(Unauthorized::Form)?;
    let credential = credential.trim_ascii();
    let is_one = !credential.is_empty() && !credential.iter().any(|byte| matches!(byte, b',' | b' ' | b'\t'));
    if scheme.eq_ignore_ascii_case(b"Bearer ") && is_one { Ok(credential) } else { Err(Unauthorized::Form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a request with this `Authorization`.
    pub(super) fn shown(auth: &Authenticator, header: Option<&str>) -> Result<Principal, Unauthorized> {
        let peer = Peer { address: Some(([192, 0, 2, 7], 1234).into()), certificate: None };
        let presented = Presented { authorization: header.map(str::as_bytes), peer: &peer };
        futures_util::FutureExt::now_or_never(auth.authenticate(&presented))
            .expect("nothing has to be looked up")
    }

    #[test]
    fn without_auth_all_callers_share_an_owner_and_only_a_single_user_is_identified() {
        let anybody = shown(&Authenticator::None { single_user: false }, None).unwrap();
        let user = shown(&Authenticator::None { single_user: true }, Some("Basic x")).unwrap();
        assert_eq!(anybody.owner, user.owner);
        assert!(!anybody.identified);
        assert!(user.identified);
    }

    #[test]
    fn knows_again_who_would_be_let_in_as_the_same() {
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
            assert_eq!(now.still_knows(&ann), knows, "{now:?}");
        }
        let user = shown(&open, None).unwrap();
        assert!(open.still_knows(&user) && !before.still_knows(&user));
        assert!(!Authenticator::None { single_user: false }.still_knows(&user));
        assert_eq!(format!("{:?}", ann.pass), "Pass(hidden)");
    }
}
