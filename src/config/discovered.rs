//! Discovered tools: the server's fields in `[backends.NAME.discover]`, and the conversion of an offered tool
//! into a definition. The same rules apply as for tools in the file. This module must not call a backend.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{DiscoveredTool, Registry};

use super::access::{self, Access, PossibleCallers};
use super::duration::DurationText;
use super::owner_limits::OwnerLimits;
use super::problem::Problems;
use super::reader::Reader;
use super::shape::{ConcurrencyGroup, Lifetime};
use super::source::{Source, join};
use super::{Backend, tools};
use crate::access::Rules;
use crate::catalog::Definition;

/// The field of a backend that enables discovery. Its other fields belong to the adapter.
pub(super) const FIELD: &str = "discover";
/// The fields that the server reads there.
const SERVER_FIELDS: [&str; 3] = ["every", "prefix", "access"];

/// The server's own fields of `[backends.NAME.discover]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Discover {
    /// How often the discovery runs.
    #[serde(with = "DurationText")]
    pub every: Duration,
    /// Prefix of the tool names, to distinguish them from tools of other backends.
    pub prefix: String,
    /// Who may call its tools and act on their tasks. `[access]` sets the defaults.
    pub access: Option<Access>,
}

impl Default for Discover {
    fn default() -> Self {
        Self { every: Duration::from_secs(300), prefix: String::new(), access: None }
    }
}

/// Removes and reads the server's discovery fields of a backend. Returns `None` if it has no discovery.
pub(super) fn take_server_fields(
    reader: &mut Reader<'_>,
    backend: &str,
    fields: &mut Map<String, Value>,
) -> Option<Discover> {
    let field = join(backend, FIELD);
    // A value that is not a table is left to the adapter, which refuses it.
    let table = fields.get_mut(FIELD)?.as_object_mut()?;
    let server_fields: Map<String, Value> =
        SERVER_FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), table.remove(name)?))).collect();
    let discover: Discover = reader.read(&field, Value::Object(server_fields))?;
    if discover.every.is_zero() {
        reader.problem(join(&field, "every"), "must not be zero: write an interval such as \"5m\"");
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if discover.prefix.len() > 32 || !discover.prefix.chars().all(is_allowed) {
        let message = "a prefix of tool names has at most 32 letters, digits, `_`, `-` or `.`";
        reader.problem(join(&field, "prefix"), message);
    }
    Some(discover)
}

/// Reports errors in the access rules of a backend's discovery.
pub(super) fn check_access(
    reader: &mut Reader<'_>,
    name: &str,
    backend: &Backend,
    defaults: &Rules,
    callers: &PossibleCallers,
) {
    if let Some(Discover { access: Some(access), .. }) = &backend.discover {
        let field = join(&join(&join("backends", name), FIELD), "access");
        access::rules(reader, &field, Some(access), defaults, callers);
    }
}

/// The settings for reading tools that are not in the file.
#[derive(Clone, Debug)]
pub struct ToolRules {
    pub(super) dir: PathBuf,
    pub(super) backends: BTreeMap<String, Backend>,
    pub(super) groups: BTreeMap<String, ConcurrencyGroup>,
    pub(super) lifetime: Lifetime,
    pub(super) access: Rules,
    pub(super) callers: PossibleCallers,
    pub(super) owner: OwnerLimits,
}

impl ToolRules {
    /// Returns the backends with discovery, by name, with their settings.
    pub fn discovered(&self) -> impl Iterator<Item = (&str, &Discover)> {
        self.backends.iter().filter_map(|(name, backend)| Some((name.as_str(), backend.discover.as_ref()?)))
    }

    /// Returns the kind of this backend.
    pub fn kind(&self, backend: &str) -> Option<&str> {
        self.backends.get(backend).map(|backend| backend.kind.as_str())
    }

    /// Returns the name under which a tool of this backend is offered.
    pub fn name(&self, backend: &str, tool: &DiscoveredTool) -> String {
        let discover = self.backends.get(backend).and_then(|backend| backend.discover.as_ref());
        format!("{}{}", discover.map_or("", |discover| &discover.prefix), tool.name)
    }

    /// Reads a discovered tool as if it were in the file, and returns it with the limits of its slots.
    ///
    /// # Errors
    /// If the tool is invalid: all its problems.
    pub fn read(
        &self,
        registry: &Registry,
        backend: &str,
        tool: &DiscoveredTool,
    ) -> Result<(Definition, Vec<(String, u32)>), Problems> {
        let name = self.name(backend, tool);
        let source = Source::without_file(format!("discovery of backend `{backend}`"));
        let mut reader = Reader::new(&source);
        let backend_names: Vec<String> = self.backends.keys().cloned().collect();
        let discover = self.backends.get(backend).and_then(|backend| backend.discover.as_ref());
        let backend_access = discover.and_then(|discover| discover.access.as_ref());
        let access = access::rules(&mut reader, "access", backend_access, &self.access, &self.callers);
        let context = tools::Context {
            registry,
            dir: &self.dir,
            backends: &self.backends,
            faulty: &BTreeMap::new(),
            backend_names: &backend_names,
            groups: &self.groups,
            lifetime: &self.lifetime,
            access: &access,
            callers: &self.callers,
            owner: &self.owner,
        };
        let field = join("tools", &name);
        if tool.more.get("output_schema").is_some_and(|schema| !schema.is_object()) {
            reader.problem(
                join(&field, "output_schema"),
                "must be a table: files are not read for a discovered tool",
            );
        }
        let result = tools::read(&mut reader, &context, &name, Value::Object(table(backend, tool)));
        // A reader without problems has read a tool.
        reader.finish(result)?.ok_or_else(|| Problems(Vec::new()))
    }
}

