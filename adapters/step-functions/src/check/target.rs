//! Offline checks of targets. It must not check whether the state machine exists, which depends on the
//! account and not on the config.

use serde_json::Value;
use taskbridge_sdk::{Problem, Templates};

use crate::config::{Config, Target};
use crate::identity::arn::{MachineArn, is_name};

/// Variables that templates find under [`Templates::NAMESPACE`].
const TEMPLATE_VARIABLES: [&str; 3] = ["arguments", "caller", "job"];

/// Returns all problems of a target for a tool with these parameters.
pub(crate) fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = check_state_machine(config, &target.state_machine)
        .map(|message| Problem { field: "state_machine".to_owned(), message })
        .into_iter()
        .collect();
    let templates = Templates::new();
    let mut check_template = |field: &str, template: &str| {
        let messages = templates.check(template, parameters, &TEMPLATE_VARIABLES);
        problems.extend(messages.into_iter().map(|message| Problem { field: field.to_owned(), message }));
    };
    for (name, value) in target.input.iter().flatten() {
        visit_strings(&format!("input.{name}"), value, &mut check_template);
    }
    if let Some(template) = &target.attach {
        check_template("attach", template);
    }
    if target.attach.is_some() && target.input.is_some() {
        let message = "an attached execution gets no input: leave out `input` or `attach`".to_owned();
        problems.push(Problem { field: "input".to_owned(), message });
    }
    if target.input.is_some() || target.attach.is_some() {
        problems.extend(Templates::reserved_name_problem(parameters));
    }
    problems
}

/// Returns an error message if the state machine of a target is invalid.
fn check_state_machine(config: &Config, name: &str) -> Option<String> {
    if !name.starts_with("arn:") {
        return (!is_name(name)).then(|| {
            format!(
                "`{name}` cannot name a state machine: give its ARN, or its name of at most 80 characters"
            )
        });
    }
    let Some(arn) = MachineArn::parse(name) else {
        return Some(format!(
            "`{name}` is not the ARN of a state machine, such as \
             `arn:aws:states:eu-central-1:123456789012:stateMachine:Nightly`"
        ));
    };
    let region = config.region.as_deref().filter(|region| *region != arn.region())?;
    Some(format!(
        "the state machine is in `{}`, and the backend works in `{region}`: each region needs a backend",
        arn.region()
    ))
}

/// Calls `visit` for every string in a value, with the path of its field.
fn visit_strings(field: &str, value: &Value, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(field, text),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                visit_strings(&format!("{field}[{at}]"), item, visit);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                visit_strings(&format!("{field}.{name}"), member, visit);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(target: Value) -> Vec<(String, String)> {
        let config = serde_json::from_value(json!({"region": "eu-central-1"})).unwrap();
        let target: Target = serde_json::from_value(target).unwrap();
        check(&config, &target, &["rows", "note"]).into_iter().map(|p| (p.field, p.message)).collect()
    }

    /// Targets with a name or an ARN and with a mapped input have no problems.
    #[test]
    fn valid_machine_target_passes_check() {
        for machine in ["Nightly", "arn:aws:states:eu-central-1:123456789012:stateMachine:Nightly:PROD"] {
            let input = json!({"a": "{{ rows }}", "b": [{"c": "{{ note }}/{{ taskbridge.job }}"}], "d": 3});
            assert_eq!(problems(json!({"state_machine": machine, "input": input})), []);
        }
    }

    /// Every problem of a target names its field and how to fix it.
    #[test]
    fn target_problem_names_field_and_fix() {
        let target_with_input = |input: Value| json!({"state_machine": "m", "input": input});
        for (target, field, part) in [
            (json!({"state_machine": ""}), "state_machine", "give its ARN"),
            (json!({"state_machine": "a b"}), "state_machine", "give its ARN"),
            (
                json!({"state_machine": "arn:aws:lambda:x"}),
                "state_machine",
                "is not the ARN of a state machine",
            ),
            (
                json!({"state_machine": "arn:aws:states:us-east-1:1:stateMachine:m"}),
                "state_machine",
                "`us-east-1`, and the backend works in `eu-central-1`",
            ),
            (target_with_input(json!({"a": "{{ row }}"})), "input.a", "parameters are `rows`, `note`"),
            (target_with_input(json!({"a": [1, {"b": "{{ x }}"}]})), "input.a[1].b", "`x` is unknown"),
            (target_with_input(json!({"a": "{{ rows"})), "input.a", "syntax error"),
            (json!({"state_machine": "m", "attach": "{{ x }}"}), "attach", "`x` is unknown"),
            (json!({"state_machine": "m", "attach": "{{ note }}", "input": {}}), "input", "leave out"),
            (
                target_with_input(json!({"a": "{{ taskbridge.artifacts }}"})),
                "input.a",
                "`arguments`, `caller`, `job`",
            ),
        ] {
            let actual = problems(target.clone());
            assert_eq!(actual.len(), 1, "{target}: {actual:?}");
            assert_eq!(actual[0].0, field, "{target}");
            assert!(actual[0].1.contains(part), "{target}: {actual:?}");
        }
    }

    #[test]
    fn shapes_are_strict() {
        for (target, part) in [
            (json!({"state_machine": "m", "inputs": {}}), "unknown field `inputs`"),
            (json!({"state_machine": "m", "input": "x"}), "expected a map"),
            (json!({}), "missing field `state_machine`"),
        ] {
            let error = serde_json::from_value::<Target>(target).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = serde_json::from_value::<Config>(json!({"regoin": "x"})).unwrap_err().to_string();
        assert!(error.contains("unknown field `regoin`"), "{error}");
    }
}
