//! API keys. Only their digests are kept: whoever reads the config or the memory of the server learns no key.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Identity, Pass, Principal, Unauthorized};
use crate::tasks::task::Owner;

/// Which key stands for whom. A principal can have several keys, so that one can be replaced while both work.
#[derive(Clone, Default)]
pub struct ApiKeys {
    keys: Vec<Known>,
}

#[derive(Clone)]
struct Known {
    digest: [u8; 32],
    owner: Owner,
    who: Arc<Identity>,
}

/// A key, and whom it stands for. The owner is its name.
#[derive(Clone, Debug)]
pub struct Key {
    sha256: String,
    who: Identity,
}

impl Key {
    /// The key of which this is the SHA-256, in hexadecimal.
    pub fn new(sha256: &str, who: Identity) -> Self {
        Self { sha256: sha256.to_owned(), who }
    }
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
    /// Takes the keys.
    ///
    /// # Errors
    /// See [`BadKey`].
    pub fn new(given: impl IntoIterator<Item = Key>) -> Result<Self, BadKey> {
        let mut keys: Vec<Known> = Vec::new();
        for Key { sha256, who } in given {
            let digest = data_encoding::HEXLOWER_PERMISSIVE
                .decode(sha256.as_bytes())
                .ok()
                .and_then(|digest| <[u8; 32]>::try_from(digest).ok())
                .ok_or_else(|| BadKey::NoDigest(who.name.clone()))?;
            let owner = Owner::new(&who.name);
            if let Some(other) = keys.iter().find(|key| key.digest == digest && key.owner != owner) {
                return Err(BadKey::Shared(other.owner.as_str().to_owned(), who.name));
            }
            keys.push(Known { digest, owner, who: Arc::new(who) });
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
                found = Some(key);
            }
        }
        let Known { owner, who, .. } = found.ok_or(Unauthorized::Unknown)?;
        let (owner, who) = (owner.clone(), Arc::clone(who));
        Ok(Principal { owner, identified: true, pass: Pass(Some(digest)), who, from: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Authenticator;
    use crate::auth::tests::shown;

    fn digest(key: &str) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(key))
    }

    #[test]
    fn a_key_stands_for_its_principal() {
        let (a, a2, b) = (digest("a"), digest("a2").to_uppercase(), digest("b"));
        let groups = ["release".to_owned()].into();
        let bob = Identity { groups, ..Identity::named("bob") };
        let ann = || Identity::named("ann");
        let keys =
            ApiKeys::new([Key::new(&a, ann()), Key::new(&a2, ann()), Key::new(&b, bob.clone())]).unwrap();
        assert_eq!(format!("{keys:?}"), "[ann, ann, bob]");
        let auth = Authenticator::ApiKeys(keys);
        for (header, owner) in [("Bearer a", "ann"), ("bearer  a2 ", "ann"), ("BEARER b", "bob")] {
            let principal = shown(&auth, Some(header)).unwrap();
            assert_eq!((principal.owner.as_str(), principal.identified), (owner, true));
            assert_eq!(*principal.who, if owner == "bob" { bob.clone() } else { ann() });
            assert_eq!(principal.from, Some([192, 0, 2, 7].into()));
        }
        for (header, why) in [
            (None, Unauthorized::Missing),
            (Some("a"), Unauthorized::Form),
            (Some("Bearer "), Unauthorized::Form),
            (Some("Basic abc"), Unauthorized::Form),
            (Some("Bearer c"), Unauthorized::Unknown),
        ] {
            assert_eq!(shown(&auth, header), Err(why), "{header:?}");
        }
    }

    #[test]
    fn refuses_keys_that_cannot_work() {
        let key = |name, sha256: &str| Key::new(sha256, Identity::named(name));
        assert_eq!(ApiKeys::new([key("ann", "secret")]).unwrap_err(), BadKey::NoDigest("ann".to_owned()));
        let same = digest("a");
        assert_eq!(
            ApiKeys::new([key("ann", &same), key("bob", &same)]).unwrap_err(),
            BadKey::Shared("ann".to_owned(), "bob".to_owned())
        );
    }
}
