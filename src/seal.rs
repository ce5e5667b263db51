//! Sealing encrypts values that leave the process and must come back unchanged and unread: session ids,
//! cursors, event ids, question ids, and the state between two rounds of a request. It also encrypts values
//! in rows that must not be readable there: sensitive arguments.
//!
//! One mechanism for all: XChaCha20-Poly1305 with the purpose as associated data, so that a value sealed
//! for one purpose opens for no other. The sealed form is URL-safe base64 without padding.
//!
//! There can be several keys: the first seals, and each opens. So replicas of one store can rotate keys
//! while values sealed with the old key remain valid.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::clock::{self, Entropy};
use crate::current::Current;

const NONCE_BYTES: usize = 24;

/// The purpose of a sealed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A session id.
    Session,
    /// A list cursor.
    Cursor,
    /// An event id of a stream.
    Event,
    /// The JSON-RPC id of a question that is sent to a client.
    Question,
    /// Sensitive arguments in a row.
    Arguments,
    /// The state that one round of a request passes to the next.
    State,
    /// The session of a browser in the console.
    Console,
    /// A sign-in that a browser has begun at an issuer.
    SignIn,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Purpose::Session => b"session",
            Purpose::Cursor => b"cursor",
            Purpose::Event => b"event",
            Purpose::Question => b"question",
            Purpose::Arguments => b"arguments",
            Purpose::State => b"state",
            Purpose::Console => b"console",
            Purpose::SignIn => b"sign-in",
        }
    }
}

/// A key to seal and open with. Its debug output hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// The store's own key.
    Own,
    /// A configured key.
    Given(Zeroizing<[u8; 32]>),
}

impl Key {
    /// Derives the key of this secret. The secret must be long and random: the derivation does not make it
    /// harder to guess.
    pub fn of(secret: &str) -> Self {
        let bytes = Sha256::new().chain_update(b"taskbridge key").chain_update(secret).finalize();
        Key::Given(Zeroizing::new(bytes.into()))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Key::Own => "Own",
            Key::Given(_) => "Given(hidden)",
        })
    }
}

/// The current ciphers.
struct Ciphers {
    /// Seals and opens.
    first: XChaCha20Poly1305,
    /// Open only.
    others: Vec<XChaCha20Poly1305>,
    /// How often the keys were replaced.
    rotations: u64,
}

/// Seals with one key, and opens with that and others. Cheap to clone: clones share the keys, also after a
/// replacement. Its debug output hides the keys.
#[derive(Clone)]
pub struct Seal {
    ciphers: Arc<Current<Ciphers>>,
    own_key: Zeroizing<[u8; 32]>,
    digest_key: Zeroizing<[u8; 32]>,
    entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    /// Creates a seal with the store's own key.
    pub fn new(own_key: &[u8; 32], entropy: Arc<dyn Entropy>) -> Self {
        // Digests in rows are compared for as long as the rows exist, so they never use a key that can be
        // replaced.
        let digest_key =
            Sha256::new().chain_update(b"taskbridge digest").chain_update(own_key).finalize().into();
        let ciphers =
            Ciphers { first: XChaCha20Poly1305::new(own_key.into()), others: Vec::new(), rotations: 0 };
        let (own_key, digest_key) = (Zeroizing::new(*own_key), Zeroizing::new(digest_key));
        Self { ciphers: Arc::new(Current::new(ciphers)), own_key, digest_key, entropy }
    }

    /// Replaces the keys for all clones: the first seals, each opens. If the list is empty, the store's own
    /// key is used.
    pub fn replace(&self, keys: &[Key]) {
        let cipher = |key: &Key| match key {
            Key::Own => XChaCha20Poly1305::new((&*self.own_key).into()),
            Key::Given(bytes) => XChaCha20Poly1305::new((&**bytes).into()),
        };
        let (first, others) = keys.split_first().unwrap_or((&Key::Own, &[]));
        let rotations = self.rotations() + 1;
        let others = others.iter().map(cipher).collect();
        self.ciphers.replace(Ciphers { first: cipher(first), others, rotations });
    }

    /// Returns how often the keys were replaced: a value that was opened before a replacement may no longer
    /// open.
    pub fn rotations(&self) -> u64 {
        self.ciphers.get().rotations
    }

