//! API keys. Only their digests are kept: neither the config nor the server's memory reveals a key.

use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use taskbridge_sdk::Timestamp;
use zeroize::Zeroizing;

use super::{CallerCredential, CredentialKind, Identity, Principal, Unauthorized};
use crate::clock::{self, Clock, Entropy, System};
use crate::tasks::task::Owner;

/// Prefix of generated keys, so that secret scanners find leaked ones.
const PREFIX: &str = "tb_";

/// Number of random bytes in a generated key.
const RANDOM_BYTES: usize = 32;

/// Maps API keys to principals. A principal can have several keys, so that a key can be rotated without
/// downtime.
#[derive(Clone)]
pub struct ApiKeys {
    keys: Vec<KeyEntry>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct KeyEntry {
    digest: [u8; 32],
    owner: Owner,
    identity: Arc<Identity>,
    expires_at: Option<Timestamp>,
}

/// An API key with its identity. The identity's name is the owner.
#[derive(Clone, Debug)]
pub struct Key {
    sha256: String,
    identity: Identity,
    expires_at: Option<Timestamp>,
}

impl Key {
    /// Creates a key from its SHA-256 digest in hexadecimal.
    pub fn new(sha256: &str, identity: Identity) -> Self {
        Self { sha256: sha256.to_owned(), identity, expires_at: None }
    }

    /// Sets the expiry.
    #[must_use]
    pub fn with_expiry(self, until: Option<Timestamp>) -> Self {
        Self { expires_at: until, ..self }
    }
}

/// Generates a key. Returns it with its SHA-256 in hexadecimal for the config.
pub fn generate(entropy: &dyn Entropy) -> (Zeroizing<String>, String) {
    let random: Zeroizing<[u8; RANDOM_BYTES]> = Zeroizing::new(clock::random(entropy));
    let key = Zeroizing::new(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&*random)));
    let sha256 = HEXLOWER.encode(&Sha256::digest(key.as_bytes()));
    (key, sha256)
}

/// Returns true if the text has the prefix of generated keys.
pub(super) fn is_generated_key(text: &[u8]) -> bool {
    text.starts_with(PREFIX.as_bytes())
}

/// A key in the config that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The value is not a digest.
    #[error(
        "the key of {0:?} must be the SHA-256 of the key in 64 hexadecimal digits (printf %s KEY | sha256sum)"
    )]
    InvalidDigest(String),
    /// Two owners share a key, so it identifies neither.
    #[error("{0:?} and {1:?} have the same key; give each its own")]
    Shared(String, String),
}

impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.owner)).finish()
    }
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self { keys: Vec::new(), clock: System::clock() }
    }
}

