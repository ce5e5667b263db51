//! Text columns. PostgreSQL's text cannot contain a zero byte, and index entries must be short. This module
//! encodes both, so that different texts remain different.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::fault::PostgresError;
use crate::row::RowValue;

/// Maximum length of an indexed text, in bytes. An index page allows entries of 2,700 bytes, and an entry has
/// at most two texts.
const MAX_KEY_BYTES: usize = 1_000;

/// Encodes a text for a column. [`decode`] decodes it.
pub(in crate::postgres) fn encode(text: &str) -> Cow<'_, str> {
    if text.contains(['\0', '\\']) {
        Cow::Owned(text.replace('\\', r"\\").replace('\0', r"\0"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Decodes a text of a column.
pub(in crate::postgres) fn decode(stored: &str) -> String {
    if !stored.contains('\\') {
        return stored.to_owned();
    }
    let mut text = String::with_capacity(stored.len());
    let mut rest = stored.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => text.push(if rest.next() == Some('0') { '\0' } else { '\\' }),
            c => text.push(c),
        }
    }
    text
}

/// Encodes a text for lookups only: a long one is replaced by its beginning and a digest of the whole.
/// Between the two is `\#`, which [`encode`] never writes, so that the result equals no other text.
pub(in crate::postgres) fn encode_key(value: &str) -> Cow<'_, str> {
    let encoded = encode(value);
    if encoded.len() <= MAX_KEY_BYTES {
        return encoded;
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(value.as_bytes()));
    let prefix_len = encoded.floor_char_boundary(MAX_KEY_BYTES - 70);
    Cow::Owned(format!(r"{}\#{digest}", &encoded[..prefix_len]))
}

impl RowValue<'_> {
    /// Returns the text as it is stored.
    fn text(&self) -> Option<Cow<'_, str>> {
        match *self {
            RowValue::Text(text) => text.map(encode),
            RowValue::Key(text) => text.map(encode_key),
            RowValue::Plain(text) => text.map(Cow::Borrowed),
            RowValue::Number(_) | RowValue::Flag(_) => None,
        }
    }

    /// Returns true if this column of the row has the value.
    pub(in crate::postgres) fn is_stored(&self, row: &Row, column: &str) -> Result<bool, PostgresError> {
        Ok(match *self {
            RowValue::Number(number) => row.try_get::<_, Option<i64>>(column)? == number,
            RowValue::Flag(flag) => row.try_get::<_, bool>(column)? == flag,
            RowValue::Text(_) | RowValue::Key(_) | RowValue::Plain(_) => {
                row.try_get::<_, Option<&str>>(column)? == self.text().as_deref()
            }
        })
    }
}

/// Binds numbers and flags as they are, and texts in their encoded form.
impl ToSql for RowValue<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            RowValue::Number(number) => number.to_sql_checked(ty, out),
            RowValue::Flag(flag) => flag.to_sql_checked(ty, out),
            RowValue::Text(_) | RowValue::Key(_) | RowValue::Plain(_) => self.text().to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Returns the number of the advisory lock for a name of a kind within a schema. Lock numbers are shared by
/// the whole database, also with other programs. Two names with the same number only block each other.
pub(super) fn lock_id(schema: &str, kind: &str, name: &str) -> i64 {
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
            assert!(!encode(one).contains('\0'));
            assert_eq!(decode(&encode(one)), *one);
            assert!(encode_key(one).len() <= MAX_KEY_BYTES);
            for other in &texts[n + 1..] {
                assert_ne!(encode(one), encode(other));
                assert_ne!(encode_key(one), encode_key(other));
            }
        }
    }

    #[test]
    fn locks_of_different_names_differ() {
        assert_ne!(lock_id("s", "slot", "a"), lock_id("s", "slot", "b"));
        assert_ne!(lock_id("s", "slot", "a"), lock_id("s", "once", "a"));
        assert_ne!(lock_id("s", "slot", "a"), lock_id("t", "slot", "a"));
        assert_ne!(lock_id("s", "slota", ""), lock_id("s", "slot", "a"));
    }
}
