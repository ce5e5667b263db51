//! Who is asking. It must not know what they ask for.

mod keys;

pub use keys::{ApiKeys, BadKey};

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
        Self { owner: Owner::new(EVERYONE), identified: true, pass: Pass::default() }
    }

    /// Anybody. They share one owner, so a task is open to whoever knows its id, and to nobody else.
    pub fn anybody() -> Self {
        Self { owner: Owner::new(EVERYONE), identified: false, pass: Pass::default() }
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
    /// Who sent a request with this `Authorization` header.
    ///
    /// # Errors
    /// See [`Unauthorized`]. Never with [`Authenticator::None`], which ignores the header.
    pub fn authenticate(&self, authorization: Option<&[u8]>) -> Result<Principal, Unauthorized> {
        match self {
            Authenticator::None { single_user: true } => Ok(Principal::single_user()),
            Authenticator::None { single_user: false } => Ok(Principal::anybody()),
            Authenticator::ApiKeys(keys) => {
                keys.principal(bearer(authorization.ok_or(Unauthorized::Missing)?)?)
            }
        }
    }

    /// True if somebody who was let in before would be let in again, and be the same.
    pub fn still_knows(&self, principal: &Principal) -> bool {
        let known = match (self, principal.pass) {
            (Authenticator::ApiKeys(keys), Pass(Some(digest))) => keys.principal_of(digest),
            (Authenticator::ApiKeys(_), Pass(None)) => return false,
            (Authenticator::None { .. }, _) => self.authenticate(None),
        };
        known.as_ref() == Ok(principal)
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

    #[test]
    fn without_auth_all_callers_share_an_owner_and_only_a_single_user_is_identified() {
        let anybody = Authenticator::None { single_user: false }.authenticate(None).unwrap();
        let user = Authenticator::None { single_user: true }.authenticate(Some(b"Basic x")).unwrap();
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
        let keys =
            |pairs: &[(&str, &str)]| Authenticator::ApiKeys(ApiKeys::new(pairs.iter().copied()).unwrap());
        let before = keys(&[("ann", &a), ("ann", &b)]);
        let ann = before.authenticate(Some(b"Bearer a")).unwrap();
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
        let user = open.authenticate(None).unwrap();
        assert!(open.still_knows(&user) && !before.still_knows(&user));
        assert!(!Authenticator::None { single_user: false }.still_knows(&user));
        assert_eq!(format!("{:?}", ann.pass), "Pass(hidden)");
    }
}
