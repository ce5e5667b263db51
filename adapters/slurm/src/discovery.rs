//! Offers the batch scripts of a folder as tools. The `#TASKBRIDGE` lines of a script, next to its `#SBATCH`
//! lines, declare its parameters. The partitions and their limits come from the cluster.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, Finding, Result, async_trait, tool_name};

use crate::config::discover::Discover;
use crate::core::Slurm;
use crate::driver::site::{Partition, Rights};
use crate::notation::amount;
use crate::store::disk;
use crate::store::folder::open_regular;

/// Maximum number of bytes of a script that are searched for `#TASKBRIDGE` lines.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// File name extensions of batch scripts.
const EXTENSIONS: [&str; 5] = ["sh", "bash", "sbatch", "slurm", "job"];

#[async_trait]
impl Discovery for Slurm {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(settings) = &self.discover else {
            return Err(Error::config("the backend has no `discover.scripts`, so it offers no tools"));
        };
        let partitions = self.driver.partitions().await?;
        let is_allowed = |partition: &Partition| {
            settings.partitions.as_ref().is_none_or(|names| names.contains(&partition.name))
        };
        let partitions: Vec<Partition> =
            partitions.into_iter().filter(|partition| partition.up && is_allowed(partition)).collect();
        let qos = match &settings.qos {
            Some(names) if self.has_accounting() => usable_qos(&self.driver.rights(None).await?, names),
            _ => Vec::new(),
        };
        let scripts = self.scripts(settings).await?;
        // `taskbridge doctor` reports the invalid scripts. One script must not make the others unavailable.
        Ok(scripts.iter().filter_map(|script| tool(script, &partitions, &qos).ok()).collect())
    }
}

impl Slurm {
    async fn scripts(&self, settings: &Discover) -> Result<Vec<Script>> {
        let folder = self.setup.config_dir.join(&settings.scripts);
        self.disks.sources.run(move || scripts(&folder)).await?
    }

    /// Returns a finding for each script that is not a valid tool, for `taskbridge doctor`.
    pub(crate) async fn invalid_script_findings(&self) -> Vec<Finding> {
        let Some(settings) = &self.discover else { return Vec::new() };
        let scripts = match self.scripts(settings).await {
            Ok(scripts) => scripts,
            Err(error) => {
                let fix = "create the folder of `discover.scripts`, and allow the server's user to read it";
                return vec![Finding::fault("scripts", error.to_string(), fix)];
            }
        };
        let finding = |script: &Script| {
            let reason = tool(script, &[], &[]).err()?;
            let what = format!("script {}", script.path.display());
            Some(Finding::fault(
                what,
                format!("not offered as a tool: {reason}"),
                "correct the script, or remove it from the folder",
            ))
        };
        scripts.iter().filter_map(finding).collect()
    }
}

/// A batch script with its first bytes, or the reason why it cannot be read.
struct Script {
    path: PathBuf,
    text: std::result::Result<String, String>,
}

/// A quality of service and its maximum run time.
type Qos = (String, Option<Duration>);

/// Returns the wanted qualities of service that an account of the user has; all that exist, if no account
/// lists any.
fn usable_qos(rights: &Rights, names: &[String]) -> Vec<Qos> {
    let granted: Vec<&String> = rights.accounts.values().flatten().collect();
    let is_granted = |name: &String| granted.is_empty() || granted.contains(&name);
    let all = rights.qos.iter().filter(|(name, _)| names.contains(name) && is_granted(name));
    all.map(|(name, time)| (name.clone(), *time)).collect()
}

/// Returns the scripts of a folder, sorted by path.
fn scripts(folder: &Path) -> Result<Vec<Script>> {
    let read_error = |path: &Path, e: std::io::Error| {
        Error::unavailable(format!("{} cannot be read: {e}", path.display()))
    };
    let mut scripts = Vec::new();
    disk::enter_path(folder);
    for entry in fs::read_dir(folder).map_err(|e| read_error(folder, e))? {
        let entry = entry.map_err(|e| read_error(folder, e))?;
        let path = entry.path();
        let is_script = path
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known_extension| extension == *known_extension));
        if !is_script || !entry.file_type().map_err(|e| read_error(&path, e))?.is_file() {
            continue;
        }
        let mut head = Vec::new();
        let read = open_regular(&path).and_then(|file| file.take(MAX_HEADER_BYTES).read_to_end(&mut head));
        match read {
            // The file was deleted meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            // This error is permanent and concerns this script only. Any other error is a fault of the file
            // system.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                scripts.push(Script { path, text: Err(format!("the file cannot be read: {e}")) });
            }
            Err(e) => return Err(read_error(&path, e)),
            // sbatch accepts no other files.
            Ok(_) if head.starts_with(b"#!") => {
                scripts.push(Script { path, text: Ok(String::from_utf8_lossy(&head).into_owned()) });
            }
            Ok(_) => {}
        }
    }
    scripts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(scripts)
}

