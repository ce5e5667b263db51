//! [`Secret`]: a secret value, or a reference to one. Error messages never contain the value.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::files;
use super::locate;
use super::reader::Reader;

/// A secret: the value itself, or a reference to it.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a string, { env = \"NAME\" } or { file = \"PATH\" }")]
pub(in crate::config) enum Secret {
    /// The value itself.
    Plain(String),
    /// An environment variable with the value.
    Env(Env),
    /// A file with the value.
    File(File),
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Env {
    /// The environment variable with the value.
    env: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct File {
    /// The file that contains only the value; a relative path starts at the folder of this config file.
    file: PathBuf,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Minimum length of a key in characters. In hexadecimal, 32 characters are 128 bits.
const MIN_KEY_CHARS: usize = 32;

/// Returns the environment variables that `{ env = "NAME" }` names anywhere in these tables, sorted. What
/// tools, resources and prompts contain belongs to the engine and to clients, and refers to no variable.
pub(in crate::config) fn variables(fields: &Map<String, Value>) -> Vec<String> {
    fn collect(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => match (members.len(), members.get("env")) {
                (1, Some(Value::String(name))) => drop(into.insert(name.clone())),
                _ => members.values().for_each(|value| collect(value, into)),
            },
            Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    let settings =
        fields.iter().filter(|(table, _)| !["tools", "resources", "prompts"].contains(&table.as_str()));
    settings.for_each(|(_, value)| collect(value, &mut names));
    names.into_iter().collect()
}

impl Secret {
    /// As [`Self::reveal`], for a key or token, which must be long.
    pub(in crate::config) fn reveal_key(
        &self,
        reader: &mut Reader<'_>,
        field: &str,
        what: &str,
        dir: &Path,
    ) -> Option<String> {
        let text = self.reveal(reader, field, dir)?;
        let length = text.chars().count();
        if length < MIN_KEY_CHARS {
            let message = format!(
                "the {what} has {length} characters, the minimum is {MIN_KEY_CHARS}: write the output of `openssl rand -hex 32`"
            );
            reader.problem(field, message);
            return None;
        }
        Some(text)
    }

    /// Returns the value. `None` if it cannot be read, or if the config is checked without secrets.
    pub(in crate::config) fn reveal(
        &self,
        reader: &mut Reader<'_>,
        field: &str,
        dir: &Path,
    ) -> Option<String> {
        if !reader.reveals_secrets {
            return None;
        }
        match self {
            Secret::Plain(text) => Some(text.clone()),
            Secret::File(File { file }) => {
                let text = files::read_text(reader, field, dir.join(file))?;
                Some(text.trim_end_matches(['\r', '\n']).to_owned())
            }
            Secret::Env(Env { env }) => {
                let text = locate::variable(env);
                if text.is_none() {
                    let message = format!(
                        "environment variable {env} is not set, or not UTF-8: export it, or use {{ file = \"...\" }}"
                    );
                    reader.problem(field, message);
                }
                text
            }
        }
    }
}
