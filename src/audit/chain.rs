//! The hash chain: each line contains the hash of the line before and its own. So a changed, removed, moved
//! or inserted line is detectable. Pure: it must not know where lines are stored or what they mean.
//!
//! A line is one JSON object. Its last field is `hash`, in 64 hexadecimal digits: the SHA-256 of the line
//! without that field, or its HMAC-SHA-256 if there is a key. No canonical form is needed, since the exact
//! bytes are hashed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The previous hash in the first line of a chain.
pub const ZERO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The text before the hash at the end of a line.
const HASH_PREFIX: &str = ",\"hash\":\"";
/// The text after it.
const HASH_SUFFIX: &str = "\"}";

/// The key of the hashes. Its debug output does not reveal it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key(Option<[u8; 32]>);

impl Key {
    /// Derives the key from a secret, which must be long and random.
    pub fn of(secret: &str) -> Self {
        Self(Some(Sha256::new().chain_update(b"taskbridge audit").chain_update(secret).finalize().into()))
    }

    /// Returns true if the hashes cannot be computed without a secret.
    pub fn is_secret(&self) -> bool {
        self.0.is_some()
    }

    fn hash(&self, text: &[u8]) -> String {
        let Some(key) = &self.0 else { return digest(text) };
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(text);
        data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes())
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_secret() { "Key(hidden)" } else { "Key(none)" })
    }
}

/// Returns the SHA-256 of some bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The current end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The random id of the chain.
    pub chain: String,
    /// The number of its last line; 0 for an empty chain.
    pub seq: u64,
    /// The hash of its last line.
    pub hash: String,
}

impl Head {
    /// Creates the head of an empty chain.
    pub fn new(chain: String) -> Self {
        Self { chain, seq: 0, hash: ZERO_HASH.to_owned() }
    }

    /// Turns a JSON object with at least one field into the next line, and advances the head.
    #[must_use]
    pub fn link(&mut self, key: &Key, object: &str) -> String {
        let fields = object.strip_suffix('}').unwrap_or(object);
        let (chain, seq, prev) = (&self.chain, self.seq + 1, &self.hash);
        // A chain id is hexadecimal, so it needs no escaping.
        let body = format!("{fields},\"chain\":\"{chain}\",\"seq\":{seq},\"prev\":\"{prev}\"");
        let hash = key.hash(format!("{body}}}").as_bytes());
        let line = format!("{body}{HASH_PREFIX}{hash}{HASH_SUFFIX}");
        (self.seq, self.hash) = (seq, hash);
        line
    }
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its chain, number and hash, as the line states them.
    pub head: Head,
    /// The hash of the line before, as the line states it.
    pub prev: String,
    /// The kind of event.
    pub event: String,
    /// The time of the event.
    pub time: String,
    /// The fields that are specific to the kind.
    pub detail: serde_json::Value,
    /// True if its hash is correct for this key.
    pub is_intact: bool,
}

/// The fields that are needed here. A duplicate field makes the line unreadable.
#[derive(Deserialize)]
struct Fields {
    time: String,
    event: String,
    #[serde(default)]
    detail: serde_json::Value,
    chain: String,
    seq: u64,
    prev: String,
}

/// Parses a line without its line break. Returns `None` if it is not a line of an audit log.
pub fn parse(key: &Key, line: &str) -> Option<Line> {
    let (body, hash) = line.strip_suffix(HASH_SUFFIX)?.rsplit_once(HASH_PREFIX)?;
    let object = format!("{body}}}");
    let Fields { time, event, detail, chain, seq, prev } = serde_json::from_str(&object).ok()?;
    let is_hash =
        |text: &str| text.len() == ZERO_HASH.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_intact = is_hash(hash) && is_hash(&prev) && key.hash(object.as_bytes()) == hash;
    Some(Line { head: Head { chain, seq, hash: hash.to_owned() }, prev, event, time, detail, is_intact })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of a line is the SHA-256 of its text, which a shell can compute.
    #[test]
    fn audit_hash_is_reproducible() {
        let mut head = Head::new("c0".to_owned());
        let line = head.link(&Key::default(), r#"{"version":1,"time":"t","event":"e"}"#);
        let without =
            format!(r#"{{"version":1,"time":"t","event":"e","chain":"c0","seq":1,"prev":"{ZERO_HASH}"}}"#);
        assert_eq!(head.hash, digest(without.as_bytes()));
        let parsed = parse(&Key::default(), &line).unwrap();
        assert_eq!((parsed.head, parsed.prev.as_str(), parsed.is_intact), (head, ZERO_HASH, true));
    }

    /// A line that was written with a key is not valid without it or with another one.
    #[test]
    fn audit_hash_requires_its_key() {
        let (key, other) = (Key::of("a long and random secret"), Key::of("another"));
        let line = Head::new("c".to_owned()).link(&key, r#"{"time":"t","event":"e"}"#);
        assert!(parse(&key, &line).unwrap().is_intact);
        assert!(!parse(&other, &line).unwrap().is_intact);
        assert!(!parse(&Key::default(), &line).unwrap().is_intact);
        assert_eq!(format!("{key:?} {:?}", Key::default()), "Key(hidden) Key(none)");
    }

    /// A line that is cut at any byte, or has a duplicate member, is not read.
    #[test]
    fn truncated_audit_line_is_invalid() {
        let line = Head::new("c".to_owned()).link(&Key::default(), r#"{"time":"t","event":"e"}"#);
        for end in 0..line.len() {
            assert_eq!(parse(&Key::default(), &line[..end]), None, "cut after {end}");
        }
        let twice = line.replace("\"time\":\"t\"", "\"time\":\"t\",\"time\":\"u\"");
        assert_eq!(parse(&Key::default(), &twice), None);
    }
}
