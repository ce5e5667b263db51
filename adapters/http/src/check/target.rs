//! What can be wrong with the target of a tool, offline.

use std::collections::BTreeSet;

use serde_json::Value;
use taskbridge_sdk::{Problem, Templates, unknown_parameter};

use crate::config::{Config, Target};
use crate::language::JsonTemplate;

/// Names that templates of a target can use besides the parameters.
const NAMES: [&str; 3] = ["arguments", "vars", Templates::NAMESPACE];

/// Returns what is wrong with a target.
pub(crate) fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Templates::reserved_name_problem(parameters).into_iter().collect();
    let known: Vec<&str> = config.target.keys().map(String::as_str).collect();
    for (name, value) in &target.0 {
        let problem = |message: String| Problem { field: name.clone(), message };
        if !config.target.contains_key(name) {
            let message = match known.as_slice() {
                [] => "unknown field: this backend has no fields of a target".to_owned(),
                known => format!("unknown field (known: `{}`)", known.join("`, `")),
            };
            problems.push(problem(message));
            continue;
        }
        match template(value) {
            Err(message) => problems.push(problem(message)),
            Ok(template) => {
                let names = roots(template.names());
                for unknown in names.iter().filter(|name| !is_known(name, parameters)) {
                    problems.push(problem(unknown_parameter(unknown, parameters)));
                }
                if is_raw(config, name) && !names.is_empty() {
                    let message =
                        "must not use parameters: a path of this backend contains it as it is (`raw`)";
                    problems.push(problem(message.to_owned()));
                }
            }
        }
    }
    for (name, field) in &config.target {
        if field.required && !target.0.contains_key(name) {
            problems.push(Problem { field: String::new(), message: format!("missing field `{name}`") });
        }
    }
    problems
}

/// Returns the parameters that a request shows outside of its body: in its path, its query or a header.
pub(crate) fn visible_parameters(config: &Config, target: &Target) -> BTreeSet<String> {
    let requests = config.find.iter().map(|find| &find.request);
    let requests = std::iter::once(&config.start.request).chain(requests);
    let names: BTreeSet<String> = requests.flat_map(|request| request.visible_names()).collect();
    let mut visible = BTreeSet::new();
    for name in &names {
        match name.split('.').collect::<Vec<_>>().as_slice() {
            ["arguments"] => drop(visible.insert("*".to_owned())),
            ["arguments", parameter, ..] => drop(visible.insert((*parameter).to_owned())),
            ["target", field, ..] => {
                let template = target.0.get(*field).and_then(|value| template(value).ok());
                visible.extend(template.map(|template| roots(template.names())).unwrap_or_default());
            }
            [parameter, ..] => drop(visible.insert((*parameter).to_owned())),
            [] => {}
        }
    }
    // The handle is stored, and stands in the paths of later requests.
    visible.extend(config.start.handle.values().flat_map(|member| roots(member.names())));
    visible
}

fn template(value: &Value) -> Result<JsonTemplate, String> {
    serde_json::from_value(value.clone()).map_err(|e| e.to_string())
}

fn roots(names: BTreeSet<String>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.split('.').next().unwrap_or_default().to_owned()).collect()
}

fn is_known(name: &str, parameters: &[&str]) -> bool {
    parameters.contains(&name) || NAMES.contains(&name)
}

/// Returns whether a path has this field of the target as it is.
fn is_raw(config: &Config, field: &str) -> bool {
    let mut paths =
        std::iter::once(&config.start.request.path).chain(config.find.iter().map(|find| &find.request.path));
    paths.any(|path| path.raw_names().contains(&format!("target.{field}")))
}
