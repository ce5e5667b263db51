//! Reads `[backends.NAME]` into a [`Backend`] that can be connected. It must not connect to it.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use taskbridge_sdk::Registry;

use super::discover::{self, Discover, FIELD as DISCOVER};
use super::programs::{self, Programs};
use crate::access::Rules;
use crate::adapters::{self, OPTIONAL};
use crate::config::callers::access::{self, PossibleCallers};
use crate::config::reading::problem::{quoted_list, unknown_name};
use crate::config::reading::reader::{ParseError, Reader};
use crate::config::reading::secret::Secret;
use crate::config::reading::source::join;

/// A backend, not connected yet.
#[derive(Clone)]
pub struct Backend {
    /// The kind of its adapter.
    pub kind: String,
    /// The adapter's fields, with secrets replaced by their texts.
    pub fields: Value,
    /// Maximum number of concurrent jobs.
    pub max_running: Option<NonZeroU32>,
    /// Set if its tools are discovered.
    pub discover: Option<Discover>,
    /// The only machine from which its jobs are reachable ([`crate::config::locate::this_machine`]).
    pub host: Option<String>,
    /// Its line in the file.
    pub line: Option<usize>,
}

/// The adapter's fields may contain secrets.
impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("kind", &self.kind).field("line", &self.line).finish_non_exhaustive()
    }
}

/// The known parts of an invalid backend, so that its tools can still be checked.
pub(in crate::config) struct PartialBackend {
    /// The kind of its adapter.
    pub(super) kind: String,
    /// The adapter's fields without the invalid ones. `None` if they cannot be read.
    pub(super) fields: Option<Value>,
}

/// Returns the kind of a preset. `None` if the backend names none.
///
/// # Errors
/// If no adapter has a preset of this name: the known names.
fn kind_of_preset<'a>(registry: &'a Registry, preset: Option<&Value>) -> Option<Result<&'a str, String>> {
    let name = preset?.as_str()?;
    let presets = || {
        registry.iter().flat_map(|adapter| adapter.presets.iter().map(|(known, _)| (*known, adapter.kind)))
    };
    let kind = presets().find(|(known, _)| *known == name).map(|(_, kind)| kind);
    let known: Vec<&str> = presets().map(|(known, _)| known).collect();
    Some(kind.ok_or_else(|| unknown_name("preset", name, &known)))
}

/// Reads one backend. `shared`: whether servers on several machines can use the store. `dir`: the base of
/// relative paths. `programs`: further kinds.
///
/// # Errors
/// If the backend is invalid. The reader has the problems, and the error is the part that is known.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    registry: &Registry,
    shared: bool,
    dir: &Path,
    programs: &Programs,
    (name, value): (&str, Value),
) -> Result<Backend, Option<PartialBackend>> {
    let field = join("backends", name);
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
        reader.problem(&field, "a backend's name has letters, digits, `_` and `-` only");
    }
    let mut fields = reader.table(&field, Some(value));
    let max_running = reader.field(&join(&field, "max_running"), fields.remove("max_running"));
    let kinds = registry.iter().map(|adapter| adapter.kind).chain(programs.keys().map(String::as_str));
    let kinds: Vec<&str> = kinds.collect();
    let kind: String = match fields.remove("kind") {
        Some(kind) => reader.read(&join(&field, "kind"), kind).ok_or(None)?,
        None => match kind_of_preset(registry, fields.get("preset")) {
            Some(Ok(kind)) => kind.to_owned(),
            Some(Err(unknown)) => {
                reader.problem(join(&field, "preset"), unknown);
                return Err(None);
            }
            None => {
                reader.problem(&field, format!("missing field `kind`: one of {}", quoted_list(kinds)));
                return Err(None);
            }
        },
    };
    let program = programs.get(&kind);
    let (program_kind, kind) = match program {
        Some(_) => (kind, programs::KIND.to_owned()),
        None => (String::new(), kind),
    };
    let Some(adapter) = registry.get(&kind) else {
        let is_left_out = OPTIONAL.contains(&kind.as_str()) && adapters::all().get(&kind).is_none();
        let message = match is_left_out {
            true => format!(
                "this program is built without this kind: build it with the Cargo feature `{kind}`, or use another \
                 (known: {})",
                quoted_list(kinds)
            ),
            false => unknown_name("kind", &kind, &kinds),
        };
        reader.problem(join(&field, "kind"), message);
        return Err(None);
    };
    // Other kinds may have their own field of this name.
    let host: Option<String> = match adapter.one_machine {
        true => reader.field(&join(&field, "host"), fields.remove("host")),
        false => None,
    };
    if adapter.one_machine && shared && host.is_none() {
        let message = "jobs of this kind can be reached on one machine only, but servers on other machines can use \
                       the same PostgreSQL store: set `host` to the name of that machine (`uname -n`)";
        reader.problem(join(&field, "host"), message);
    }
    let discover = discover::take_server_fields(reader, &field, &mut fields);
    if let Some(program) = program {
        // The problems of a program are reported once.
        if !reader.is_clean(&join("adapters", &program_kind)) {
            return Err(Some(PartialBackend { kind, fields: None }));
        }
        fields = program.fields(fields);
    }
    let mut fields = Value::Object(fields);
    for path in adapter.secrets {
        reveal_secrets(reader, &field, path, dir, &mut fields);
    }
    let valid_fields = reader.read_with(&field, fields.clone(), |fields| {
        (adapter.check_config)(fields).map(|()| fields.clone()).map_err(ParseError::from)
    });
    let line = reader.line(&field);
    match reader.is_clean(&field) {
        true => Ok(Backend { kind, fields, max_running, discover, host, line }),
        false => Err(Some(PartialBackend { kind, fields: valid_fields })),
    }
}

