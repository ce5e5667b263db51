//! Offline checks of targets. It must not check whether the workflow exists, which depends on the repository
//! and not on the config.

use taskbridge_sdk::{Problem, Templates};

use crate::config::{Config, Target};
use crate::driver::workflow::{MARKER, MAX_INPUTS};

/// Returns all problems of a target for a tool with these parameters.
pub(crate) fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem =
        |field: &str, message: String| problems.push(Problem { field: field.to_owned(), message });
    match target.repository.as_deref().or(config.repository.as_deref()) {
        None => problem(
            "repository",
            "no repository is set here or in the backend: write `owner/name`".to_owned(),
        ),
        Some(name) if !is_repository(name) => {
            problem("repository", format!("`{name}` is not a repository: write `owner/name`"))
        }
        Some(_) => {}
    }
    let file = &target.workflow;
    if file.contains('/') || !(file.ends_with(".yml") || file.ends_with(".yaml")) {
        problem(
            "workflow",
            format!(
                "`{file}` is not a workflow file: write only its name in `.github/workflows`, such as `release.yml`"
            ),
        );
    }
    let mut templates: Vec<(String, &str)> = Vec::new();
    templates.extend(target.git_ref.as_deref().map(|text| ("ref".to_owned(), text)));
    templates.extend(target.attach.as_deref().map(|text| ("attach".to_owned(), text)));
    templates.extend(target.rerun.as_deref().map(|text| ("rerun".to_owned(), text)));
    let inputs = target.inputs.iter().flatten();
    templates.extend(inputs.map(|(name, text)| (format!("inputs.{name}"), text.as_str())));
    for (field, text) in &templates {
        for message in Templates::new().check(text, parameters, &[]) {
            problem(field, message);
        }
    }
    let inputs = target.inputs.as_ref();
    if let Some(count) = inputs.map(|inputs| inputs.len()).filter(|count| *count > MAX_INPUTS) {
        problem("inputs", format!("there are {count} inputs, and GitHub accepts at most {MAX_INPUTS}"));
    }
    if inputs.is_some_and(|inputs| inputs.contains_key(MARKER)) {
        problem(&format!("inputs.{MARKER}"), "the server sets this input: remove it".to_owned());
    }
    let existing = [("attach", &target.attach), ("rerun", &target.rerun)];
    for (field, _) in existing.iter().filter(|(_, template)| template.is_some()) {
        if target.inputs.is_some() {
            let message = format!("an existing run takes no inputs: remove `inputs` or `{field}`");
            problem("inputs", message);
        }
        if target.git_ref.is_some() {
            let message = format!("an existing run has a fixed ref: remove `ref` or `{field}`");
            problem("ref", message);
        }
    }
    if target.attach.is_some() && target.rerun.is_some() {
        problem(
            "rerun",
            "a target can either follow a run or rerun it: remove `attach` or `rerun`".to_owned(),
        );
    }
    if target.only_failed && target.rerun.is_none() {
        problem(
            "only_failed",
            "`only_failed` requires `rerun`: set `rerun`, or remove `only_failed`".to_owned(),
        );
    }
    if target.git_ref.as_deref().is_some_and(|text| text.contains("{{")) && target.allowed_refs.is_none() {
        let message = "the caller chooses the ref, and the workflow file at that ref runs with the repository's secrets: \
                       list the allowed refs, such as `[\"main\", \"release/*\"]`, or `[\"*\"]` for any";
        problem("allowed_refs", message.to_owned());
    }
    if let (Some(git_ref), Some(_)) = (&target.git_ref, &target.allowed_refs)
        && !git_ref.contains("{{")
        && !allows(target.allowed_refs.as_deref(), git_ref)
    {
        problem("ref", format!("`{git_ref}` is not among `allowed_refs`"));
    }
    problems
}

fn is_repository(name: &str) -> bool {
    let is_valid_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    name.split_once('/').is_some_and(|(owner, name)| is_valid_part(owner) && is_valid_part(name))
}

/// Returns true if a branch or tag is allowed. `*` in a pattern matches any text.
pub(crate) fn allows(allowed_refs: Option<&[String]>, git_ref: &str) -> bool {
    allowed_refs.is_none_or(|patterns| patterns.iter().any(|pattern| matches_pattern(pattern, git_ref)))
}

fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches_pattern(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problems(config: Value, target: Value) -> Vec<(String, String)> {
        let (config, target) =
            (serde_json::from_value(config).unwrap(), serde_json::from_value(target).unwrap());
        check(&config, &target, &["version", "branch"]).into_iter().map(|p| (p.field, p.message)).collect()
    }

    /// Targets with a workflow, a templated ref and mapped inputs have no problems.
    #[test]
    fn valid_workflow_target_passes_check() {
        let target = json!({"workflow": "release.yml", "ref": "{{ branch }}", "allowed_refs": ["main", "release/*"],
            "inputs": {"version": "v{{ version }}"}});
        assert_eq!(problems(json!({"repository": "octo-org/app"}), target), []);
        assert_eq!(problems(json!({}), json!({"workflow": "w.yaml", "repository": "a/b.c"})), []);
    }

    /// Every problem of a target names its field and how to fix it.
    #[test]
    fn workflow_problem_names_field_and_fix() {
        let config = json!({"repository": "octo-org/app"});
        for (target, field, part) in [
            (json!({"workflow": "release"}), "workflow", "write only its name"),
            (json!({"workflow": ".github/workflows/release.yml"}), "workflow", "write only its name"),
            (json!({"workflow": "w.yml", "repository": "app"}), "repository", "write `owner/name`"),
            (json!({"workflow": "w.yml", "repository": "a/.."}), "repository", "write `owner/name`"),
            (
                json!({"workflow": "w.yml", "ref": "{{ brunch }}", "allowed_refs": ["*"]}),
                "ref",
                "`brunch` is unknown",
            ),
            (
                json!({"workflow": "w.yml", "ref": "{{ branch }}"}),
                "allowed_refs",
                "the caller chooses the ref",
            ),
            (json!({"workflow": "w.yml", "ref": "dev", "allowed_refs": ["main"]}), "ref", "not among"),
            (json!({"workflow": "w.yml", "inputs": {"a": "{{ x"}}), "inputs.a", "syntax error"),
            (
                json!({"workflow": "w.yml", "inputs": {"taskbridge_job": "x"}}),
                "inputs.taskbridge_job",
                "remove it",
            ),
            (json!({"workflow": "w.yml", "attach": "{{ version }}", "inputs": {}}), "inputs", "remove"),
        ] {
            let found = problems(config.clone(), target.clone());
            assert_eq!(found.len(), 1, "{target}: {found:?}");
            assert_eq!(found[0].0, field, "{target}");
            assert!(found[0].1.contains(part), "{target}: {}", found[0].1);
        }
        assert_eq!(problems(json!({}), json!({"workflow": "w.yml"}))[0].0, "repository");
    }

    #[test]
    fn patterns_allow_what_they_say() {
        let patterns = ["main".to_owned(), "release/*".to_owned(), "v*.*".to_owned()];
        for (git_ref, expected) in [
            ("main", true),
            ("main2", false),
            ("release/1.4", true),
            ("releases", false),
            ("v1.2", true),
            ("v12", false),
        ] {
            assert_eq!(allows(Some(&patterns), git_ref), expected, "{git_ref}");
        }
        assert!(allows(None, "anything"));
    }
}
