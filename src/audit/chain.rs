//! The chain: each line names the hash of the one before and bears its own, so that a line that was changed, removed,
//! moved or put in between shows. Pure: it must not know where lines are kept or what they tell.
//!
//! A line is one JSON object. Its last field is `hash`, in 64 hexadecimal digits: the SHA-256 of the line without that
//! field, or its HMAC-SHA-256 where there is a key. Nothing has to be brought into a canonical form for that, since the very
//! bytes are hashed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What the first line of a chain names as the hash before it.
pub const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What stands before the hash at the end of a line.
const BEFORE: &str = ",\"hash\":\"";
/// The same, after it.
const AFTER: &str = "\"}";

/// What hashes are made with. It prints nothing of a key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key(Option<[u8; 32]>);

impl Key {
    /// The key that this secret stands for. It must be long and random.
    pub fn of(secret: &str) -> Self {
        Self(Some(Sha256::new().chain_update(b"taskbridge audit").chain_update(secret).finalize().into()))
    }

    /// True if somebody who has no key cannot make the hashes.
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

/// The SHA-256 of some bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Where a chain ends for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Names the chain: random.
    pub chain: String,
    /// The number of its last line; 0 before there is one.
    pub seq: u64,
    /// The hash of its last line.
    pub hash: String,
}

impl Head {
    /// A chain without a line.
    pub fn new(chain: String) -> Self {
        Self { chain, seq: 0, hash: NOTHING.to_owned() }
    }

    /// Makes a line of an object in JSON that has at least one field, and ends here from then on.
    #[must_use]
    pub fn link(&mut self, key: &Key, object: &str) -> String {
        let fields = object.strip_suffix('}').unwrap_or(object);
        let (chain, seq, prev) = (&self.chain, self.seq + 1, &self.hash);
        // The name of a chain is hexadecimal: nothing of it needs an escape.
        let open = format!("{fields},\"chain\":\"{chain}\",\"seq\":{seq},\"prev\":\"{prev}\"");
        let hash = key.hash(format!("{open}}}").as_bytes());
        let line = format!("{open}{BEFORE}{hash}{AFTER}");
        (self.seq, self.hash) = (seq, hash);
        line
    }
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The chain that it says it is of, and its place there.
    pub at: Head,
    /// The hash that it names as the one before.
    pub prev: String,
    /// What it tells of.
    pub event: String,
    /// When that was.
    pub time: String,
    /// What it says beside.
    pub detail: serde_json::Value,
    /// True if it bears the hash that this key gives it.
    pub is_whole: bool,
}

/// The fields of a line that matter here. One that stands there twice makes it unreadable.
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

/// Reads a line without its end. `None` if it is none of an audit log.
pub fn read(key: &Key, line: &str) -> Option<Line> {
    let (open, hash) = line.strip_suffix(AFTER)?.rsplit_once(BEFORE)?;
    let object = format!("{open}}}");
    let Fields { time, event, detail, chain, seq, prev } = serde_json::from_str(&object).ok()?;
    let is_hash =
        |text: &str| text.len() == NOTHING.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_whole = is_hash(hash) && is_hash(&prev) && key.hash(object.as_bytes()) == hash;
    Some(Line { at: Head { chain, seq, hash: hash.to_owned() }, prev, event, time, detail, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_bears_a_hash_that_a_shell_can_make() {
        let mut head = Head::new("c0".to_owned());
        let line = head.link(&Key::default(), r#"{"version":1,"time":"t","event":"e"}"#);
        let without =
            format!(r#"{{"version":1,"time":"t","event":"e","chain":"c0","seq":1,"prev":"{NOTHING}"}}"#);
        assert_eq!(head.hash, digest(without.as_bytes()));
        let read = read(&Key::default(), &line).unwrap();
        assert_eq!((read.at, read.prev.as_str(), read.is_whole), (head, NOTHING, true));
    }

    #[test]
    fn who_has_no_key_makes_no_hash_that_counts() {
        let (key, other) = (Key::of("a long and random secret"), Key::of("another"));
        let line = Head::new("c".to_owned()).link(&key, r#"{"time":"t","event":"e"}"#);
        assert!(read(&key, &line).unwrap().is_whole);
        assert!(!read(&other, &line).unwrap().is_whole);
        assert!(!read(&Key::default(), &line).unwrap().is_whole);
        assert_eq!(format!("{key:?} {:?}", Key::default()), "Key(hidden) Key(none)");
    }

    #[test]
    fn what_is_no_line_is_not_read_as_one() {
        let line = Head::new("c".to_owned()).link(&Key::default(), r#"{"time":"t","event":"e"}"#);
        for end in 0..line.len() {
            assert_eq!(read(&Key::default(), &line[..end]), None, "cut after {end}");
        }
        let twice = line.replace("\"time\":\"t\"", "\"time\":\"t\",\"time\":\"u\"");
        assert_eq!(read(&Key::default(), &twice), None);
    }
}
