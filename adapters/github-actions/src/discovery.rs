//! Discovery of the workflows of a repository that can be dispatched. Each becomes a tool with the inputs
//! that its file declares. Requests for files are conditional, so an unchanged repository costs nothing of
//! the rate limit.

use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, Result, async_trait, tool_name};

use crate::backend::Actions;
use crate::check::allows;
use crate::wire::{Listed, Workflows};
use crate::workflow::{self, Input, Kind, MARKER, MOST_INPUTS, Workflow, plain};

/// Folder of the workflow files. GitHub also lists workflows of its own, which cannot be started.
const FOLDER: &str = ".github/workflows/";
/// Maximum number of pages of workflows.
const MOST_PAGES: usize = 10;

#[async_trait]
impl Discovery for Actions {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(repository) = &self.repository else {
            return Err(Error::config("the backend names no `repository` whose workflows could be offered"));
        };
        let branch = self.default_branch(Duration::ZERO, repository).await?;
        let mut tools = Vec::new();
        for listed in self.workflows(repository).await? {
            let Some(file) = listed.path.strip_prefix(FOLDER) else { continue };
            if listed.state != "active" || !allows(self.wanted.workflows.as_deref(), file) {
                continue;
            }
            let text = match workflow::text(&self.api, Duration::ZERO, repository, file, &branch).await {
                Ok(text) => text,
                // It exists only on another branch.
                Err(failure) if failure.is(404) => continue,
                Err(failure) => return Err(failure.into()),
            };
            // GitHub cannot dispatch a file without this trigger, or an invalid file, either.
            if let Ok(found) = workflow::parse(&text) {
                tools.extend(tool(file, &found));
            }
        }
        Ok(tools)
    }
}

impl Actions {
    async fn workflows(&self, repository: &str) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("/repos/{repository}/actions/workflows?per_page=100&page={page}");
            let found: Workflows = self.api.get("the workflows", &path).await?;
            let last = found.workflows.len() < 100;
            all.extend(found.workflows);
            if last {
                break;
            }
        }
        Ok(all)
    }
}

/// Returns a workflow as a tool. `None` if it cannot be called: it requires an input of an unknown type, or
/// has more than `MOST_INPUTS`.
fn tool(file: &str, workflow: &Workflow) -> Option<DiscoveredTool> {
    let needs = |input: &&Input| input.required && input.default.is_none();
    let unknown = |input: &Input| matches!(input.kind, Kind::Other(_));
    if workflow.inputs.len() > MOST_INPUTS || workflow.inputs.iter().filter(needs).any(unknown) {
        return None;
    }
    let given = || workflow.inputs.iter().filter(|input| input.name != MARKER && !unknown(input));
    let properties: Map<String, Value> = given().map(|input| (input.name.clone(), property(input))).collect();
    let required: Vec<&str> = given().filter(needs).map(|input| input.name.as_str()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let Value::Object(input_schema) = schema else { return None };
    let title = workflow.name.clone().unwrap_or_else(|| file.to_owned());
    let unmarked = match workflow.marked {
        true => "",
        false => {
            " If the answer to its start is lost, whether it was started stays uncertain: its runs carry no mark."
        }
    };
    Some(DiscoveredTool {
        name: name(file),
        description: Some(format!("Runs the workflow {title} ({file}) of GitHub Actions.{unmarked}")),
        title: Some(title),
        input_schema,
        target: json!({"workflow": file}),
        more: Map::new(),
    })
}

/// Returns the name of a file's tool: `release` for `release.yml`, unless another file could have that name.
fn name(file: &str) -> String {
    match file.strip_suffix(".yml") {
        Some(stem) if !stem.ends_with(".yaml") => tool_name(stem),
        _ => tool_name(file),
    }
}

fn property(input: &Input) -> Value {
    let mut property = match &input.kind {
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Number => json!({"type": "number"}),
        Kind::Choice(options) => json!({"type": "string", "enum": options}),
        Kind::Text | Kind::Other(_) => json!({"type": "string"}),
    };
    if let Some(description) = &input.description {
        property["description"] = description.as_str().into();
    }
    if let Some(default) = input.default.as_ref().and_then(|default| fitting(&input.kind, default)) {
        property["default"] = default;
    }
    property
}

/// Converts a default to the type of its input. Workflows may write `"true"` for true.
fn fitting(kind: &Kind, default: &Value) -> Option<Value> {
    let text = plain(default);
    match kind {
        Kind::Boolean => text.parse::<bool>().ok().map(Value::from),
        Kind::Number => serde_json::from_str::<serde_json::Number>(&text).ok().map(Value::from),
        Kind::Choice(options) => options.contains(&text).then(|| text.into()),
        Kind::Text | Kind::Other(_) => Some(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(inputs: &str) -> Option<DiscoveredTool> {
        tool(
            "release.yml",
            &workflow::parse(&format!("name: Release\non: {{workflow_dispatch: {{inputs: {inputs}}}}}"))
                .unwrap(),
        )
    }

    #[test]
    fn inputs_become_a_schema() {
        let found = offered(
            "{version: {required: true, description: Which one}, dry: {type: boolean, default: 'true'}, n: {type: number, default: 3}, \
             where: {type: choice, options: [a, b], default: b}, odd: {type: matrix}, taskbridge_job: {}}",
        )
        .unwrap();
        let properties = json!({
            "version": {"type": "string", "description": "Which one"}, "dry": {"type": "boolean", "default": true},
            "n": {"type": "number", "default": 3}, "where": {"type": "string", "enum": ["a", "b"], "default": "b"},
        });
        assert_eq!(found.input_schema["properties"], properties);
        assert_eq!(found.input_schema["required"], json!(["version"]));
        assert_eq!((found.name.as_str(), found.target), ("release", json!({"workflow": "release.yml"})));
        assert!(found.description.unwrap().contains("carry no mark"));
    }

    /// A required input of an unknown type, or more than 25 inputs, keeps a workflow from being offered.
    #[test]
    fn uncallable_workflow_is_not_offered() {
        assert!(offered("{odd: {type: matrix, required: true}}").is_none());
        let many: Vec<String> = (0..26).map(|at| format!("i{at}: {{}}")).collect();
        assert!(offered(&format!("{{{}}}", many.join(", "))).is_none());
    }

    /// `a.yml` and `a.yaml` become tools with different names.
    #[test]
    fn workflows_with_equal_stem_stay_distinct() {
        let names = ["a.yml", "a.yaml", "a.yaml.yml"].map(name);
        assert_eq!(names, ["a", "a.yaml", "a.yaml.yml"]);
    }
}