    /// Computes a digest that requires the store's own key: 64 hexadecimal digits. Equal parts give an
    /// equal digest.
    pub fn digest(&self, parts: &[&str]) -> String {
        let mut hasher = Sha256::new().chain_update(*self.digest_key);
        for part in parts {
            // The lengths distinguish ["ab", "c"] from ["a", "bc"].
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        data_encoding::HEXLOWER.encode(&hasher.finalize())
    }

    /// Returns unique random text: 48 hexadecimal digits.
    pub fn nonce(&self) -> String {
        data_encoding::HEXLOWER.encode(&clock::random::<NONCE_BYTES>(&*self.entropy))
    }

    /// Seals a value: visible ASCII only, about a third longer than its JSON plus 54 characters.
    pub fn seal<T: Serialize>(&self, purpose: Purpose, value: &T) -> String {
        let plaintext =
            serde_json::to_vec(value).expect("sealed types have string keys and no failing serializers");
        let nonce: [u8; NONCE_BYTES] = clock::random(&*self.entropy);
        let payload = Payload { msg: &plaintext, aad: purpose.label() };
        let ciphers = self.ciphers.get();
        let ciphertext = ciphers
            .first
            .encrypt(&XNonce::from(nonce), payload)
            .expect("the cipher refuses only messages of 256 GiB and more");
        let mut bytes = nonce.to_vec();
        bytes.extend_from_slice(&ciphertext);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Opens a value that was sealed for this purpose with one of the keys; `None` for anything else.
    pub fn open<T: DeserializeOwned>(&self, purpose: Purpose, text: &str) -> Option<T> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, ciphertext) = bytes.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let (nonce, ciphers) = (XNonce::from(nonce), self.ciphers.get());
        let open = |cipher: &XChaCha20Poly1305| {
            cipher.decrypt(&nonce, Payload { msg: ciphertext, aad: purpose.label() }).ok()
        };
        let plaintext = std::iter::once(&ciphers.first).chain(&ciphers.others).find_map(open)?;
        serde_json::from_slice(&plaintext).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;

    /// A text sealed with another key or for another purpose does not open, and neither does a changed byte.
    #[test]
    fn seal_opens_only_its_own_purpose() {
        let seal = Seal::new(&[7; 32], System::entropy());
        let text = seal.seal(Purpose::Cursor, &("a", 1));
        assert_eq!(seal.open(Purpose::Cursor, &text), Some(("a".to_owned(), 1)));
        assert_eq!(seal.open::<(String, i32)>(Purpose::Session, &text), None);
        assert_eq!(
            Seal::new(&[8; 32], System::entropy()).open::<(String, i32)>(Purpose::Cursor, &text),
            None
        );
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(seal.open::<(String, i32)>(Purpose::Cursor, &forged), None, "byte {at}");
        }
    }

    /// The digest changes with the split of its parts, with an empty part and with the key.
    #[test]
    fn digest_depends_on_parts_and_key() {
        let seal = Seal::new(&[7; 32], System::entropy());
        let digest = seal.digest(&["ab", "c"]);
        assert_eq!(digest.len(), 64);
        assert_eq!(digest, Seal::new(&[7; 32], System::entropy()).digest(&["ab", "c"]));
        assert_ne!(digest, seal.digest(&["a", "bc"]));
        assert_ne!(digest, seal.digest(&["ab", "c", ""]));
        assert_ne!(digest, Seal::new(&[8; 32], System::entropy()).digest(&["ab", "c"]));
        assert_ne!(seal.nonce(), seal.nonce());
    }

    /// Digests stay the same when the keys are replaced.
    #[test]
    fn first_key_seals_every_key_opens() {
        let (old, new) = (Key::of("the old one"), Key::of("the new one"));
        let seal = Seal::new(&[7; 32], System::entropy());
        let (clone, digest) = (seal.clone(), seal.digest(&["a"]));
        let sealed = |by: &Seal| by.seal(Purpose::Cursor, &1);
        let opens = |by: &Seal, text: &str| by.open(Purpose::Cursor, text) == Some(1);
        let by_own = sealed(&seal);
        clone.replace(&[old.clone(), Key::Own]);
        let by_old = sealed(&seal);
        assert!(opens(&seal, &by_old) && opens(&seal, &by_own) && seal.rotations() == 1);
        clone.replace(&[old.clone(), new.clone()]);
        assert!(opens(&seal, &by_old) && !opens(&seal, &by_own));
        clone.replace(&[new.clone(), old]);
        let by_new = sealed(&seal);
        assert!(opens(&seal, &by_old) && opens(&seal, &by_new));
        clone.replace(&[new]);
        assert!(!opens(&seal, &by_old) && opens(&seal, &by_new));
        clone.replace(&[]);
        assert!(opens(&seal, &by_own) && !opens(&seal, &by_new));
        assert_eq!(seal.digest(&["a"]), digest, "digests outlive keys");
        assert_eq!(format!("{:?}", Key::of("hush")), "Given(hidden)");
    }
}
