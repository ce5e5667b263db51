//! [`Proof`]: the headers that prove to a service who sends a message: a bearer token, or a signature by the
//! Standard Webhooks scheme (`v1`), which is HMAC-SHA256 over id, time and body. A secret never leaves this
//! module otherwise.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use sha2::Sha256;
use taskbridge_sdk::{Problem, same_secret};
use zeroize::Zeroizing;

use crate::config::Auth;
use crate::driver::wire::id_of;

/// The prefix of every signing secret.
const PREFIX: &str = "whsec_";
/// The valid lengths of a signing key in bytes, by the scheme.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// How much the clocks of two machines may differ, in seconds.
const MAX_SKEW: u64 = 300;

/// How messages are proven, in both directions.
pub(crate) enum Proof {
    Bearer(HeaderValue),
    Signature(Zeroizing<Vec<u8>>),
}

impl Proof {
    /// Reads the secret.
    ///
    /// # Errors
    /// The field that is wrong. The secret is not repeated.
    pub(crate) fn new(auth: &Auth) -> Result<Self, Problem> {
        let wrong =
            |field: &str, message: &str| Problem { field: field.to_owned(), message: message.to_owned() };
        match auth {
            Auth { bearer: Some(token), hmac: None } => {
                let header = format!("Bearer {}", token.reveal());
                match HeaderValue::from_str(&header) {
                    Ok(mut value) if header.len() > 7 => {
                        value.set_sensitive(true);
                        Ok(Self::Bearer(value))
                    }
                    _ => Err(wrong("auth.bearer", "must be a text of visible ASCII characters")),
                }
            }
            Auth { bearer: None, hmac: Some(secret) } => {
                let expected = "must be `whsec_` and 24 to 64 random bytes in Base64, such as \
                                `echo \"whsec_$(openssl rand -base64 32)\"` prints";
                key(secret.reveal()).map(Self::Signature).ok_or_else(|| wrong("auth.hmac", expected))
            }
            _ => Err(wrong("auth", "must have either `bearer` or `hmac`")),
        }
    }

    /// Returns true if a message that the service sent has a proof. `header` returns the value of a header,
    /// whose name is in lower case.
    pub(crate) fn accepts<'a>(&self, header: impl Fn(&str) -> Option<&'a str>, body: &[u8]) -> bool {
        let text = |name| header(name).unwrap_or_default();
        match self {
            Self::Bearer(token) => same_secret(text("authorization").as_bytes(), token.as_bytes()),
            Self::Signature(key) => {
                let Ok(seconds) = text("webhook-timestamp").parse::<i64>() else { return false };
                let expected = sign(key, text("webhook-id"), seconds, body);
                let is_recent = jiff::Timestamp::now().as_second().abs_diff(seconds) <= MAX_SKEW;
                let mut signatures = text("webhook-signature").split(' ');
                is_recent && signatures.any(|given| same_secret(given.as_bytes(), expected.as_bytes()))
            }
        }
    }

    /// Returns the headers of a message.
    pub(super) fn headers(&self, message: &[u8]) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::Bearer(token) => vec![(AUTHORIZATION, token.clone())],
            Self::Signature(key) => {
                let now = jiff::Timestamp::now();
                let id = format!("{}-{}", now.as_nanosecond(), id_of(message).unwrap_or_default());
                let seconds = now.as_second();
                let signature = sign(key, &id, seconds, message);
                let header = |name, value: &str| {
                    // Digits, Base64 and punctuation are valid in a header.
                    HeaderValue::from_str(value).ok().map(|value| (HeaderName::from_static(name), value))
                };
                let headers = [
                    header("webhook-id", &id),
                    header("webhook-timestamp", &seconds.to_string()),
                    header("webhook-signature", &signature),
                ];
                headers.into_iter().flatten().collect()
            }
        }
    }
}

fn key(secret: &str) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = Zeroizing::new(STANDARD.decode(secret.strip_prefix(PREFIX)?).ok()?);
    LENGTHS.contains(&bytes.len()).then_some(bytes)
}

fn sign(key: &[u8], id: &str, seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::Secret;

    use super::*;

    fn auth(bearer: Option<&str>, hmac: Option<&str>) -> Auth {
        Auth { bearer: bearer.map(Secret::from), hmac: hmac.map(Secret::from) }
    }

    /// The signature equals the example of the Standard Webhooks libraries.
    #[test]
    fn signature_matches_reference() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// The error names the field and does not repeat the secret.
    #[test]
    fn wrong_secret_is_not_shown() {
        for wrong in [auth(None, None), auth(Some("a"), Some("b")), auth(Some("hunter2\n"), None)] {
            let error = Proof::new(&wrong).err().unwrap();
            assert!(error.field.starts_with("auth") && !error.message.contains("hunter2"), "{error:?}");
        }
        for wrong in ["", "hunter2", "whsec_!!!", "whsec_c2hvcnQ="] {
            let error = Proof::new(&auth(None, Some(wrong))).err().unwrap();
            assert!(error.message.contains("24 to 64") && !error.message.contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn each_message_has_its_own_signature() {
        let proof = Proof::new(&auth(None, Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))).unwrap();
        let (first, second) = (proof.headers(b"{\"id\":1}"), proof.headers(b"{\"id\":1}"));
        assert_eq!(first.len(), 3);
        assert_ne!(first[0], second[0]);
    }

    /// What one side sends, the other accepts, and nothing else.
    #[test]
    fn proofs_are_verified() {
        for auth in [auth(Some("b"), None), auth(None, Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))] {
            let (proof, body) = (Proof::new(&auth).unwrap(), b"{}".as_slice());
            let headers = proof.headers(body);
            let find = |name: &str| {
                let found = headers.iter().find(|(known, _)| known.as_str() == name);
                found.and_then(|(_, value)| value.to_str().ok())
            };
            assert!(proof.accepts(find, body));
            assert!(!proof.accepts(|_| None, body));
            let late = |name: &str| if name == "webhook-timestamp" { Some("1600000000") } else { find(name) };
            assert_eq!(proof.accepts(late, body), auth.bearer.is_some());
            assert_eq!(proof.accepts(find, b"{} "), auth.bearer.is_some());
        }
    }
}
