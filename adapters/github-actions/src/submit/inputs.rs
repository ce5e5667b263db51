//! Inputs of a workflow: the tool's arguments or the rendered target, checked against the workflow's file. An
//! input that GitHub would ignore or reject later is rejected here by name, before the dispatch. Error
//! messages quote no values, because an argument can be a secret. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use taskbridge_sdk::{Error, JobSpec, Result, TemplateContext, Templates};

use crate::config::Target;
use crate::driver::workflow::{Input, InputKind, MARKER, MAX_INPUTS, Workflow, value_text};

/// Returns the inputs of a run, each as text.
pub(crate) fn build(job: &JobSpec, target: &Target, workflow: &Workflow) -> Result<Map<String, Value>> {
    if let Some(file) = job.files.first() {
        return Err(Error::rejected(format!(
            "`{}` is a file, and a workflow takes no files: pass text, or a URL that the workflow can read",
            file.parameter
        )));
    }
    let mut values = collect_values(job, target)?;
    if workflow.inputs.iter().any(|input| input.name == MARKER) {
        values.insert(MARKER.to_owned(), job.key.as_str().into());
    }
    let is_declared = |name: &String| workflow.inputs.iter().any(|input| input.name == *name);
    if let Some(name) = values.keys().find(|name| !is_declared(name)) {
        let names: Vec<&str> = workflow.inputs.iter().map(|input| input.name.as_str()).collect();
        let declared_names =
            if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) };
        return Err(Error::rejected(format!("the workflow has no input `{name}`; it has {declared_names}")));
    }
    if values.len() > MAX_INPUTS {
        let count = values.len();
        return Err(Error::rejected(format!(
            "there are {count} inputs, and GitHub accepts at most {MAX_INPUTS}"
        )));
    }
    let mut inputs = Map::new();
    for input in &workflow.inputs {
        match values.get(&input.name) {
            Some(value) => {
                let text = convert_value(input, value)
                    .map_err(|reason| Error::rejected(format!("the input `{}` {reason}", input.name)))?;
                inputs.insert(input.name.clone(), text.into());
            }
            None if input.required && input.default.is_none() => {
                return Err(Error::rejected(format!(
                    "the workflow needs the input `{}`, which was not given",
                    input.name
                )));
            }
            None => {}
        }
    }
    Ok(inputs)
}

