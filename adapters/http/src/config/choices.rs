//! Fields with more than one shape. Their errors name the field and the value, unlike those of an untagged
//! enum. It must not know what a field is for.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::lifecycle::Cancel;

/// One table, or several that are tried in turn.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMore<T>(Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    /// Returns the tables in order.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Tables<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
    type Value = OneOrMore<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, or a list of tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|table| OneOrMore(vec![table]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut tables = Vec::new();
        while let Some(table) = items.next_element()? {
            tables.push(table);
        }
        Ok(OneOrMore(tables))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tables(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMore<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [table, { "type": "array", "items": table }] })
    }
}

/// `false`, or how a job is stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancels(OneOrMore<Cancel>);

impl Cancels {
    /// Returns the tables in order. None means that the engine cannot stop a job.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Cancel> {
        self.0.iter()
    }
}

struct CancelTables;

impl<'de> Visitor<'de> for CancelTables {
    type Value = Cancels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`false`, a table, or a list of tables")
    }

    fn visit_bool<E: de::Error>(self, possible: bool) -> Result<Cancels, E> {
        match possible {
            false => Ok(Cancels::default()),
            true => Err(E::custom(
                "`true` does not say how: write the request as a table, or `false` if the engine cannot",
            )),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cancels, A::Error> {
        Tables(PhantomData).visit_map(map).map(Cancels)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Cancels, A::Error> {
        Tables(PhantomData).visit_seq(items).map(Cancels)
    }
}

impl<'de> Deserialize<'de> for Cancels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CancelTables)
    }
}

impl JsonSchema for Cancels {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cancels".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Cancel>();
        json_schema!({ "anyOf": [{ "const": false }, table, { "type": "array", "items": table }] })
    }
}

/// A field of a tool's target: what it is, or a table.
#[derive(Clone, Debug)]
pub(crate) struct TargetField {
    /// Value of a target without the field.
    pub(crate) default: Option<Value>,
    /// Whether a target needs the field.
    pub(crate) required: bool,
}

/// What a field of a target is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TargetFieldTable {
    /// What it is, for people who write tools.
    #[allow(dead_code, reason = "it is for readers of the config")]
    description: String,
    /// Value of a target without the field.
    #[serde(default)]
    default: Option<Value>,
    /// Whether a target needs the field. A field with a default does not.
    #[serde(default = "yes")]
    required: bool,
}

struct TargetFieldShape;

impl<'de> Visitor<'de> for TargetFieldShape {
    type Value = TargetField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a description, or a table with `description`, `default` and `required`")
    }

    fn visit_str<E: de::Error>(self, _description: &str) -> Result<TargetField, E> {
        Ok(TargetField { default: None, required: true })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TargetField, A::Error> {
        let table = TargetFieldTable::deserialize(MapAccessDeserializer::new(map))?;
        Ok(TargetField { required: table.required && table.default.is_none(), default: table.default })
    }
}

impl<'de> Deserialize<'de> for TargetField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TargetFieldShape)
    }
}

impl JsonSchema for TargetField {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TargetField".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<TargetFieldTable>();
        json_schema!({ "anyOf": [{ "type": "string" }, table] })
    }
}

/// Default of a field that is on.
pub(super) fn yes() -> bool {
    true
}
