//! Discovered tools: converts a tool that a backend offers into a definition. The same rules apply as for
//! tools in the file. This module must not call a backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};
use taskbridge_sdk::{DiscoveredTool, Registry};

use super::backends::Backend;
use super::definition;
use super::discover::Discover;
use crate::access::Rules;
use crate::catalog::Definition;
use crate::config::callers::access::{self, PossibleCallers};
use crate::config::reading::problem::Problems;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::{Source, join};
use crate::config::server::owner_limits::OwnerLimits;
use crate::config::server::shape::{ConcurrencyGroup, Lifetime};

/// The settings for reading tools that are not in the file.
#[derive(Clone, Debug)]
pub struct ToolRules {
    pub(in crate::config) dir: PathBuf,
    pub(in crate::config) backends: BTreeMap<String, Backend>,
    pub(in crate::config) groups: BTreeMap<String, ConcurrencyGroup>,
    pub(in crate::config) lifetime: Lifetime,
    pub(in crate::config) access: Rules,
    pub(in crate::config) callers: PossibleCallers,
    pub(in crate::config) owner: OwnerLimits,
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
        let context = definition::Context {
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
        let result = definition::read(&mut reader, &context, &name, Value::Object(table(backend, tool)));
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
    use std::time::Duration;

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