/// The declarations of a script's `#TASKBRIDGE` lines.
#[derive(Default)]
struct ScriptHeader {
    title: Option<String>,
    description: Option<String>,
    parameters: Vec<Parameter>,
    result: Option<String>,
    artifacts: Vec<String>,
}

struct Parameter {
    name: String,
    schema: Value,
    required: bool,
    /// The parameter is a list, and each task of the array gets one element.
    per_task: bool,
}

/// Parses the `#TASKBRIDGE` lines of a script, up to its first command.
fn parse_header(text: &str) -> Result<ScriptHeader, String> {
    let mut header = ScriptHeader::default();
    for line in text.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#')) {
        let Some(line) = line.strip_prefix("#TASKBRIDGE ").map(str::trim) else { continue };
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "title" => header.title = Some(rest.to_owned()),
            "description" => header.description = Some(rest.to_owned()),
            "result" => header.result = Some(rest.to_owned()),
            "artifacts" => header.artifacts.extend(rest.split_whitespace().map(str::to_owned)),
            "parameter" | "each" => header.parameters.push(parameter(rest, word == "each")?),
            _ => {
                return Err(format!(
                    "`#TASKBRIDGE {word}` is unknown: use title, description, parameter, each, result or artifacts"
                ));
            }
        }
    }
    if header.parameters.iter().filter(|parameter| parameter.per_task).count() > 1 {
        return Err("more than one `each` line: only one parameter can have one element per task".to_owned());
    }
    Ok(header)
}

/// Parses `NAME TYPE DESCRIPTION`. `NAME?` is an optional parameter.
fn parameter(text: &str, per_task: bool) -> Result<Parameter, String> {
    let mut words = text.splitn(3, char::is_whitespace);
    let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let description = words.next().unwrap_or_default().trim();
    let (name, required) = name.strip_suffix('?').map_or((name, true), |name| (name, false));
    let is_valid_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_valid_char) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!(
            "`{name}` is not a valid parameter name: use letters, digits and `_`, and no digit first"
        ));
    }
    if !["string", "integer", "number", "boolean"].contains(&kind) {
        return Err(format!(
            "the parameter `{name}` has the unknown type `{kind}`: use string, integer, number or boolean"
        ));
    }
    if per_task && !required {
        return Err(format!("the list `{name}` cannot be optional: remove the `?`"));
    }
    let mut schema = match per_task {
        true => json!({"type": "array", "items": {"type": kind}, "minItems": 1}),
        false => json!({"type": kind}),
    };
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    Ok(Parameter { name: name.to_owned(), schema, required, per_task })
}

/// Converts a script into a tool. The error contains the reason why it is none.
fn tool(script: &Script, partitions: &[Partition], qos: &[Qos]) -> Result<DiscoveredTool, String> {
    // The texts of the config are UTF-8, and so are targets.
    let path = script.path.to_str().ok_or("its path is not UTF-8")?;
    let file = script.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let header = parse_header(script.text.as_ref().map_err(Clone::clone)?)?;
    let mut properties = Map::new();
    let (mut args, mut required) = (Vec::new(), Vec::new());
    let mut target = json!({"script": path});
    for parameter in header.parameters {
        let value = if parameter.per_task {
            "{{ taskbridge.element }}".to_owned()
        } else {
            format!("{{{{ {} }}}}", parameter.name)
        };
        args.push(if parameter.required { json!(value) } else { json!([value]) });
        if parameter.required {
            required.push(parameter.name.clone());
        }
        if parameter.per_task {
            target["array"] = json!({"parameter": parameter.name});
        }
        properties.insert(parameter.name, parameter.schema);
    }
    target["args"] = args.into();
    if let Some(result) = header.result {
        target["result"] = result.into();
    }
    target["artifacts"] = header.artifacts.into();
    let mut resources = Map::new();
    offer_partitions(partitions, &mut properties, &mut resources);
    offer_qos(qos, &mut properties, &mut resources);
    target["resources"] = Value::Object(resources);
    let input_schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), json!(required)),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    Ok(DiscoveredTool {
        name: tool_name_of(&file),
        title: header.title,
        description: Some(
            header.description.unwrap_or_else(|| format!("Submits the batch script {file} to the cluster.")),
        ),
        input_schema,
        target,
        more: Map::new(),
    })
}