/// Reports errors in the access rules of a backend's discovery.
pub(in crate::config) fn check_access(
    reader: &mut Reader<'_>,
    name: &str,
    backend: &Backend,
    defaults: &Rules,
    callers: &PossibleCallers,
) {
    if let Some(Discover { access: Some(access), .. }) = &backend.discover {
        let field = join(&join(&join("backends", name), DISCOVER), "access");
        access::rules(reader, &field, Some(access), defaults, callers);
    }
}

/// Timeouts in the config of adapters, and the share of a lease that caps each. All adapters that have such a
/// field give it this name.
const TIMEOUTS: [(&str, u32, &str); 2] = [("call_timeout", 2, "half"), ("command_timeout", 6, "a sixth")];

/// Returns warnings about timeouts that have no effect, because their share of the lease is shorter.
pub(in crate::config) fn timeout_warnings(name: &str, backend: &Backend, lease: Duration) -> Vec<String> {
    let warning = |(field, parts, share): (&str, u32, &str)| {
        let timeout: Duration = humantime_serde::deserialize(backend.fields.get(field)?).ok()?;
        let most = lease / parts;
        (timeout > most).then(|| {
            format!(
                "backends.{name}.{field} is {timeout:?}, and {most:?} is used, {share} of `reconciler.lease`: write a \
                 shorter time, or a longer lease"
            )
        })
    };
    TIMEOUTS.into_iter().filter_map(warning).collect()
}

/// Replaces a secret reference with the secret. On failure the value becomes an empty text, so that one error
/// does not cause a second.
pub(super) fn reveal_secrets(
    reader: &mut Reader<'_>,
    backend: &str,
    path: &str,
    dir: &Path,
    fields: &mut Value,
) {
    for (field, value) in values_at(backend.to_owned(), &path.split('.').collect::<Vec<_>>(), fields) {
        let secret: Option<Secret> = reader.read(&field, value.take());
        let text = secret.and_then(|secret| secret.reveal(reader, &field, dir));
        if text.as_ref().is_some_and(String::is_empty) {
            reader.problem(
                &field,
                "must not be empty: write the secret, { env = \"NAME\" } or { file = \"PATH\" }",
            );
        }
        *value = Value::from(text.unwrap_or_default());
    }
}

/// Returns the values at a path below a field, where `*` matches every key, each with the name of its field.
fn values_at<'v>(field: String, path: &[&str], value: &'v mut Value) -> Vec<(String, &'v mut Value)> {
    let Some((key, rest)) = path.split_first() else { return vec![(field, value)] };
    let Value::Object(members) = value else { return Vec::new() };
    let matching = members.iter_mut().filter(|(name, _)| *key == "*" || key == name);
    matching.flat_map(|(name, value)| values_at(join(&field, name), rest, value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_under_any_key() {
        let mut fields = json!({
            "token": "a",
            "run_as": {"ann": {"token": "b"}, "https://id.example#7": {"token": "c"}, "bob": {"user": "bob"}, "joe": "d"},
        });
        let mut found = |path: &[&str]| -> Vec<(String, String)> {
            let values = values_at("backends.lab".to_owned(), path, &mut fields);
            values.into_iter().map(|(field, value)| (field, value.to_string())).collect()
        };
        let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
        assert_eq!(found(&["token"]), [pair("backends.lab.token", "\"a\"")]);
        let mut all = found(&["run_as", "*", "token"]);
        all.sort();
        assert_eq!(
            all,
            [
                pair("backends.lab.run_as.\"https://id.example#7\".token", "\"c\""),
                pair("backends.lab.run_as.ann.token", "\"b\""),
            ]
        );
        assert_eq!(found(&["token", "deeper"]), []);
        assert_eq!(found(&["nothing"]), []);
    }
}