impl ApiKeys {
    /// Creates the map from keys.
    ///
    /// # Errors
    /// See [`InvalidKey`].
    pub fn new(entries: impl IntoIterator<Item = Key>) -> Result<Self, InvalidKey> {
        let mut keys: Vec<KeyEntry> = Vec::new();
        for Key { sha256, identity, expires_at } in entries {
            let digest = HEXLOWER_PERMISSIVE
                .decode(sha256.as_bytes())
                .ok()
                .and_then(|digest| <[u8; 32]>::try_from(digest).ok())
                .ok_or_else(|| InvalidKey::InvalidDigest(identity.name.clone()))?;
            let owner = Owner::new(&identity.name);
            if let Some(other) = keys.iter().find(|key| key.digest == digest && key.owner != owner) {
                return Err(InvalidKey::Shared(other.owner.as_str().to_owned(), identity.name));
            }
            keys.push(KeyEntry { digest, owner, identity: Arc::new(identity), expires_at });
        }
        Ok(Self { keys, ..Self::default() })
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Returns true if there is no key.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the principal of a key, in constant time for right and wrong keys.
    pub(super) fn principal(&self, key: &[u8]) -> Result<Principal, Unauthorized> {
        self.principal_by_digest(Sha256::digest(key).into())
    }

    /// Returns the principal of the key with this digest.
    pub(super) fn principal_by_digest(&self, digest: [u8; 32]) -> Result<Principal, Unauthorized> {
        let principal = self.find_principal(digest).ok_or(Unauthorized::UnknownKey)?;
        if principal.credential.expires_at.is_some_and(|expires_at| expires_at <= self.now()) {
            return Err(Unauthorized::KeyExpired);
        }
        Ok(principal)
    }

    /// Returns the principal of the key with this digest, even if it has expired.
    pub(super) fn find_principal(&self, digest: [u8; 32]) -> Option<Principal> {
        let mut matching = None;
        for key in &self.keys {
            if bool::from(key.digest.ct_eq(&digest)) {
                matching = Some(key);
            }
        }
        let KeyEntry { owner, identity, expires_at, .. } = matching?;
        let (owner, identity) = (owner.clone(), Arc::clone(identity));
        let credential = CallerCredential { kind: CredentialKind::Key(digest), expires_at: *expires_at };
        Some(Principal { owner, identified: true, credential, identity, client_address: None })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::Authenticator;
    use crate::auth::tests::authenticate;

    fn digest(key: &str) -> String {
        data_encoding::HEXLOWER.encode(&Sha256::digest(key))
    }

    #[test]
    fn api_key_authenticates_its_principal() {
        let (a, a2, b) = (digest("a"), digest("a2").to_uppercase(), digest("b"));
        let groups = ["release".to_owned()].into();
        let bob = Identity { groups, ..Identity::named("bob") };
        let ann = || Identity::named("ann");
        let keys =
            ApiKeys::new([Key::new(&a, ann()), Key::new(&a2, ann()), Key::new(&b, bob.clone())]).unwrap();
        assert_eq!(format!("{keys:?}"), "[ann, ann, bob]");
        let auth = Authenticator::ApiKeys(keys);
        for (header, owner) in [("Bearer a", "ann"), ("bearer  a2 ", "ann"), ("BEARER b", "bob")] {
            let principal = authenticate(&auth, Some(header)).unwrap();
            assert_eq!((principal.owner.as_str(), principal.identified), (owner, true));
            assert_eq!(*principal.identity, if owner == "bob" { bob.clone() } else { ann() });
            assert_eq!(principal.client_address, Some([192, 0, 2, 7].into()));
        }
        for (header, expected) in [
            (None, Unauthorized::Missing),
            (Some("a"), Unauthorized::Malformed),
            (Some("Bearer "), Unauthorized::Malformed),
            (Some("Basic abc"), Unauthorized::Malformed),
            (Some("Bearer a,Bearer a"), Unauthorized::Malformed),
            (Some("Bearer a a"), Unauthorized::Malformed),
            (Some("Bearer c"), Unauthorized::UnknownKey),
        ] {
            assert_eq!(authenticate(&auth, header), Err(expected), "{header:?}");
        }
    }

    /// A key of the generator has its prefix and 256 bits, and authenticates the principal of its digest.
    #[test]
    fn generated_key_is_long_and_recognizable() {
        let (key, sha256) = generate(&System);
        let (other, _) = generate(&System);
        assert!(key.starts_with("tb_") && key.len() == 3 + 43 && *key != *other, "{}", key.len());
        assert!(is_generated_key(key.as_bytes()) && !is_generated_key(b"eyJhbGciOiJub25lIn0"));
        let keys = ApiKeys::new([Key::new(&sha256, Identity::named("ann"))]).unwrap();
        assert_eq!(keys.principal(key.as_bytes()).unwrap().owner.as_str(), "ann");
    }

    /// A key authenticates until its `until`, and its remaining time is known.
    #[test]
    fn api_key_expires_on_time() {
        let sha256 = digest("a");
        let now = System.now();
        let minute = Duration::from_secs(60);
        for (expires_at, expected) in [(now + minute, None), (now - minute, Some(Unauthorized::KeyExpired))] {
            let key = Key::new(&sha256, Identity::named("ann")).with_expiry(Some(expires_at));
            let auth = Authenticator::ApiKeys(ApiKeys::new([key]).unwrap());
            let result = authenticate(&auth, Some("Bearer a"));
            assert_eq!(result.as_ref().err(), expected.as_ref());
            if let Ok(principal) = result {
                assert!(
                    auth.time_left(&principal, Duration::ZERO).is_some_and(|remaining| remaining <= minute)
                );
            }
        }
    }

    #[test]
    fn refuses_keys_that_cannot_work() {
        let key = |name, sha256: &str| Key::new(sha256, Identity::named(name));
        assert_eq!(
            ApiKeys::new([key("ann", "secret")]).unwrap_err(),
            InvalidKey::InvalidDigest("ann".to_owned())
        );
        let same = digest("a");
        assert_eq!(
            ApiKeys::new([key("ann", &same), key("bob", &same)]).unwrap_err(),
            InvalidKey::Shared("ann".to_owned(), "bob".to_owned())
        );
    }
}
