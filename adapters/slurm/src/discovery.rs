//! The batch scripts of a folder as tools. What a script takes stands in its `#TASKBRIDGE` lines, beside its `#SBATCH` lines; the
//! partitions and their limits are the cluster's.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, Result, async_trait, tool_name};

use crate::amount;
use crate::backend::{Slurm, disk};
use crate::driver::site::Partition;
use crate::folder::open_regular;

/// The most bytes of a script that are read for its lines.
const HEAD: u64 = 64 * 1024;

/// How the names of batch scripts end.
const ENDINGS: [&str; 5] = ["sh", "bash", "sbatch", "slurm", "job"];

/// What is offered as tools.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SlurmDiscover")]
pub struct Discover {
    /// The folder of the batch scripts: files that end with `.sh`, `.bash`, `.sbatch`, `.slurm` or `.job`. Each is a tool, and whoever can write there decides what runs. A relative path starts at
    /// the folder of the config file.
    pub scripts: PathBuf,
    /// The partitions that callers may choose. Without it, all that are up.
    #[serde(default)]
    pub partitions: Option<Vec<String>>,
}

#[async_trait]
impl Discovery for Slurm {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(wanted) = &self.discover else {
            return Err(Error::config("the backend names no `discover.scripts` that could be offered"));
        };
        let partitions = self.driver.partitions().await?;
        let allowed = |partition: &Partition| {
            wanted.partitions.as_ref().is_none_or(|names| names.contains(&partition.name))
        };
        let partitions: Vec<Partition> =
            partitions.into_iter().filter(|partition| partition.up && allowed(partition)).collect();
        let folder = self.setup.config_dir.join(&wanted.scripts);
        let scripts = disk(move || scripts(&folder)).await??;
        scripts.iter().map(|(path, text)| tool(path, text, &partitions)).collect()
    }
}

