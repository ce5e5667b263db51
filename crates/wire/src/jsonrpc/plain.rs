//! [`Plain`]: an unambiguous JSON value. Duplicate members are refused: an intermediary and this server could
//! read different values. Member names that `serde_json` reserves are refused too: `serde_json` would parse a
//! string under such a name as raw JSON, which the bounds did not count.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// Prefix of the member names that `serde_json` reserves.
const RESERVED: &str = "$serde_json::private::";

/// A JSON value without duplicate members.
#[derive(Debug, Default)]
pub(super) struct Plain(pub(super) Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Plain(item)) = items.next_element()? {
            values.push(item);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name.starts_with(RESERVED) {
                return Err(A::Error::custom("a member has a name that nothing can have here"));
            }
            let Plain(value) = members.next_value()?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member stands twice in one object"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, String> {
        serde_json::from_str(text).map(|Plain(value)| value).map_err(|error| error.to_string())
    }

    #[test]
    fn parser_agrees_with_serde_json() {
        for text in [
            "null",
            "[true,false,1,-1,1.5,18446744073709551615,1e300,\"a\\u0000\\\"b\"]",
            r#"{"a":{"b":[{}],"":null},"$":"$serde_json::private::RawValue"}"#,
        ] {
            assert_eq!(read(text), serde_json::from_str(text).map_err(|error| error.to_string()), "{text}");
        }
    }

    /// Members with names that serde_json treats specially are refused too.
    #[test]
    fn duplicate_member_is_refused() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"x":{"a":1,"b":2,"\u0061":3}}]"#] {
            assert!(read(text).unwrap_err().starts_with("a member stands twice"), "{text}");
        }
        for text in [
            r#"{"$serde_json::private::RawValue":"[[[]]]"}"#,
            r#"[{"\u0024serde_json::private::RawValue":"1"}]"#,
            r#"{"$serde_json::private::Number":"1"}"#,
        ] {
            assert!(read(text).unwrap_err().starts_with("a member has a name"), "{text}");
        }
    }
}
