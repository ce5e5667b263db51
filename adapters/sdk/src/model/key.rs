//! [`JobKey`]: our name for a job, in each form that engines need. It must not create randomness: the caller
//! passes it in.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Idempotency key of one job: `tb-` and 26 lower-case base-32 characters (128 random bits).
///
/// It is random and differs from the task id. A task id may act as a bearer secret, while the key appears in
/// job names that every user of the engine can read. It is valid in file names, in DNS labels and in the
/// names of every engine.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct JobKey(String);

impl JobKey {
    /// Creates a key from 16 random bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let text = data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase();
        Self(format!("tb-{text}"))
    }

    /// Parses a key that an engine returned, such as in the path of a hook. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self::from_bytes(decode_key(text)?)).filter(|key| key.0 == text)
    }

    /// Returns the key in the form that engines see.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key as a UUID of version 4, for engines whose idempotency key must be one. It is the same
    /// for every call, and has 122 of the key's random bits.
    pub fn as_uuid(&self) -> String {
        let mut bytes = decode_key(&self.0).unwrap_or_else(|| fold_text(&self.0));
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = data_encoding::HEXLOWER.encode(&bytes);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Returns the first `length` characters of the key, for engines whose names must be short. At least 16
    /// are returned, which contain 65 random bits: fewer could name two jobs.
    pub fn short(&self, length: usize) -> &str {
        let end = length.max(Self::MIN_SHORT).min(self.0.len());
        &self.0[..self.0.floor_char_boundary(end)]
    }

    /// Minimum length of [`JobKey::short`], in characters.
    pub const MIN_SHORT: usize = 16;
}

/// Returns the random bytes of a key.
fn decode_key(text: &str) -> Option<[u8; 16]> {
    let encoded = text.strip_prefix("tb-").filter(|encoded| encoded.len() == 26)?;
    data_encoding::BASE32_NOPAD.decode(encoded.to_ascii_uppercase().as_bytes()).ok()?.try_into().ok()
}

/// Folds a key of another shape, which only a row of a foreign tool can have, into 16 bytes (FNV-1a).
fn fold_text(text: &str) -> [u8; 16] {
    let fold =
        |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x1_0000_0000_0000_0000_0000_013b);
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fold).to_be_bytes()
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_other_forms() {
        let key = JobKey::from_bytes([0xff; 16]);
        assert_eq!(key.as_uuid(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(JobKey::from_bytes([0; 16]).as_uuid(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(JobKey::parse(key.as_str()), Some(key.clone()));
        assert_eq!(key.short(20), &key.as_str()[..20]);
        assert_eq!((key.short(3).len(), key.short(1000)), (JobKey::MIN_SHORT, key.as_str()));
        let upper = key.as_str().to_ascii_uppercase();
        let long = format!("{key}a");
        for other in
            ["", "tb-", &upper, &long, "tb-77777777777777777777777777", "xx-aaaaaaaaaaaaaaaaaaaaaaaaaa"]
        {
            assert_eq!(JobKey::parse(other), None, "{other}");
        }
        let foreign: JobKey = serde_json::from_str("\"k1\"").unwrap();
        assert_eq!(foreign.as_uuid().len(), 36);
        assert_eq!(foreign.short(20), "k1");
    }
}
