//! Content of a workflow's file: whether it can be dispatched, its inputs, and whether its runs show our key.
//! Requests for files are conditional, so GitHub does not send an unchanged file again.

use std::collections::BTreeSet;
use std::time::Duration;

use data_encoding::BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Error, Result};

use crate::driver::api::{Api, ApiResult};
use crate::driver::error::Failure;
use crate::driver::wire::{File, Repository};

/// Input that a workflow declares and shows in its `run-name`, to identify a run.
pub(crate) const MARKER: &str = "taskbridge_job";
/// Maximum number of inputs that GitHub accepts.
pub(crate) const MAX_INPUTS: usize = 25;

/// Characters that are escaped in a path or a query: all except letters, digits and `-_./`.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');

/// Workflow that can be dispatched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Workflow {
    pub(crate) name: Option<String>,
    /// Sorted by name.
    pub(crate) inputs: Vec<Input>,
    /// True if its runs show the job's key in their titles.
    pub(crate) marked: bool,
    /// Environments that its jobs name, except for names that contain an expression.
    pub(crate) environments: Vec<String>,
}

/// Input that a workflow declares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) kind: InputKind,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) description: Option<String>,
}

/// Type of an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InputKind {
    Text,
    Boolean,
    Number,
    Choice(Vec<String>),
    /// Type that is not known here.
    Other(String),
}

/// File of a workflow, as far as it is used.
#[derive(Deserialize)]
struct WorkflowFile {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    on: Value,
    #[serde(default, rename = "run-name")]
    run_name: Option<String>,
    #[serde(default)]
    jobs: Value,
}

/// Reads the workflow of a file at a branch or tag. `max_age` is the maximum age of the cached response.
pub(crate) async fn fetch(
    api: &Api,
    max_age: Duration,
    repository: &str,
    file: &str,
    git_ref: &str,
) -> Result<Workflow> {
    let text = fetch_text(api, max_age, repository, file, git_ref).await?;
    parse(&text).map_err(|message| Error::config(format!("{} {message}", file_label(file, git_ref))))
}

/// Reads the text of a workflow's file. `max_age` is the maximum age of the cached response.
pub(crate) async fn fetch_text(
    api: &Api,
    max_age: Duration,
    repository: &str,
    file: &str,
    git_ref: &str,
) -> ApiResult<String> {
    let label = file_label(file, git_ref);
    let (encoded_file, encoded_ref) =
        (utf8_percent_encode(file, &ESCAPED), utf8_percent_encode(git_ref, &ESCAPED));
    let path = format!("/repos/{repository}/contents/.github/workflows/{encoded_file}?ref={encoded_ref}");
    let response: File = api.get_cached(max_age, &label, &path).await?;
    let bytes: Vec<u8> = response.content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let text = BASE64.decode(&bytes).ok().and_then(|text| String::from_utf8(text).ok());
    text.ok_or_else(|| Failure { status: None, error: Error::config(format!("{label} is not UTF-8 text")) })
}

fn file_label(file: &str, git_ref: &str) -> String {
    format!("the workflow {file} at {git_ref}")
}

/// Reads a repository. `max_age` is the maximum age of the cached response.
pub(crate) async fn fetch_repository(api: &Api, max_age: Duration, repository: &str) -> Result<Repository> {
    let (label, path) = (format!("the repository {repository}"), format!("/repos/{repository}"));
    Ok(api.get_cached(max_age, &label, &path).await?)
}

/// Parses a workflow's file. The error is the reason why it cannot be dispatched; it continues a sentence
/// about the file.
pub(crate) fn parse(text: &str) -> std::result::Result<Workflow, String> {
    let workflow_file: WorkflowFile = serde_saphyr::from_str(text)
        .map_err(|e| format!("is not valid YAML: {}", first_line(&e.to_string())))?;
    let trigger = match &workflow_file.on {
        Value::String(name) if name == "workflow_dispatch" => Some(&Value::Null),
        Value::Array(names) if names.iter().any(|name| name == "workflow_dispatch") => Some(&Value::Null),
        Value::Object(triggers) => triggers.get("workflow_dispatch"),
        _ => None,
    };
    let trigger =
        trigger.ok_or("has no `workflow_dispatch` trigger: add it under `on` in the workflow's file")?;
    let empty = Map::new();
    let declared_inputs = trigger.get("inputs").and_then(Value::as_object).unwrap_or(&empty);
    let mut inputs: Vec<Input> =
        declared_inputs.iter().map(|(name, input)| Input::from_value(name, input)).collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    let has_marker = inputs.iter().any(|input| input.name == MARKER);
    let shows_marker = workflow_file.run_name.is_some_and(|name| {
        let compact: String = name.split_whitespace().collect();
        compact.contains(&format!("inputs.{MARKER}"))
    });
    let environments = environments(&workflow_file.jobs);
    Ok(Workflow { name: workflow_file.name, inputs, marked: has_marker && shows_marker, environments })
}

