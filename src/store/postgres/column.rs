//! Text columns. PostgreSQL's text cannot contain a zero byte, and index entries must be short. This module
//! encodes both, so that different texts remain different.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Maximum length of an indexed text, in bytes. An index page allows entries of 2,700 bytes, and an entry has
/// at most two texts.
const LONGEST: usize = 1_000;

/// Encodes a text for a column. [`read`] decodes it.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\\']) {
        Cow::Owned(text.replace('\\', r"\\").replace('\0', r"\0"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Decodes a text of a column.
pub(super) fn read(kept: &str) -> String {
    if !kept.contains('\\') {
        return kept.to_owned();
    }
    let mut text = String::with_capacity(kept.len());
    let mut rest = kept.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(if rest.next() == Some('0') { '\0' } else { '\\' }),
            c => text.push(c),
        }
    }
    text
}

/// Encodes a text for lookups only: a long one is replaced by its beginning and a digest of the whole.
/// Between the two is `\#`, which [`text`] never writes, so that the result equals no other text.
pub(super) fn key(whole: &str) -> Cow<'_, str> {
    let kept = text(whole);
    if kept.len() <= LONGEST {
        return kept;
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(whole.as_bytes()));
    let beginning = kept.floor_char_boundary(LONGEST - 70);
    Cow::Owned(format!(r"{}\#{digest}", &kept[..beginning]))
}

/// Encodes an optional text for lookups.
pub(super) fn key_of(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| key(text))
}

/// Returns the number of the advisory lock for a name of a kind within a schema. Lock numbers are shared by
/// the whole database, also with other programs. Two names with the same number only block each other.
pub(super) fn lock(schema: &str, kind: &str, name: &str) -> i64 {
    let mut hash = Sha256::new();
    for part in ["taskbridge", schema, kind, name] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest: [u8; 32] = hash.finalize().into();
    let (first, _) = digest.split_first_chunk().expect("a digest has more than 8 bytes");
    i64::from_be_bytes(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NUL characters are escaped, and different texts have different columns and keys.
    #[test]
    fn postgres_text_round_trips_uniquely() {
        let long = "x".repeat(5_000);
        let texts = ["", "a", "\0", r"\0", r"\", r"\\", "a\0b", r"a\0b", "a\\\0b", &long, &long[1..], "é\0"];
        for (n, one) in texts.iter().enumerate() {
            assert!(!text(one).contains('\0'));
            assert_eq!(read(&text(one)), *one);
            assert!(key(one).len() <= LONGEST);
            for other in &texts[n + 1..] {
                assert_ne!(text(one), text(other));
                assert_ne!(key(one), key(other));
            }
        }
    }

    #[test]
    fn locks_of_different_names_differ() {
        assert_ne!(lock("s", "slot", "a"), lock("s", "slot", "b"));
        assert_ne!(lock("s", "slot", "a"), lock("s", "once", "a"));
        assert_ne!(lock("s", "slot", "a"), lock("t", "slot", "a"));
        assert_ne!(lock("s", "slota", ""), lock("s", "slot", "a"));
    }
}