/// Adds the parameters `partition`, if there are several partitions, and `minutes`, if all of them have a
/// time limit, unless the script has parameters of these names.
fn offer_partitions(
    partitions: &[Partition],
    properties: &mut Map<String, Value>,
    resources: &mut Map<String, Value>,
) {
    let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
    if names.len() > 1 && !properties.contains_key("partition") {
        let describe = |partition: &Partition| {
            let default = if partition.default { ", the default" } else { "" };
            format!("{} ({}{default})", partition.name, format_limit(partition.max_time))
        };
        let description = partitions.iter().map(describe).collect::<Vec<_>>().join(", ");
        let schema =
            json!({"type": "string", "enum": names, "description": format!("Where it runs: {description}.")});
        properties.insert("partition".to_owned(), schema);
        resources.insert("partition".to_owned(), json!({"value": "{{ partition }}", "allowed": names}));
    }
    // If one partition has no time limit, no `minutes` parameter is offered.
    let longest = partitions
        .iter()
        .map(|partition| partition.max_time)
        .min_by_key(|time| (time.is_some(), std::cmp::Reverse(*time)));
    if let Some(Some(longest)) = longest.filter(|_| !properties.contains_key("minutes")) {
        let minutes = longest.as_secs() / 60;
        let schema = json!({"type": "integer", "minimum": 1, "maximum": minutes, "description": "Maximum run time in minutes."});
        properties.insert("minutes".to_owned(), schema);
        resources.insert("time".to_owned(), json!({"value": "{{ minutes }}", "max": minutes.to_string()}));
    }
}

/// Adds the parameter `qos`, unless the script has a parameter of this name.
fn offer_qos(qos: &[Qos], properties: &mut Map<String, Value>, resources: &mut Map<String, Value>) {
    if qos.is_empty() || properties.contains_key("qos") {
        return;
    }
    let names: Vec<&str> = qos.iter().map(|(name, _)| name.as_str()).collect();
    let limits = qos.iter().map(|(name, time)| format!("{name} ({})", format_limit(*time)));
    let description = format!("The quality of service: {}.", limits.collect::<Vec<_>>().join(", "));
    properties.insert("qos".to_owned(), json!({"type": "string", "enum": names, "description": description}));
    resources.insert("qos".to_owned(), json!({"value": "{{ qos }}", "allowed": names}));
}

/// Formats a maximum run time for people.
fn format_limit(time: Option<Duration>) -> String {
    time.map_or("no time limit".to_owned(), |time| format!("at most {}", amount::time_in_words(time)))
}

