//! Who is asking. It must not know what they ask for.

mod identity;
mod keys;

use std::net::IpAddr;
use std::sync::Arc;

pub use identity::{Identity, Peer, Presented};
pub use keys::{ApiKeys, BadKey, Key};

use crate::tasks::task::Owner;

/// Whose tasks are those of callers that nothing tells apart.
const EVERYONE: &str = "everyone";

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

/// What a caller was let in by: a key, in the form in which the config has it, or nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass(Option<[u8; 32]>);

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Pass(hidden)" } else { "Pass(none)" })
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
}

/// The caller did not say who they are, or not truthfully (HTTP 401).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthorized {
    /// Nothing was said.
    #[error("this server needs an API key: send the header Authorization: Bearer <key>")]
    Missing,
    /// The header has another form.
    #[error("the Authorization header must have the form: Bearer <key>")]
    Form,
    /// Nobody has this key.
    #[error("the API key is not known to this server")]
    Unknown,
}

impl Authenticator {
    /// Who sent a request that shows this.
    ///
    /// # Errors
    /// See [`Unauthorized`]. Never with [`Authenticator::None`], which looks at nothing.
    #[expect(clippy::unused_async, reason = "a token may have to be looked up")]
    pub async fn authenticate(&self, presented: &Presented<'_>) -> Result<Principal, Unauthorized> {
        let principal = match self {
            Authenticator::None { single_user } => Self::unnamed(*single_user),
            Authenticator::ApiKeys(keys) => {
                keys.principal(bearer(presented.authorization.ok_or(Unauthorized::Missing)?)?)?
            }
        };
        Ok(Principal { from: presented.peer.address.map(|address| address.ip()), ..principal })
    }

    fn unnamed(single_user: bool) -> Principal {
        if single_user { Principal::single_user() } else { Principal::anybody() }
    }

    /// True if somebody who was let in before would be let in again, and be the same.
    pub fn still_knows(&self, principal: &Principal) -> bool {
        let known = match (self, principal.pass) {
            (Authenticator::ApiKeys(keys), Pass(Some(digest))) => keys.principal_of(digest),
            (Authenticator::ApiKeys(_), Pass(None)) => return false,
            (Authenticator::None { single_user }, _) => Ok(Self::unnamed(*single_user)),
        };
        known.is_ok_and(|known| known.is_same(principal))
    }
}

/// The credential of a `Bearer` header.
fn bearer(header: &[u8]) -> Result<&[u8], Unauthorized> {
    let (scheme, credential) = header.split_at_checked("Bearer ".len()).ok_or(Unauthorized::Form)?;
    let credential = credential.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"Bearer ") && !credential.is_empty() {
        Ok(credential)
    } else {
        Err(Unauthorized::Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a request with this `Authorization`.
    pub(super) fn shown(auth: &Authenticator, header: Option<&str>) -> Result<Principal, Unauthorized> {
        let peer = Peer { address: Some(([192, 0, 2, 7], 1234).into()) };
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
