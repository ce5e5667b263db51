//! Offline checks of a target. They must not check whether the program exists: that depends on the machine,
//! not on the config.

use taskbridge_sdk::{CommandArgument, Problem, Templates};

use crate::config::Target;
use crate::store::job_dir;

/// Returns all problems of a target for a tool with these parameters.
pub(crate) fn check(target: &Target, parameters: &[&str]) -> Vec<Problem> {
    let templates = Templates::new();
    let provided_names: Vec<&str> =
        job_dir::PROVIDED_NAMES.into_iter().chain(["arguments", "caller"]).collect();
    let mut problems: Vec<Problem> = Templates::reserved_name_problem(parameters).into_iter().collect();
    let mut problem =
        |field: &str, message: String| problems.push(Problem { field: field.to_owned(), message });

    for (field, template) in each_template(target) {
        for message in templates.check(template, parameters, &provided_names) {
            problem(&field, message);
        }
    }
    match target.command.first() {
        Some(CommandArgument::One(program)) if !program.trim().is_empty() => {}
        Some(CommandArgument::One(_)) => problem("command[0]", "the program is empty".to_owned()),
        Some(CommandArgument::Optional(_)) => {
            problem("command[0]", "the program cannot be optional, so it must be a string".to_owned());
        }
        None => problem("command", "the list is empty: write a program and its arguments".to_owned()),
    }
    if target.success_exit_codes.is_empty() {
        problem(
            "success_exit_codes",
            "the list is empty: write at least one exit code, such as 0".to_owned(),
        );
    }
    problems
}

/// Returns every template of a target, with the path of its field.
pub(crate) fn each_template(target: &Target) -> impl Iterator<Item = (String, &str)> {
    let command = CommandArgument::templates("command", &target.command);
    let env = target.env.iter().map(|(name, value)| (format!("env.{}", name.as_str()), value.as_str()));
    let working_dir = target.working_dir.iter().map(|t| ("working_dir".to_owned(), t.as_str()));
    let stdin = target.stdin.iter().map(|t| ("stdin".to_owned(), t.as_str()));
    command.chain(working_dir).chain(env).chain(stdin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(target: serde_json::Value) -> Vec<(String, String)> {
        let target: Target = serde_json::from_value(target).unwrap();
        check(&target, &["path", "depth"]).into_iter().map(|p| (p.field, p.message)).collect()
    }

    #[test]
    fn a_right_target_has_no_problems() {
        let target = json!({
            "command": ["du", ["--max-depth", "{{ depth }}"], "{{ path }}", "{{ taskbridge.artifacts }}/x"],
            "env": {"A": "{{ path }}"}, "stdin": "{{ taskbridge.arguments }}", "working_dir": "/tmp", "timeout": "5m",
        });
        assert_eq!(problems(target), []);
    }

    /// Each problem names its field and how to correct it.
    #[test]
    fn local_target_problem_names_field() {
        for (target, field, part) in [
            (json!({"command": []}), "command", "write a program"),
            (json!({"command": [" "]}), "command[0]", "empty"),
            (json!({"command": [["x"]]}), "command[0]", "must be a string"),
            (json!({"command": ["x", "{{ pat }}"]}), "command[1]", "parameters are `path`, `depth`"),
            (json!({"command": ["x", ["-d", "{{ deep }}"]]}), "command[1][1]", "`deep` is unknown"),
            (json!({"command": ["x", "{{ path"]}), "command[1]", "syntax error"),
            (json!({"command": ["x", "{{ taskbridge.artefacts }}"]}), "command[1]", "`artifacts`"),
            (json!({"command": ["x"], "env": {"A": "{{ a }}"}}), "env.A", "`a` is unknown"),
            (json!({"command": ["x"], "stdin": "{{ a }}"}), "stdin", "`a` is unknown"),
            (json!({"command": ["x"], "working_dir": "{{ a }}"}), "working_dir", "`a` is unknown"),
            (json!({"command": ["x"], "success_exit_codes": []}), "success_exit_codes", "at least one"),
        ] {
            let found = problems(target.clone());
            assert_eq!(found.len(), 1, "{target}: {found:?}");
            assert_eq!(found[0].0, field, "{target}");
            assert!(found[0].1.contains(part), "{target}: {found:?}");
        }
    }

    #[test]
    fn shapes_are_strict() {
        for (target, part) in [
            (json!({"command": ["x"], "cwd": "/"}), "unknown field `cwd`"),
            (json!({"command": [3]}), "a template (a string) or an array"),
            (json!({"command": ["x"], "env": {"TASKBRIDGE_JOB": ""}}), "the server's own"),
        ] {
            let error = serde_json::from_value::<Target>(target).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