/// Returns the content of an equivalent `[tools.NAME]`.
fn table(backend: &str, tool: &DiscoveredTool) -> Map<String, Value> {
    let mut table = tool.more.clone();
    // The operator decides who may use the tool, not an engine.
    table.remove("access");
    for (name, text) in [("title", &tool.title), ("description", &tool.description)] {
        if let Some(text) = text {
            table.insert(name.to_owned(), Value::from(text.as_str()));
        }
    }
    table.insert("backend".to_owned(), Value::from(backend));
    table.insert("target".to_owned(), tool.target.clone());
    table.insert("input_schema".to_owned(), Value::Object(tool.input_schema.clone()));
    table
}

/// Formats a discovered tool as `[tools.NAME]`, for pasting into a config.
///
/// # Errors
/// If it has a value that TOML cannot represent.
pub fn as_toml(name: &str, backend: &str, tool: &DiscoveredTool) -> Result<String, String> {
    let mut table = Value::Object(table(backend, tool));
    without_empty_defaults(&mut table);
    let document =
        Map::from_iter([("tools".to_owned(), Value::Object(Map::from_iter([(name.to_owned(), table)])))]);
    toml::to_string(&document).map_err(|error| error.to_string())
}

/// Removes null defaults, which have no effect and do not exist in TOML.
fn without_empty_defaults(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| name != "default" || !member.is_null());
            members.values_mut().for_each(without_empty_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_defaults),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::access::{CallerConditions, Rule};
    use crate::{adapters, config};

    fn rules() -> ToolRules {
        let text = "[backends.sim]\nkind = \"sim\"\nmax_running = 3\n[backends.sim.discover]\nprefix = \"sim-\"\n\
                    every = \"1h\"\nstarting_with = \"night\"\naccess = { call = { principals = [\"ann\"] } }\n\
                    [auth]\nmode = \"api_keys\"\n[[auth.keys]]\nprincipal = \"ann\"\n\
                    sha256 = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"";
        let at = Path::new("/");
        let config = config::parse(Path::new("x.toml"), at, text, &adapters::all(), Some(at)).unwrap();
        config.tool_rules
    }

    fn tool(more: Value) -> DiscoveredTool {
        DiscoveredTool {
            name: "nightly".to_owned(),
            title: Some("Nightly".to_owned()),
            input_schema: json!({"type": "object"}).as_object().unwrap().clone(),
            target: json!({"delay_ms": 1}),
            more: more.as_object().unwrap().clone(),
            ..DiscoveredTool::default()
        }
    }

    /// The backend's access rules apply, and the engine cannot set any.
    #[test]
    fn discovered_tool_is_read_like_configured() {
        let (registry, rules) = (adapters::all(), rules());
        let (definition, slots) =
            rules.read(&registry, "sim", &tool(json!({"max_runtime": "1h", "backend": "other", "access": {"call": {"everybody": true}, "see": {"x": 1}}}))).unwrap();
        assert_eq!((definition.name.as_str(), definition.backend.as_str()), ("sim-nightly", "sim"));
        assert_eq!(definition.terms.max_runtime, Duration::from_secs(3600));
        assert_eq!(slots, [("backend:sim".to_owned(), 3), ("owner:".to_owned(), 500)]);
        let who = CallerConditions { principals: ["ann".to_owned()].into(), ..CallerConditions::default() };
        let call = Rule { conditions: Some(who), ..Rule::default() };
        assert_eq!(
            definition.access,
            Rules { call, ..Rules::default() },
            "the backend's, and nothing of the engine's"
        );
    }

    /// The message names the backend and the field that is wrong.
    #[test]
    fn discovered_tool_error_names_field() {
        let (registry, rules) = (adapters::all(), rules());
        let wrong = |tool: DiscoveredTool| rules.read(&registry, "sim", &tool).unwrap_err().to_string();
        let text = wrong(tool(json!({"max_runtim": "1h"})));
        assert!(
            text.starts_with("discovery of backend `sim`: tools.sim-nightly.max_runtim: unknown field"),
            "{text}"
        );
        let text = wrong(tool(json!({"output_schema": "/etc/passwd"})));
        assert!(text.contains("output_schema: must be a table"), "{text}");
        let text = wrong(DiscoveredTool { target: json!({"delay": 1}), ..tool(json!({})) });
        assert!(text.contains("tools.sim-nightly.target.delay: unknown field"), "{text}");
        let text = wrong(tool(json!({"parameters": {"f": {"type": "file", "roots": ["/"]}}})));
        assert!(text.contains("either `parameters` or `input_schema`"), "{text}");
    }
}