fn collect_values(job: &JobSpec, target: &Target) -> Result<BTreeMap<String, Value>> {
    let mut values = BTreeMap::new();
    match &target.inputs {
        None => {
            let arguments = job.arguments.as_object().into_iter().flatten();
            values.extend(
                arguments
                    .filter(|(_, value)| !value.is_null())
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        Some(templates) => {
            for (name, template) in templates {
                let value = render(job, &format!("inputs.{name}"), template)?;
                values.extend(value.map(|value| (name.clone(), value.into())));
            }
        }
    }
    Ok(values)
}

/// Renders a template as text. `None` if it is a single parameter that was not given.
pub(crate) fn render(job: &JobSpec, field: &str, template: &str) -> Result<Option<String>> {
    let arguments = job.arguments.as_object().cloned().unwrap_or_default();
    let context = TemplateContext::new(&arguments, Value::Null, Value::Null);
    context.has_value(template).then(|| Templates::new().render_text(field, template, &context)).transpose()
}

/// Returns a value as text if it is valid for the input, or else what the input requires.
fn convert_value(input: &Input, value: &Value) -> std::result::Result<String, String> {
    let text = value_text(value);
    match &input.kind {
        InputKind::Text => Ok(text),
        InputKind::Boolean if matches!(text.as_str(), "true" | "false") => Ok(text),
        InputKind::Boolean => Err("must be true or false".to_owned()),
        InputKind::Number if text.parse::<f64>().is_ok_and(f64::is_finite) => Ok(text),
        InputKind::Number => Err("must be a number".to_owned()),
        InputKind::Choice(options) if options.contains(&text) => Ok(text),
        InputKind::Choice(options) => Err(format!("must be one of `{}`", options.join("`, `"))),
        InputKind::Other(kind) => {
            Err(format!("has the type `{kind}` in the workflow's file, which this server does not know"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use taskbridge_sdk::suite::job;
    use taskbridge_sdk::{FileContent, InputFile};

    fn workflow() -> Workflow {
        let input = |name: &str, kind, required, has_default: bool| Input {
            name: name.to_owned(),
            kind,
            required,
            default: has_default.then_some(Value::Bool(false)),
            description: None,
        };
        let choice = InputKind::Choice(vec!["staging".to_owned(), "3".to_owned()]);
        let inputs = vec![
            input("count", InputKind::Number, false, false),
            input("dry", InputKind::Boolean, true, true),
            input("odd", InputKind::Other("matrix".to_owned()), false, false),
            input(MARKER, InputKind::Text, false, false),
            input("version", InputKind::Text, true, false),
            input("where", choice, false, false),
        ];
        Workflow { inputs, marked: true, ..Workflow::default() }
    }

    fn inputs(arguments: Value, templates: Value) -> std::result::Result<Value, String> {
        let job = job(json!({}), arguments);
        let target = json!({"workflow": "w.yml", "inputs": templates});
        let mut run_inputs =
            build(&job, &serde_json::from_value(target).unwrap(), &workflow()).map_err(|e| e.to_string())?;
        assert_eq!(run_inputs.remove(MARKER), Some(job.key.as_str().into()), "every run is marked");
        Ok(run_inputs.into())
    }

    /// Each argument becomes the text that GitHub expects as an input. Null is left out.
    #[test]
    fn values_become_workflow_input_text() {
        let arguments = json!({"version": "1.4", "dry": true, "count": 2.5, "where": 3, "odd": null});
        let expected = json!({"version": "1.4", "dry": "true", "count": "2.5", "where": "3"});
        assert_eq!(inputs(arguments, Value::Null), Ok(expected));
        assert_eq!(inputs(json!({"version": [1]}), Value::Null), Ok(json!({"version": "[1]"})));
        let templates = json!({"version": "v{{ v }}", "where": "{{ place }}", "dry": "false"});
        assert_eq!(inputs(json!({"v": "1"}), templates), Ok(json!({"version": "v1", "dry": "false"})));
    }

    /// An input that GitHub would refuse or drop is rejected with its name, but without its value.
    #[test]
    fn invalid_input_is_rejected_by_name() {
        for (arguments, expected) in [
            (json!({}), "the workflow needs the input `version`"),
            (json!({"version": "1", "dry": "yes"}), "the input `dry` must be true or false"),
            (json!({"version": "1", "count": "s3cret"}), "the input `count` must be a number"),
            (json!({"version": "1", "where": "s3cret"}), "the input `where` must be one of `staging`, `3`"),
            (json!({"version": "1", "odd": "x"}), "the input `odd` has the type `matrix`"),
            (json!({"version": "1", "vesion": "2"}), "no input `vesion`; it has `count`, `dry`"),
        ] {
            let error = inputs(arguments.clone(), Value::Null).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{arguments}: {error}");
        }
    }

    /// More than 25 inputs, and files, are rejected.
    #[test]
    fn excess_inputs_and_files_are_rejected() {
        let input = |at: usize| Input {
            name: format!("i{at:02}"),
            kind: InputKind::Text,
            required: false,
            default: None,
            description: None,
        };
        let workflow = Workflow { inputs: (0..26).map(input).collect(), ..Workflow::default() };
        let arguments: Map<String, Value> = (0..26).map(|at| (format!("i{at:02}"), at.into())).collect();
        let target: Target = serde_json::from_value(json!({"workflow": "w.yml"})).unwrap();
        let mut job = job(json!({}), arguments.into());
        assert!(
            build(&job, &target, &workflow)
                .unwrap_err()
                .to_string()
                .contains("26 inputs, and GitHub accepts at most 25")
        );
        let content = FileContent::Inline(vec![]);
        job.files.push(InputFile { parameter: "table".to_owned(), name: "t.csv".to_owned(), content });
        assert!(build(&job, &target, &workflow).unwrap_err().to_string().starts_with("`table` is a file"));
    }

    /// Arguments that look like shell code, expressions, templates or options stay one text.
    #[test]
    fn hostile_input_stays_single_value() {
        for hostile in [
            "-rf",
            "$(id) `id`; rm -rf ~ && true | x",
            "two\nlines\r\n::set-output name=a::b",
            "${{ secrets.TOKEN }}",
            "{{ 7 * 7 }}{% raw %}",
            "'\"\\\", \"ref\": \"evil",
            "*?[a-z]",
            "../../.github/workflows/other.yml",
            "/etc/passwd",
            "\u{2010}x\u{202e}y",
            &"long ".repeat(10_000),
        ] {
            assert_eq!(inputs(json!({"version": hostile}), Value::Null), Ok(json!({"version": hostile})));
            let templates = json!({"version": "v{{ v }}"});
            let expected = json!({"version": format!("v{hostile}")});
            assert_eq!(inputs(json!({"v": hostile}), templates), Ok(expected), "it is rendered once");
        }
    }
}