/// The scripts of a folder with what they begin with, in the order of their names.
fn scripts(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let fault = |path: &Path, e: std::io::Error| {
        Error::unavailable(format!("{} cannot be read: {e}", path.display()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| fault(folder, e))? {
        let entry = entry.map_err(|e| fault(folder, e))?;
        let path = entry.path();
        let script = path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known));
        if !script || !entry.file_type().map_err(|e| fault(&path, e))?.is_file() {
            continue;
        }
        let mut head = Vec::new();
        let read = open_regular(&path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
        match read {
            // It was taken away meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(fault(&path, e)),
            Ok(_) => {}
        }
        // sbatch takes nothing else.
        if head.starts_with(b"#!") {
            found.push((path, String::from_utf8_lossy(&head).into_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// What a script says of itself.
#[derive(Default)]
struct Said {
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
    /// It is a list, of which each task of an array gets an element.
    each: bool,
}

/// The `#TASKBRIDGE` lines of a script, up to its first command.
fn said(text: &str) -> Result<Said, String> {
    let mut said = Said::default();
    for line in text.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#')) {
        let Some(line) = line.strip_prefix("#TASKBRIDGE ").map(str::trim) else { continue };
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "title" => said.title = Some(rest.to_owned()),
            "description" => said.description = Some(rest.to_owned()),
            "result" => said.result = Some(rest.to_owned()),
            "artifacts" => said.artifacts.extend(rest.split_whitespace().map(str::to_owned)),
            "parameter" | "each" => said.parameters.push(parameter(rest, word == "each")?),
            _ => {
                return Err(format!(
                    "`#TASKBRIDGE {word}` is not known: title, description, parameter, each, result, artifacts are"
                ));
            }
        }
    }
    if said.parameters.iter().filter(|parameter| parameter.each).count() > 1 {
        return Err("more than one parameter has an element for `each` task".to_owned());
    }
    Ok(said)
}

/// `NAME TYPE DESCRIPTION`, where `NAME?` may be left out.
fn parameter(text: &str, each: bool) -> Result<Parameter, String> {
    let mut words = text.splitn(3, char::is_whitespace);
    let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let description = words.next().unwrap_or_default().trim();
    let (name, required) = name.strip_suffix('?').map_or((name, true), |name| (name, false));
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("`{name}` cannot name a parameter: letters, digits and `_` can"));
    }
    if !["string", "integer", "number", "boolean"].contains(&kind) {
        return Err(format!(
            "the parameter `{name}` is of the type `{kind}`: string, integer, number and boolean are known"
        ));
    }
    if each && !required {
        return Err(format!("the list `{name}` cannot be left out"));
    }
    let mut schema = match each {
        true => json!({"type": "array", "items": {"type": kind}, "minItems": 1}),
        false => json!({"type": kind}),
    };
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    Ok(Parameter { name: name.to_owned(), schema, required, each })
}

fn tool(path: &Path, text: &str, partitions: &[Partition]) -> Result<DiscoveredTool> {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let said = said(text).map_err(|why| Error::config(format!("the script {}: {why}", path.display())))?;
    let mut properties = Map::new();
    let (mut args, mut required) = (Vec::new(), Vec::new());
    let mut target = json!({"script": path});
    for parameter in said.parameters {
        let value = if parameter.each {
            "{{ taskbridge.element }}".to_owned()
        } else {
            format!("{{{{ {} }}}}", parameter.name)
        };
        args.push(if parameter.required { json!(value) } else { json!([value]) });
        if parameter.required {
            required.push(parameter.name.clone());
        }
        if parameter.each {
            target["array"] = json!({"parameter": parameter.name});
        }
        properties.insert(parameter.name, parameter.schema);
    }
    target["args"] = args.into();
    if let Some(result) = said.result {
        target["result"] = result.into();
    }
    target["artifacts"] = said.artifacts.into();
    let mut resources = Map::new();
    offer_partitions(partitions, &mut properties, &mut resources);
    target["resources"] = Value::Object(resources);
    let input_schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("required".to_owned(), json!(required)),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    Ok(DiscoveredTool {
        name: name(&file),
        title: said.title,
        description: Some(
            said.description.unwrap_or_else(|| format!("Submits the batch script {file} to the cluster.")),
        ),
        input_schema,
        target,
        more: Map::new(),
    })
}

/// Which partition, and for how long at most: the caller's choice within the cluster's limits, unless the script has parameters of
/// these names.
fn offer_partitions(
    partitions: &[Partition],
    properties: &mut Map<String, Value>,
    resources: &mut Map<String, Value>,
) {
    let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
    if names.len() > 1 && !properties.contains_key("partition") {
        let limit = |partition: &Partition| {
            let time = partition.max_time.map_or("no limit of time".to_owned(), |time| {
                format!("at most {}", amount::time_in_words(time))
            });
            format!("{} ({time}{})", partition.name, if partition.default { ", the default" } else { "" })
        };
        let description = partitions.iter().map(limit).collect::<Vec<_>>().join(", ");
        let schema =
            json!({"type": "string", "enum": names, "description": format!("Where it runs: {description}.")});
        properties.insert("partition".to_owned(), schema);
        resources.insert("partition".to_owned(), json!({"value": "{{ partition }}", "allowed": names}));
    }
    // Where one has no limit, there is none to offer.
    let longest = partitions
        .iter()
        .map(|partition| partition.max_time)
        .min_by_key(|time| (time.is_some(), std::cmp::Reverse(*time)));
    if let Some(Some(longest)) = longest.filter(|_| !properties.contains_key("minutes")) {
        let minutes = longest.as_secs() / 60;
        let schema = json!({"type": "integer", "minimum": 1, "maximum": minutes, "description": "The most minutes that it may run."});
        properties.insert("minutes".to_owned(), schema);
        resources.insert("time".to_owned(), json!({"value": "{{ minutes }}", "max": minutes.to_string()}));
    }
}

/// `relax.sh` is `relax`, unless that could be the name of another file.
fn name(file: &str) -> String {
    match file.strip_suffix(".sh") {
        Some(stem) if !stem.contains('.') => tool_name(stem),
        _ => tool_name(file),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn partitions() -> Vec<Partition> {
        let named = |name: &str, hours| Partition {
            name: name.to_owned(),
            up: true,
            default: name == "main",
            max_time: Some(Duration::from_hours(hours)),
        };
        vec![named("main", 24), named("short", 1)]
    }

    #[test]
    fn lines_of_a_script_become_a_tool() {
        let text = "#!/bin/bash\n#SBATCH --mem=1G\n#TASKBRIDGE title Relax molecules\n#TASKBRIDGE each molecules string Formulas.\n\
                    #TASKBRIDGE parameter steps? integer How many.\n#TASKBRIDGE result out.json\n#TASKBRIDGE artifacts *.csv a/*\n\
                    echo\n#TASKBRIDGE nonsense is no header any more\n";
        let found = tool(Path::new("/s/relax.sh"), text, &partitions()).unwrap();
        assert_eq!((found.name.as_str(), found.title.as_deref()), ("relax", Some("Relax molecules")));
        assert_eq!(found.input_schema["required"], json!(["molecules"]));
        let properties = &found.input_schema["properties"];
        assert_eq!(properties["molecules"]["items"], json!({"type": "string"}));
        assert_eq!(
            (&properties["partition"]["enum"], &properties["minutes"]["maximum"]),
            (&json!(["main", "short"]), &json!(1440))
        );
        let wanted = json!({
            "script": "/s/relax.sh", "args": ["{{ taskbridge.element }}", ["{{ steps }}"]], "array": {"parameter": "molecules"},
            "result": "out.json", "artifacts": ["*.csv", "a/*"], "resources": {
                "partition": {"value": "{{ partition }}", "allowed": ["main", "short"]},
                "time": {"value": "{{ minutes }}", "max": "1440"},
            },
        });
        assert_eq!(found.target, wanted);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_file() {
        for line in [
            "nonsense",
            "parameter",
            "parameter 1x string",
            "parameter x matrix",
            "each x? string",
            "each a string\n#TASKBRIDGE each b string",
        ] {
            let error =
                tool(Path::new("/s/a.sh"), &format!("#!/bin/sh\n#TASKBRIDGE {line}\n"), &[]).unwrap_err();
            assert!(error.to_string().contains("/s/a.sh"), "{line}: {error}");
        }
    }

    #[test]
    fn files_of_one_stem_have_names_of_their_own() {
        assert_eq!(["a.sh", "a.sbatch", "a.b.sh"].map(name), ["a", "a.sbatch", "a.b.sh"].map(str::to_owned));
    }

    #[test]
    fn a_partition_without_a_limit_leaves_the_time_alone() {
        let mut all = partitions();
        all[1].max_time = None;
        let found = tool(Path::new("/s/a.sh"), "#!/bin/sh\n", &all).unwrap();
        assert_eq!(found.input_schema["properties"].get("minutes"), None);
    }
}