fn environments(jobs: &Value) -> Vec<String> {
    let environment_names = jobs.as_object().into_iter().flatten().filter_map(|(_, job)| {
        let environment = job.get("environment")?;
        environment.as_str().or_else(|| environment.get("name")?.as_str())
    });
    let names: BTreeSet<&str> =
        environment_names.filter(|name| !name.is_empty() && !name.contains("${{")).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the path of an environment in the API. Slashes in its name are escaped.
pub(crate) fn environment_path(repository: &str, name: &str) -> String {
    const SEGMENT: AsciiSet = ESCAPED.add(b'/');
    format!("/repos/{repository}/environments/{}", utf8_percent_encode(name, &SEGMENT))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Input {
    fn from_value(name: &str, declaration: &Value) -> Self {
        let options = declaration.get("options").and_then(Value::as_array);
        let kind = match declaration.get("type").and_then(Value::as_str).unwrap_or("string") {
            "string" | "environment" => InputKind::Text,
            "boolean" => InputKind::Boolean,
            "number" => InputKind::Number,
            "choice" => InputKind::Choice(options.into_iter().flatten().map(value_text).collect()),
            other => InputKind::Other(other.to_owned()),
        };
        let default =
            declaration.get("default").filter(|default| !default.is_null() && **default != "").cloned();
        let description = declaration.get("description").and_then(Value::as_str).map(str::to_owned);
        let required = declaration.get("required").and_then(Value::as_bool).unwrap_or(false);
        Self { name: name.to_owned(), kind, required, default, description }
    }
}

/// Returns a value as GitHub passes it to a workflow: text unchanged, everything else as JSON.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = r#"
name: Release
run-name: Release ${{ inputs.version }} (${{inputs.taskbridge_job}})
on:
  push: {branches: [main]}
  workflow_dispatch:
    inputs:
      version: {type: string, required: true, description: Which one}
      dry_run: {type: boolean, default: false}
      count: {type: number}
      where: {type: choice, options: [staging, production, 3]}
      env: {type: environment}
      plain: {}
      nothing:
      odd: {type: matrix}
      taskbridge_job: {type: string}
jobs: {}
"#;

    #[test]
    fn inputs_are_read_with_their_types() {
        let workflow = parse(RELEASE).unwrap();
        assert!(workflow.marked && workflow.name.as_deref() == Some("Release"));
        let kind = |name: &str| &workflow.inputs.iter().find(|input| input.name == name).unwrap().kind;
        for name in ["version", "env", "plain", "nothing"] {
            assert_eq!(kind(name), &InputKind::Text, "{name}");
        }
        assert_eq!((kind("dry_run"), kind("count")), (&InputKind::Boolean, &InputKind::Number));
        assert_eq!(
            kind("where"),
            &InputKind::Choice(["staging", "production", "3"].map(str::to_owned).to_vec())
        );
        assert_eq!(kind("odd"), &InputKind::Other("matrix".to_owned()));
        let find_input = |name: &str| workflow.inputs.iter().find(|input| input.name == name).unwrap();
        assert!(find_input("version").required && find_input("version").default.is_none());
        assert_eq!(find_input("version").description.as_deref(), Some("Which one"));
        assert_eq!(find_input("dry_run").default, Some(Value::Bool(false)));
    }

    /// A workflow is marked only if it declares the input `taskbridge_job` and shows it in `run-name`.
    #[test]
    fn mark_requires_input_and_run_name() {
        let is_marked = |text: &str| parse(text).unwrap().marked;
        let trigger = "on: {workflow_dispatch: {inputs: {taskbridge_job: {}}}}\n";
        assert!(!is_marked(trigger));
        assert!(is_marked(&format!("run-name: a ${{{{ inputs.taskbridge_job }}}}\n{trigger}")));
        assert!(!is_marked("run-name: a ${{ inputs.taskbridge_job }}\non: workflow_dispatch"));
    }

    /// Environments with a fixed name are collected. Expressions are not.
    #[test]
    fn literal_environments_are_collected() {
        let jobs = "{a: {environment: prod}, b: {environment: {name: test, url: x}}, c: {environment: '${{ inputs.where }}'}, d: {}}";
        let workflow = parse(&format!("on: workflow_dispatch\njobs: {jobs}")).unwrap();
        assert_eq!(workflow.environments, ["prod", "test"]);
        assert_eq!(environment_path("o/r", "a b/c"), "/repos/o/r/environments/a%20b%2Fc");
    }

    /// Every form of `workflow_dispatch` is parsed. A workflow without it is rejected.
    #[test]
    fn dispatch_trigger_forms_are_recognized() {
        for on in [
            "workflow_dispatch",
            "[push, workflow_dispatch]",
            "{workflow_dispatch: }",
            "{workflow_dispatch: {}}",
        ] {
            assert_eq!(parse(&format!("on: {on}")).unwrap().inputs, [], "{on}");
        }
        for text in ["on: push", "on: {push: {}}", "jobs: {}"] {
            assert!(parse(text).unwrap_err().contains("no `workflow_dispatch`"), "{text}");
        }
        assert!(parse("on: [").unwrap_err().contains("is not valid YAML"));
    }
}
