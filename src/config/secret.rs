//! [`Secret`]: a secret value, or a reference to one. Error messages never contain the value.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::Reader;
use super::{files, locate};

/// A secret: the value itself, or a reference to it.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a string, { env = \"NAME\" } or { file = \"PATH\" }")]
pub(super) enum Secret {
    /// The value itself.
    Plain(String),
    /// An environment variable with the value.
    Env(Env),
    /// A file with the value.
    File(File),
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Env {
    /// The environment variable with the value.
    env: String,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The file that contains only the value; a relative path starts at the folder of this config file.
    file: PathBuf,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Secret {
    /// Returns the value. `None` if it cannot be read, or if the config is checked without secrets.
    pub(super) fn reveal(&self, reader: &mut Reader<'_>, field: &str, dir: &Path) -> Option<String> {
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
