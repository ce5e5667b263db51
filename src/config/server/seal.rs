//! `[seal]`: the keys that seal ids for clients and sensitive values in rows. It must not print a key.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;
use crate::seal::Key;

/// The keys that seal ids and cursors for clients, and sensitive values in rows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Seal {
    /// The keys: the first one seals, all of them open. All servers of a store need the same keys. Each is a
    /// long random text (`openssl rand -hex 32`), `{ env = "NAME" }` or `{ file = "PATH" }`.
    /// `{ from = "store" }` is the store's own key, which is the default.
    #[serde(deserialize_with = "list")]
    #[schemars(with = "Option<Vec<Listed>>")]
    keys: Option<Vec<Listed>>,
}

/// A key in the list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "must be a string, { env = \"NAME\" }, { file = \"PATH\" } or { from = \"store\" }"
)]
enum Listed {
    /// A secret that only the servers know.
    Secret(Secret),
    /// The store's own key.
    Kept(Kept),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The source of the key.
    #[serde(rename = "from")]
    _from: Keeper,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Keeper {
    /// The store: the first server generates the key.
    Store,
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Listed>>, D::Error> {
    deserializer.deserialize_any(KeyListVisitor).map(Some)
}

/// Deserializes a list. Another value may be a key, so messages do not contain it.
struct KeyListVisitor;

impl<'de> Visitor<'de> for KeyListVisitor {
    type Value = Vec<Listed>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of keys")
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(E::custom("must be a list: write keys = [...]"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = items.next_element()? {
            keys.push(key);
        }
        Ok(keys)
    }
}

/// Reads the keys. An empty result means the store's own key.
pub(in crate::config) fn keys(reader: &mut Reader<'_>, seal: &Seal, dir: &Path) -> Vec<Key> {
    let Some(entries) = &seal.keys else { return Vec::new() };
    if entries.is_empty() {
        reader.problem("seal.keys", "no keys are listed: list one, or remove `keys` to use the store's own");
    }
    let mut keys: Vec<(usize, Key)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = format!("seal.keys[{index}]");
        let Some(key) = key(reader, &field, entry, dir) else { continue };
        if let Some((earlier, _)) = keys.iter().find(|(_, other)| *other == key) {
            reader.problem(field, format!("duplicate of seal.keys[{earlier}]: remove one of them"));
        }
        keys.push((index, key));
    }
    keys.into_iter().map(|(_, key)| key).collect()
}

fn key(reader: &mut Reader<'_>, field: &str, entry: &Listed, dir: &Path) -> Option<Key> {
    let Listed::Secret(secret) = entry else { return Some(Key::Own) };
    secret.reveal_key(reader, field, "key", dir).map(|text| Key::of(&text))
}
