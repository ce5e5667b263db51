//! Sealing: what leaves the process and must come back unchanged and unread (session ids, cursors, event ids,
//! question ids), and what lies in a row and must not be read there (sensitive arguments).
//!
//! One mechanism for all: XChaCha20-Poly1305 with the purpose as associated data, so that what was sealed for one
//! purpose opens for no other. The sealed form is URL-safe base64 without padding.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::clock::{self, Entropy};

const NONCE_BYTES: usize = 24;

/// What something is sealed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A session id.
    Session,
    /// A place in a list.
    Cursor,
    /// An event id of a stream.
    Event,
    /// The JSON-RPC id of a question that is sent to a client.
    Question,
    /// Sensitive arguments in a row.
    Arguments,
    /// What was learned in one round of a request, on its way to the next.
    State,
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
        }
    }
}

/// Seals and opens with one key. Cheap to clone; it prints nothing of the key.
#[derive(Clone)]
pub struct Seal {
    cipher: Arc<XChaCha20Poly1305>,
    digest_key: [u8; 32],
    entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    /// A seal with this key.
    pub fn new(key: &[u8; 32], entropy: Arc<dyn Entropy>) -> Self {
        let digest_key = Sha256::new().chain_update(b"taskbridge digest").chain_update(key).finalize().into();
        Self { cipher: Arc::new(XChaCha20Poly1305::new(key.into())), digest_key, entropy }
    }

    /// A digest that only holders of the key can make: 64 hexadecimal digits. The same parts give the same digest.
    pub fn digest(&self, parts: &[&str]) -> String {
        let mut hasher = Sha256::new().chain_update(self.digest_key);
        for part in parts {
            // The lengths keep ["ab", "c"] apart from ["a", "bc"].
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        data_encoding::HEXLOWER.encode(&hasher.finalize())
    }

    /// Random text that equals no other: 48 hexadecimal digits.
    pub fn nonce(&self) -> String {
        data_encoding::HEXLOWER.encode(&clock::random::<NONCE_BYTES>(&*self.entropy))
    }

    /// Seals a value: visible ASCII only, about a third longer than its JSON plus 54 characters.
    pub fn seal<T: Serialize>(&self, purpose: Purpose, value: &T) -> String {
        let plain =
            serde_json::to_vec(value).expect("sealed types have string keys and no failing serializers");
        let nonce: [u8; NONCE_BYTES] = clock::random(&*self.entropy);
        let payload = Payload { msg: &plain, aad: purpose.label() };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("the cipher refuses only messages of 256 GiB and more");
        let mut bytes = nonce.to_vec();
        bytes.extend_from_slice(&sealed);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Opens what was sealed for this purpose with this key; `None` for anything else.
    pub fn open<T: DeserializeOwned>(&self, purpose: Purpose, text: &str) -> Option<T> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let payload = Payload { msg: sealed, aad: purpose.label() };
        let plain = self.cipher.decrypt(&XNonce::from(nonce), payload).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;

    #[test]
    fn opens_only_what_it_sealed_for_that_purpose() {
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

    #[test]
    fn digests_depend_on_every_part_and_on_the_key() {
        let seal = Seal::new(&[7; 32], System::entropy());
        let digest = seal.digest(&["ab", "c"]);
        assert_eq!(digest.len(), 64);
        assert_eq!(digest, Seal::new(&[7; 32], System::entropy()).digest(&["ab", "c"]));
        assert_ne!(digest, seal.digest(&["a", "bc"]));
        assert_ne!(digest, seal.digest(&["ab", "c", ""]));
        assert_ne!(digest, Seal::new(&[8; 32], System::entropy()).digest(&["ab", "c"]));
        assert_ne!(seal.nonce(), seal.nonce());
    }
}