/// Returns the tool name: `relax` for `relax.sh`. The whole file name for other extensions, and for a stem
/// that contains a dot, which could be the name of another file.
fn tool_name_of(file: &str) -> String {
    match file.strip_suffix(".sh") {
        Some(stem) if !stem.contains('.') => tool_name(stem),
        _ => tool_name(file),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(path: &str, text: &str) -> Script {
        Script { path: path.into(), text: Ok(text.to_owned()) }
    }

    fn partitions() -> Vec<Partition> {
        let partition = |name: &str, hours| Partition {
            name: name.to_owned(),
            up: true,
            default: name == "main",
            max_time: Some(Duration::from_hours(hours)),
        };
        vec![partition("main", 24), partition("short", 1)]
    }

    /// The `#TASKBRIDGE` and `#SBATCH` lines of a script become its name, schema and target.
    #[test]
    fn script_headers_become_tool() {
        let text = "#!/bin/bash\n#SBATCH --mem=1G\n#TASKBRIDGE title Relax molecules\n#TASKBRIDGE each molecules string Formulas.\n\
                    #TASKBRIDGE parameter steps? integer How many.\n#TASKBRIDGE result out.json\n#TASKBRIDGE artifacts *.csv a/*\n\
                    echo\n#TASKBRIDGE nonsense is no header any more\n";
        let discovered_tool = tool(&script("/s/relax.sh", text), &partitions(), &[]).unwrap();
        assert_eq!(
            (discovered_tool.name.as_str(), discovered_tool.title.as_deref()),
            ("relax", Some("Relax molecules"))
        );
        assert_eq!(discovered_tool.input_schema["required"], json!(["molecules"]));
        let properties = &discovered_tool.input_schema["properties"];
        assert_eq!(properties["molecules"]["items"], json!({"type": "string"}));
        assert_eq!(
            (&properties["partition"]["enum"], &properties["minutes"]["maximum"]),
            (&json!(["main", "short"]), &json!(1440))
        );
        let expected = json!({
            "script": "/s/relax.sh", "args": ["{{ taskbridge.element }}", ["{{ steps }}"]], "array": {"parameter": "molecules"},
            "result": "out.json", "artifacts": ["*.csv", "a/*"], "resources": {
                "partition": {"value": "{{ partition }}", "allowed": ["main", "short"]},
                "time": {"value": "{{ minutes }}", "max": "1440"},
            },
        });
        assert_eq!(discovered_tool.target, expected);
    }

    /// The error names the header line that is wrong.
    #[test]
    fn invalid_script_header_is_reported() {
        for (line, part) in [
            ("nonsense", "`#TASKBRIDGE nonsense`"),
            ("parameter", "not a valid parameter name"),
            ("parameter 1x string", "`1x`"),
            ("parameter x matrix", "`matrix`"),
            ("each x? string", "`x` cannot be optional"),
            ("each a string\n#TASKBRIDGE each b string", "more than one"),
        ] {
            let text = format!("#!/bin/sh\n#TASKBRIDGE {line}\n");
            let error = tool(&script("/s/a.sh", &text), &[], &[]).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    /// Scripts that are unreadable, invalid or oddly named are reported, and the others are offered.
    #[test]
    fn invalid_script_hides_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let invalid_name = std::ffi::OsStr::from_bytes(b"odd\xff.sh");
        for name in [std::ffi::OsStr::new("a.sh"), invalid_name, std::ffi::OsStr::new("shut.sh")] {
            fs::write(dir.path().join(name), "#!/bin/sh\necho\n").unwrap();
        }
        fs::write(dir.path().join("b.sh"), "#!/bin/sh\n#TASKBRIDGE nonsense\n").unwrap();
        fs::write(dir.path().join("note.sh"), "no script\n").unwrap();
        fs::set_permissions(dir.path().join("shut.sh"), fs::Permissions::from_mode(0o0)).unwrap();
        let script_list = scripts(dir.path()).unwrap();
        let results: Vec<_> =
            script_list.iter().map(|script| tool(script, &[], &[]).map(|tool| tool.name)).collect();
        let errors: Vec<&str> =
            results.iter().filter_map(|result| result.as_ref().err().map(String::as_str)).collect();
        assert_eq!(results[0].as_deref(), Ok("a"));
        assert!(
            errors.iter().any(|error| error.contains("not UTF-8"))
                && errors.iter().any(|error| error.contains("nonsense"))
        );
        // Root can read files without permissions.
        let is_reported = errors.iter().any(|error| error.contains("cannot be read"));
        assert!(is_reported || results.iter().any(|result| result.as_deref() == Ok("shut")), "{results:?}");
        assert_eq!(results.len(), 4, "{results:?}");
        assert!(scripts(&dir.path().join("nowhere")).is_err());
    }

    /// Only the qualities of service that the user has are offered, with their limits.
    #[test]
    fn qos_choices_follow_rights() {
        let mut rights = Rights::default();
        for (name, minutes) in [("normal", None), ("fast", Some(1)), ("gold", None)] {
            rights.qos.insert(name.to_owned(), minutes.map(Duration::from_mins));
        }
        let allowed = ["fast", "normal", "silver"].map(str::to_owned);
        let names = |rights: &Rights| {
            usable_qos(rights, &allowed).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&rights), ["fast", "normal"], "the user's rights are unknown");
        rights.accounts.insert("lab".to_owned(), vec!["fast".to_owned(), "gold".to_owned()]);
        assert_eq!(names(&rights), ["fast"]);
        let qos = usable_qos(&rights, &allowed);
        let discovered_tool = tool(&script("/s/a.sh", "#!/bin/sh\n"), &[], &qos).unwrap();
        let offered = &discovered_tool.input_schema["properties"]["qos"];
        assert_eq!(offered["enum"], json!(["fast"]));
        assert_eq!(offered["description"], "The quality of service: fast (at most 00:01:00).");
        assert_eq!(
            discovered_tool.target["resources"]["qos"],
            json!({"value": "{{ qos }}", "allowed": ["fast"]})
        );
        let script_text = "#!/bin/sh\n#TASKBRIDGE parameter qos string Its own.\n";
        let discovered_tool = tool(&script("/s/a.sh", script_text), &[], &qos).unwrap();
        assert_eq!(discovered_tool.target["resources"].get("qos"), None);
    }

    #[test]
    fn scripts_of_one_stem_stay_distinct() {
        assert_eq!(
            ["a.sh", "a.sbatch", "a.b.sh"].map(tool_name_of),
            ["a", "a.sbatch", "a.b.sh"].map(str::to_owned)
        );
    }

    /// A partition without a time limit adds no parameter for the time.
    #[test]
    fn unlimited_partition_leaves_time_open() {
        let mut all = partitions();
        all[1].max_time = None;
        let discovered_tool = tool(&script("/s/a.sh", "#!/bin/sh\n"), &all, &[]).unwrap();
        assert_eq!(discovered_tool.input_schema["properties"].get("minutes"), None);
    }
}
