//! Text in columns. PostgreSQL's text holds no zero byte, and what an index holds must be short: both are mended here,
//! so that two texts that differ still differ.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// The longest text in an index. A page of an index has room for 2,700 bytes, and two texts share it at most.
const LONGEST: usize = 1_000;

/// A text as it is kept. [`read`] gives it back.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\\']) {
        Cow::Owned(text.replace('\\', r"\\").replace('\0', r"\0"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The text that is kept as this.
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

/// A text that is looked for and never read back: of a long one, the beginning and a digest of all of it. No escape
/// is written `\#`, so that it is no other text's.
pub(super) fn key(whole: &str) -> Cow<'_, str> {
    let kept = text(whole);
    if kept.len() <= LONGEST {
        return kept;
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(whole.as_bytes()));
    let beginning = kept.floor_char_boundary(LONGEST - 70);
    Cow::Owned(format!(r"{}\#{digest}", &kept[..beginning]))
}

/// The same for a text that may be absent.
pub(super) fn key_of(text: Option<&String>) -> Option<Cow<'_, str>> {
    text.map(|text| key(text))
}

/// The number of the advisory lock for a name of a kind within a schema. Locks are numbered within a whole database,
/// which other programs may use as well; two names with one number only wait for each other.
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

    #[test]
    fn texts_that_differ_are_kept_differently_and_read_back() {
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
