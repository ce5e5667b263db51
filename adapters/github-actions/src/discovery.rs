//! Discovery of the workflows of a repository that can be dispatched. Each becomes a tool with the inputs
//! that its file declares. Requests for files are conditional, so an unchanged repository costs nothing of
//! the rate limit.

use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, Result, async_trait, tool_name};

use crate::check::target::allows;
use crate::core::Actions;
use crate::driver::wire::{ListedWorkflow, Workflows};
use crate::driver::workflow::{self, Input, InputKind, MARKER, MAX_INPUTS, Workflow, value_text};

/// Folder of the workflow files. GitHub also lists workflows of its own, which cannot be started.
const FOLDER: &str = ".github/workflows/";
/// Maximum number of pages of workflows.
const MAX_PAGES: usize = 10;

#[async_trait]
impl Discovery for Actions {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(repository) = &self.repository else {
            return Err(Error::config("discovery needs a repository: set `repository` in the backend"));
        };
        let branch = self.default_branch(Duration::ZERO, repository).await?;
        let mut tools = Vec::new();
        for entry in self.workflows(repository).await? {
            let Some(file) = entry.path.strip_prefix(FOLDER) else { continue };
            if entry.state != "active" || !allows(self.discovery_filter.workflows.as_deref(), file) {
                continue;
            }
            let text = match workflow::fetch_text(&self.api, Duration::ZERO, repository, file, &branch).await
            {
                Ok(text) => text,
                // It exists only on another branch.
                Err(failure) if failure.has_status(404) => continue,
                Err(failure) => return Err(failure.into()),
            };
            // GitHub cannot dispatch a file without this trigger, or an invalid file, either.
            if let Ok(definition) = workflow::parse(&text) {
                tools.extend(tool(file, &definition));
            }
        }
        Ok(tools)
    }
}

impl Actions {
    async fn workflows(&self, repository: &str) -> Result<Vec<ListedWorkflow>> {
        let mut workflows = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("/repos/{repository}/actions/workflows?per_page=100&page={page}");
            let response: Workflows = self.api.get("the workflows", &path).await?;
            let is_last_page = response.workflows.len() < 100;
            workflows.extend(response.workflows);
            if is_last_page {
                break;
            }
        }
        Ok(workflows)
    }
}

/// Returns a workflow as a tool. `None` if it cannot be called: it requires an input of an unknown type, or
/// has more than `MAX_INPUTS`.
fn tool(file: &str, workflow: &Workflow) -> Option<DiscoveredTool> {
    let is_required = |input: &&Input| input.required && input.default.is_none();
    let is_unknown = |input: &Input| matches!(input.kind, InputKind::Other(_));
    if workflow.inputs.len() > MAX_INPUTS || workflow.inputs.iter().filter(is_required).any(is_unknown) {
        return None;
    }
    let offered_inputs = || workflow.inputs.iter().filter(|input| input.name != MARKER && !is_unknown(input));
    let properties: Map<String, Value> =
        offered_inputs().map(|input| (input.name.clone(), property(input))).collect();
    let required: Vec<&str> = offered_inputs().filter(is_required).map(|input| input.name.as_str()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let Value::Object(input_schema) = schema else { return None };
    let title = workflow.name.clone().unwrap_or_else(|| file.to_owned());
    let marker_note = match workflow.marked {
        true => "",
        false => " Its runs carry no mark, so a start whose reply is lost ends as uncertain.",
    };
    Some(DiscoveredTool {
        name: name(file),
        description: Some(format!("Runs the workflow {title} ({file}) of GitHub Actions.{marker_note}")),
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
        InputKind::Boolean => json!({"type": "boolean"}),
        InputKind::Number => json!({"type": "number"}),
        InputKind::Choice(options) => json!({"type": "string", "enum": options}),
        InputKind::Text | InputKind::Other(_) => json!({"type": "string"}),
    };
    if let Some(description) = &input.description {
        property["description"] = description.as_str().into();
    }
    if let Some(default) = input.default.as_ref().and_then(|default| convert_default(&input.kind, default)) {
        property["default"] = default;
    }
    property
}

/// Converts a default to the type of its input. Workflows may write `"true"` for true.
fn convert_default(kind: &InputKind, default: &Value) -> Option<Value> {
    let text = value_text(default);
    match kind {
        InputKind::Boolean => text.parse::<bool>().ok().map(Value::from),
        InputKind::Number => serde_json::from_str::<serde_json::Number>(&text).ok().map(Value::from),
        InputKind::Choice(options) => options.contains(&text).then(|| text.into()),
        InputKind::Text | InputKind::Other(_) => Some(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_with_inputs(inputs: &str) -> Option<DiscoveredTool> {
        tool(
            "release.yml",
            &workflow::parse(&format!("name: Release\non: {{workflow_dispatch: {{inputs: {inputs}}}}}"))
                .unwrap(),
        )
    }

    #[test]
    fn inputs_become_a_schema() {
        let discovered_tool = tool_with_inputs(
            "{version: {required: true, description: Which one}, dry: {type: boolean, default: 'true'}, n: {type: number, default: 3}, \
             where: {type: choice, options: [a, b], default: b}, odd: {type: matrix}, taskbridge_job: {}}",
        )
        .unwrap();
        let properties = json!({
            "version": {"type": "string", "description": "Which one"}, "dry": {"type": "boolean", "default": true},
            "n": {"type": "number", "default": 3}, "where": {"type": "string", "enum": ["a", "b"], "default": "b"},
        });
        assert_eq!(discovered_tool.input_schema["properties"], properties);
        assert_eq!(discovered_tool.input_schema["required"], json!(["version"]));
        assert_eq!(
            (discovered_tool.name.as_str(), discovered_tool.target),
            ("release", json!({"workflow": "release.yml"}))
        );
        assert!(discovered_tool.description.unwrap().contains("carry no mark"));
    }

    /// A required input of an unknown type, or more than 25 inputs, keeps a workflow from being offered.
    #[test]
    fn uncallable_workflow_is_not_offered() {
        assert!(tool_with_inputs("{odd: {type: matrix, required: true}}").is_none());
        let many: Vec<String> = (0..26).map(|at| format!("i{at}: {{}}")).collect();
        assert!(tool_with_inputs(&format!("{{{}}}", many.join(", "))).is_none());
    }

    /// `a.yml` and `a.yaml` become tools with different names.
    #[test]
    fn workflows_with_equal_stem_stay_distinct() {
        let names = ["a.yml", "a.yaml", "a.yaml.yml"].map(name);
        assert_eq!(names, ["a", "a.yaml", "a.yaml.yml"]);
    }
}
