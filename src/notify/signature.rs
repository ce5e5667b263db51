//! Signatures by the Standard Webhooks scheme (`v1`): HMAC-SHA256 over id, timestamp and body. A receiver
//! can verify the sender and the time with an existing library. A key never leaves this module.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The prefix of every secret.
const PREFIX: &str = "whsec_";

/// The valid key lengths in bytes, by the scheme.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A key that sender and receiver share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<Vec<u8>>);

/// The error for a text that is not a secret of this scheme. The text is not repeated.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "not a Standard Webhooks secret: write `whsec_` and 24 to 64 random bytes in Base64, such as \
     `echo \"whsec_$(openssl rand -base64 32)\"` prints"
)]
pub struct BadSecret;

impl Key {
    /// Parses the key from a secret.
    ///
    /// # Errors
    /// If the text is not a valid secret.
    pub fn of(secret: &str) -> Result<Self, BadSecret> {
        let text = secret.strip_prefix(PREFIX).ok_or(BadSecret)?;
        let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| BadSecret)?);
        if LENGTHS.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(BadSecret) }
    }

    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// Returns the header `webhook-signature`: one signature per key, so that a receiver needs to know only one
/// of them.
pub(super) fn header(keys: &[Key], id: &str, seconds: i64, body: &[u8]) -> String {
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, seconds, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the scheme's own libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The signature equals the example of the Standard Webhooks libraries.
    #[test]
    fn webhook_signature_matches_reference() {
        let key = Key::of(SECRET).unwrap();
        let signed =
            header(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// During a key rotation, the header has one signature per key.
    #[test]
    fn each_webhook_key_adds_signature() {
        let other = format!("{PREFIX}{}", STANDARD.encode([7; 32]));
        let keys = [Key::of(SECRET).unwrap(), Key::of(&other).unwrap()];
        let both = header(&keys, "m", 1, b"{}");
        let each = keys.each_ref().map(|key| header(std::slice::from_ref(key), "m", 1, b"{}"));
        assert_eq!(both, each.join(" "));
        assert_ne!(each[0], each[1]);
    }

    /// The error states the expected form and does not repeat the text.
    #[test]
    fn invalid_webhook_secret_is_not_shown() {
        for wrong in
            ["", "hunter2", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
        {
            let error = Key::of(wrong).unwrap_err().to_string();
            assert!(error.contains("24 to 64") && !error.contains("hunter2"), "{wrong}");
        }
        assert_eq!(format!("{:?}", Key::of(SECRET).unwrap()), "Key(hidden)");
    }
}
