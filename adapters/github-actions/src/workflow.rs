//! What a workflow's file says: whether it can be dispatched, with which inputs, and whether its runs carry our mark. Files
//! are asked for under their tags, so that one that has not changed is not sent again.

use std::collections::BTreeSet;
use std::time::Duration;

use data_encoding::BASE64;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value};
use taskbridge_sdk::{Error, Result};

use crate::api::{Answer, Api};
use crate::failure::Failure;
use crate::wire::{File, Repository};

/// The input that a workflow declares, and shows in its `run-name`, so that a run can be told from all others.
pub(crate) const MARKER: &str = "taskbridge_job";
/// The most inputs that GitHub takes.
pub(crate) const MOST_INPUTS: usize = 25;

/// What may stand in a path or a query as it is.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'/');

/// A workflow that can be dispatched.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Workflow {
    pub(crate) name: Option<String>,
    /// In the order of their names.
    pub(crate) inputs: Vec<Input>,
    /// True if its runs show the job's key in their titles.
    pub(crate) marked: bool,
    /// The environments that its jobs name, as far as no expression makes their names.
    pub(crate) environments: Vec<String>,
}

/// An input that a workflow declares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) description: Option<String>,
}

/// What an input takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text,
    Boolean,
    Number,
    Choice(Vec<String>),
    /// A type that is not known here.
    Other(String),
}

/// The file of a workflow, as far as it matters here.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    on: Value,
    #[serde(default, rename = "run-name")]
    run_name: Option<String>,
    #[serde(default)]
    jobs: Value,
}

/// The workflow of a file, as it stands at a branch or tag, or stood there within this time.
pub(crate) async fn at(
    api: &Api,
    age: Duration,
    repository: &str,
    file: &str,
    git_ref: &str,
) -> Result<Workflow> {
    let text = text(api, age, repository, file, git_ref).await?;
    parse(&text).map_err(|message| Error::config(format!("{} {message}", what(file, git_ref))))
}

/// A workflow's file as it is written, or was within this time.
pub(crate) async fn text(
    api: &Api,
    age: Duration,
    repository: &str,
    file: &str,
    git_ref: &str,
) -> Answer<String> {
    let what = what(file, git_ref);
    let (name, at) = (utf8_percent_encode(file, &PLAIN), utf8_percent_encode(git_ref, &PLAIN));
    let path = format!("/repos/{repository}/contents/.github/workflows/{name}?ref={at}");
    let found: File = api.get_within(age, &what, &path).await?;
    let bytes: Vec<u8> = found.content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let text = BASE64.decode(&bytes).ok().and_then(|text| String::from_utf8(text).ok());
    text.ok_or_else(|| Failure { status: None, error: Error::config(format!("{what} is no text")) })
}

fn what(file: &str, git_ref: &str) -> String {
    format!("the workflow {file} at {git_ref}")
}

/// A repository, as it is or was within this time.
pub(crate) async fn repository(api: &Api, age: Duration, repository: &str) -> Result<Repository> {
    let (what, path) = (format!("the repository {repository}"), format!("/repos/{repository}"));
    Ok(api.get_within(age, &what, &path).await?)
}

/// What a workflow's file says, or why it cannot be dispatched.
pub(crate) fn parse(text: &str) -> std::result::Result<Workflow, String> {
    let written: Written = serde_saphyr::from_str(text)
        .map_err(|e| format!("is no YAML that can be read: {}", first_line(&e.to_string())))?;
    let trigger = match &written.on {
        Value::String(name) if name == "workflow_dispatch" => Some(&Value::Null),
        Value::Array(names) if names.iter().any(|name| name == "workflow_dispatch") => Some(&Value::Null),
        Value::Object(triggers) => triggers.get("workflow_dispatch"),
        _ => None,
    };
    let trigger =
        trigger.ok_or("has no `workflow_dispatch` trigger: add it under `on` in the workflow's file")?;
    let none = Map::new();
    let declared = trigger.get("inputs").and_then(Value::as_object).unwrap_or(&none);
    let mut inputs: Vec<Input> = declared.iter().map(|(name, input)| Input::of(name, input)).collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    let has_marker = inputs.iter().any(|input| input.name == MARKER);
    let shown = written.run_name.is_some_and(|name| {
        let squeezed: String = name.split_whitespace().collect();
        squeezed.contains(&format!("inputs.{MARKER}"))
    });
    let environments = environments(&written.jobs);
    Ok(Workflow { name: written.name, inputs, marked: has_marker && shown, environments })
}

