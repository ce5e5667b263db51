//! API keys. Only their digests are kept: whoever reads the config or the memory of the server learns no key.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Pass, Principal, Unauthorized};
use crate::tasks::task::Owner;

/// Which key stands for whom. A principal can have several keys, so that one can be replaced while both work.
#[derive(Clone, Default)]
pub struct ApiKeys {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    digest: [u8; 32],
    owner: Owner,
}

/// A key in the config that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// It is no digest.
    #[error(
        "the key of {0:?} must be the SHA-256 of the key in 64 hexadecimal digits (printf %s KEY | sha256sum)"
    )]
    NoDigest(String),
    /// Nobody could say who is asking.
    #[error("{0:?} and {1:?} have the same key; give each its own")]
    Shared(String, String),
}

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.owner)).finish()
    }
}

impl ApiKeys {
    /// Takes pairs of a principal's name and the SHA-256 of a key, in hexadecimal.
    ///
    /// # Errors
    /// See [`BadKey`].
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, BadKey> {
        let mut keys: Vec<Key> = Vec::new();
        for (principal, hex) in pairs {
            let digest = data_encoding::HEXLOWER_PERMISSIVE
                .decode(hex.as_bytes())
                .ok()
                .and_then(|digest| <[u8; 32]>::try_from(digest).ok())
                .ok_or_else(|| BadKey::NoDigest(principal.to_owned()))?;
            let owner = Owner::new(principal);
            if let Some(other) = keys.iter().find(|key| key.digest == digest && key.owner != owner) {
                return Err(BadKey::Shared(other.owner.as_str().to_owned(), principal.to_owned()));
            }
            keys.push(Key { digest, owner });
        }
        Ok(Self { keys })
    }

    /// Whose key this is. It takes as long for a wrong key as for a right one.
    pub(super) fn principal(&self, key: &[u8]) -> Result<Principal, Unauthorized> {
        self.principal_of(Sha256::digest(key).into())
    }

    /// Whose key has this digest.
    pub(super) fn principal_of(&self, digest: [u8; 32]) -> Result<Principal, Unauthorized> {
        let mut found = None;
        for key in &self.keys {
            if bool::from(key.digest.ct_eq(&digest)) {
                found = Some(&key.owner);
            }
        }
        let owner = found.ok_or(Unauthorized::Unknown)?;
        Ok(Principal { owner: owner.clone(), identified: true, pass: Pass(Some(digest)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Authenticator;

    fn digest(key: &str) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(key))
    }

    #[test]
    fn a_key_stands_for_its_principal() {
        let (a, a2, b) = (digest("a"), digest("a2").to_uppercase(), digest("b"));
        let keys = ApiKeys::new([("ann", a.as_str()), ("ann", &a2), ("bob", &b)]).unwrap();
        assert_eq!(format!("{keys:?}"), "[ann, ann, bob]");
        let auth = Authenticator::ApiKeys(keys);
        for (header, owner) in [("Bearer a", "ann"), ("bearer  a2 ", "ann"), ("BEARER b", "bob")] {
            let principal = auth.authenticate(Some(header.as_bytes())).unwrap();
            assert_eq!((principal.owner.as_str(), principal.identified), (owner, true));
        }
        for (header, why) in [
            (None, Unauthorized::Missing),
            (Some("a"), Unauthorized::Form),
            (Some("Bearer "), Unauthorized::Form),
            (Some("Basic abc"), Unauthorized::Form),
            (Some("Bearer c"), Unauthorized::Unknown),
        ] {
            assert_eq!(auth.authenticate(header.map(str::as_bytes)), Err(why), "{header:?}");
        }
    }

    #[test]
    fn refuses_keys_that_cannot_work() {
        assert_eq!(ApiKeys::new([("ann", "secret")]).unwrap_err(), BadKey::NoDigest("ann".to_owned()));
        let same = digest("a");
        assert_eq!(
            ApiKeys::new([("ann", same.as_str()), ("bob", &same)]).unwrap_err(),
            BadKey::Shared("ann".to_owned(), "bob".to_owned())
        );
    }
}
