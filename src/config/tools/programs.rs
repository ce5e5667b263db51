//! `[adapters.NAME]`: programs and services that are adapters, each a kind of engine of its own. A backend of
//! such a kind is read as one of the kind `process`, with its fields as the program's config. This module
//! must not start a program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Registration, Registry};

use super::backends::reveal_secrets;
use super::discover::FIELD as DISCOVER;
use crate::config::reading::files;
use crate::config::reading::reader::{ParseError, Reader};
use crate::config::reading::source::join;

/// The kind of adapter that runs programs.
pub(super) const KIND: &str = "process";
/// The secrets of a service.
const AUTH: [&str; 2] = ["auth.bearer", "auth.hmac"];
/// The field with the program's secrets.
const SECRETS: &str = "secrets";

/// A program that is an adapter. It speaks the adapter protocol on its standard input and output (`command`),
/// or over HTTP (`url`).
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AdapterProgram")]
pub(in crate::config) struct Program {
    /// The program and its arguments. No shell is involved. A relative path with `/` starts at the folder of
    /// this config file.
    command: Option<Vec<String>>,
    /// Address of a service, in place of `command`: `https://..`, or `http://` on this machine.
    url: Option<String>,
    /// Secret for `url`: `bearer` or `hmac`, each a text, `{ env = ".." }` or `{ file = ".." }`.
    auth: Option<Map<String, Value>>,
    /// PEM file of root certificates for `url`, in place of those of this machine.
    ca_file: Option<PathBuf>,
    /// Names of environment variables that the program inherits, besides `PATH`, `LANG`, `TZ` and `HOME`.
    #[serde(default)]
    env: Vec<String>,
    /// User that the program runs as, such as `"jobs"` or `"1001:1001"`. The server must run as root.
    user: Option<String>,
    /// Maximum number of calls in progress: 16 by default.
    max_in_flight: Option<u64>,
    /// Limits of the operating system for the program: `memory_bytes`, `open_files`, `processes` and
    /// `file_bytes`.
    #[serde(default)]
    limits: Map<String, Value>,
    /// The output of `taskbridge adapter describe`, with which backends and targets are checked.
    manifest: Option<PathBuf>,
    /// The schemas of the manifest.
    #[serde(skip)]
    schemas: Option<Value>,
}

/// The programs of a config, by the kind that they are.
pub(in crate::config) type Programs = BTreeMap<String, Program>;

/// Reads the table `adapters`.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    registry: &Registry,
    dir: &Path,
    value: Option<Value>,
) -> Programs {
    let mut programs = Programs::new();
    for (name, value) in reader.table("adapters", value) {
        let field = join("adapters", &name);
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            reader.problem(&field, "an adapter's name has letters, digits, `_` and `-` only");
        }
        if registry.get(&name).is_some() {
            reader
                .problem(&field, format!("`{name}` is a kind of this program already: choose another name"));
        }
        if registry.get(KIND).is_none() {
            let message =
                "this program is built without the Cargo feature `process`, so it runs no adapter programs";
            reader.problem(&field, message);
        }
        let Some(mut program) = reader.read::<Program>(&field, value) else { continue };
        if let Some(adapter) = registry.get(KIND) {
            check(reader, adapter, &field, dir, &mut program);
        }
        if let Some(manifest) = &program.manifest {
            program.schemas = schemas(reader, &join(&field, "manifest"), dir.join(manifest));
        }
        programs.insert(name, program);
    }
    programs
}

/// Checks the fields of a program, and reads its secrets, so that an error names the program and not each of
/// its backends.
fn check(reader: &mut Reader<'_>, adapter: &Registration, field: &str, dir: &Path, program: &mut Program) {
    let mut fields = Value::Object(program.fields(Map::new()));
    for path in AUTH {
        reveal_secrets(reader, field, path, dir, &mut fields);
    }
    program.auth = fields.get("auth").and_then(Value::as_object).cloned();
    reader.read_with(field, fields, |fields| (adapter.check_config)(fields).map_err(ParseError::from));
}

fn schemas(reader: &mut Reader<'_>, field: &str, path: PathBuf) -> Option<Value> {
    let text = files::read_text(reader, field, path)?;
    match serde_json::from_str::<Value>(&text) {
        Ok(mut manifest) => manifest.get_mut("schemas").map(Value::take),
        Err(error) => {
            let message = format!("is not JSON: {error}; write it with `taskbridge adapter describe`");
            reader.problem(field, message);
            None
        }
    }
}

impl Program {
    /// Returns the fields of a backend of the kind `process` for a backend of this program.
    pub(super) fn fields(&self, mut own: Map<String, Value>) -> Map<String, Value> {
        let Self { command, url, auth, ca_file, env, user, max_in_flight, limits, manifest: _, schemas } =
            self;
        let mut fields =
            Map::from_iter([("env".to_owned(), json!(env)), ("limits".to_owned(), json!(limits))]);
        let (secrets, discover) = (own.remove(SECRETS), own.remove(DISCOVER));
        let optional = [
            ("command", command.as_ref().map(|command| json!(command))),
            ("url", url.as_ref().map(|url| json!(url))),
            ("auth", auth.as_ref().map(|auth| json!(auth))),
            ("ca_file", ca_file.as_ref().map(|file| json!(file))),
            ("user", user.as_ref().map(|user| json!(user))),
            ("max_in_flight", max_in_flight.map(Value::from)),
            ("schemas", schemas.clone()),
            (SECRETS, secrets),
            (DISCOVER, discover),
            ("config", Some(Value::Object(own))),
        ];
        fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        fields
    }
}