fn environments(jobs: &Value) -> Vec<String> {
    let named = jobs.as_object().into_iter().flatten().filter_map(|(_, job)| {
        let environment = job.get("environment")?;
        environment.as_str().or_else(|| environment.get("name")?.as_str())
    });
    let names: BTreeSet<&str> = named.filter(|name| !name.is_empty() && !name.contains("${{")).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The path of an environment in the API. Its name may have slashes, which are part of it.
pub(crate) fn environment_path(repository: &str, name: &str) -> String {
    const SEGMENT: AsciiSet = PLAIN.add(b'/');
    format!("/repos/{repository}/environments/{}", utf8_percent_encode(name, &SEGMENT))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Input {
    fn of(name: &str, written: &Value) -> Self {
        let options = written.get("options").and_then(Value::as_array);
        let kind = match written.get("type").and_then(Value::as_str).unwrap_or("string") {
            "string" | "environment" => Kind::Text,
            "boolean" => Kind::Boolean,
            "number" => Kind::Number,
            "choice" => Kind::Choice(options.into_iter().flatten().map(plain).collect()),
            other => Kind::Other(other.to_owned()),
        };
        let default = written.get("default").filter(|default| !default.is_null() && **default != "").cloned();
        let description = written.get("description").and_then(Value::as_str).map(str::to_owned);
        let required = written.get("required").and_then(Value::as_bool).unwrap_or(false);
        Self { name: name.to_owned(), kind, required, default, description }
    }
}

/// A value as GitHub passes it to a workflow: text as it is, everything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
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
        let found = parse(RELEASE).unwrap();
        assert!(found.marked && found.name.as_deref() == Some("Release"));
        let kind = |name: &str| &found.inputs.iter().find(|input| input.name == name).unwrap().kind;
        for name in ["version", "env", "plain", "nothing"] {
            assert_eq!(kind(name), &Kind::Text, "{name}");
        }
        assert_eq!((kind("dry_run"), kind("count")), (&Kind::Boolean, &Kind::Number));
        assert_eq!(kind("where"), &Kind::Choice(["staging", "production", "3"].map(str::to_owned).to_vec()));
        assert_eq!(kind("odd"), &Kind::Other("matrix".to_owned()));
        let named = |name: &str| found.inputs.iter().find(|input| input.name == name).unwrap();
        assert!(named("version").required && named("version").default.is_none());
        assert_eq!(named("version").description.as_deref(), Some("Which one"));
        assert_eq!(named("dry_run").default, Some(Value::Bool(false)));
    }

    #[test]
    fn a_workflow_is_marked_if_it_declares_the_input_and_shows_it() {
        let marked = |text: &str| parse(text).unwrap().marked;
        let declared = "on: {workflow_dispatch: {inputs: {taskbridge_job: {}}}}\n";
        assert!(!marked(declared));
        assert!(marked(&format!("run-name: a ${{{{ inputs.taskbridge_job }}}}\n{declared}")));
        assert!(!marked("run-name: a ${{ inputs.taskbridge_job }}\non: workflow_dispatch"));
    }

    #[test]
    fn environments_are_those_that_are_named() {
        let jobs = "{a: {environment: prod}, b: {environment: {name: test, url: x}}, c: {environment: '${{ inputs.where }}'}, d: {}}";
        let found = parse(&format!("on: workflow_dispatch\njobs: {jobs}")).unwrap();
        assert_eq!(found.environments, ["prod", "test"]);
        assert_eq!(environment_path("o/r", "a b/c"), "/repos/o/r/environments/a%20b%2Fc");
    }

    #[test]
    fn every_form_of_the_trigger_is_known_and_its_absence_told() {
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
        assert!(parse("on: [").unwrap_err().contains("is no YAML"));
    }
}
