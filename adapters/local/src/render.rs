//! Turns templates and a job's arguments into text, and says in whose words it fails: by field and parameter, never
//! by value, because an argument can be a secret. It must not know what the text is for.

use minijinja::Value;
use minijinja::value::Serde;
use serde_json::{Map, Value as Json, json};
use taskbridge_sdk::{Error, Result};

use crate::config::Argument;
use crate::job_dir::{self, JobDir};
use crate::template::{OURS, Templates};

/// Renders the templates of one job.
pub(crate) struct Renderer<'a> {
    templates: Templates,
    arguments: &'a Map<String, Json>,
    context: Value,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(arguments: &'a Map<String, Json>, dir: &JobDir) -> Self {
        let mut ours = Map::new();
        for name in job_dir::NAMES {
            ours.insert(name.to_owned(), dir.told(name).to_string_lossy().into());
        }
        ours.insert("arguments".to_owned(), json!(arguments));
        let mut context = arguments.clone();
        context.insert(OURS.to_owned(), ours.into());
        Self { templates: Templates::new(), arguments, context: Value::from(Serde(&context)) }
    }

    /// Any text.
    pub(crate) fn text(&self, field: &str, template: &str) -> Result<String> {
        self.templates.render(template, &self.context).map_err(|message| {
            let missing = self.missing(template);
            Error::rejected(match missing.first() {
                Some(name) => format!("`{field}` needs the parameter `{name}`, which was not given"),
                None => format!("`{field}` cannot be rendered: {message}"),
            })
        })
    }

    /// Text that the operating system takes as an argument, a variable or a path.
    pub(crate) fn word(&self, field: &str, template: &str) -> Result<String> {
        let text = self.text(field, template)?;
        if !text.contains('\0') {
            return Ok(text);
        }
        let holds_nul = |value: &Json| value.as_str().is_some_and(|text| text.contains('\0'));
        Err(Error::rejected(match self.arguments.iter().find(|(_, value)| holds_nul(value)) {
            Some((name, _)) => {
                format!("the parameter `{name}` holds a NUL character, which no command can be given")
            }
            None => format!("`{field}` renders a NUL character, which no command can be given"),
        }))
    }

    /// A whole command line.
    pub(crate) fn command(&self, arguments: &[Argument]) -> Result<Vec<String>> {
        let mut command = Vec::with_capacity(arguments.len());
        for (i, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::One(template) => command.push(self.word(&format!("command[{i}]"), template)?),
                Argument::Optional(group) => command.extend(self.optional(i, group)?),
            }
        }
        Ok(command)
    }

    /// Arguments that are left out together.
    fn optional(&self, i: usize, group: &[String]) -> Result<Vec<String>> {
        let mut words = Vec::with_capacity(group.len());
        for (j, template) in group.iter().enumerate() {
            if !self.missing(template).is_empty() {
                return Ok(Vec::new());
            }
            words.push(self.word(&format!("command[{i}][{j}]"), template)?);
        }
        let complete = words.iter().all(|word| !word.is_empty());
        Ok(if complete { words } else { Vec::new() })
    }

    /// The parameters that a template names and the caller did not give (or gave as null).
    fn missing(&self, template: &str) -> Vec<String> {
        let names = self.templates.names(template).unwrap_or_default().into_iter();
        let heads = names.map(|name| name.split('.').next().unwrap_or_default().to_owned());
        heads.filter(|head| head != OURS && self.arguments.get(head).is_none_or(Json::is_null)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: Json, templates: Json) -> Result<Vec<String>, String> {
        let templates: Vec<Argument> = serde_json::from_value(templates).unwrap();
        let arguments = arguments.as_object().unwrap();
        let renderer = Renderer::new(arguments, &JobDir::new("/jobs/tb-x"));
        renderer.command(&templates).map_err(|e| e.to_string())
    }

    #[test]
    fn a_template_is_exactly_one_argument_even_if_empty() {
        let odd = "a b'\"\n$(id) `x` ; -rf *";
        assert_eq!(
            command(json!({"p": odd}), json!(["x", "{{ p }}", "-{{ p }}"])),
            Ok(vec!["x".into(), odd.into(), format!("-{odd}")])
        );
        assert_eq!(command(json!({"p": ""}), json!(["x", "{{ p }}"])), Ok(vec!["x".into(), String::new()]));
    }

    #[test]
    fn a_group_is_left_out_when_a_part_is_absent_null_or_empty() {
        let group = json!(["x", ["-d", "{{ d }}"]]);
        assert_eq!(command(json!({"d": 2}), group.clone()).unwrap(), ["x", "-d", "2"]);
        for arguments in [json!({}), json!({"d": null}), json!({"d": ""})] {
            assert_eq!(command(arguments, group.clone()).unwrap(), ["x"]);
        }
        let flag = json!(["x", ["{{ '-v' if v }}"]]);
        assert_eq!(command(json!({"v": true}), flag.clone()).unwrap(), ["x", "-v"]);
        assert_eq!(command(json!({"v": false}), flag).unwrap(), ["x"]);
    }

    #[test]
    fn templates_see_what_the_job_is_told() {
        let found = command(
            json!({"a-b": [1]}),
            json!(["{{ taskbridge.artifacts }}/x", "{{ taskbridge.arguments }}"]),
        );
        assert_eq!(found.unwrap(), ["/jobs/tb-x/artifacts/x", r#"{"a-b":[1]}"#]);
    }

    #[test]
    fn refusals_name_the_field_and_the_parameter_and_no_value() {
        let missing = command(json!({}), json!(["x", "{{ p }}"])).unwrap_err();
        assert_eq!(missing, "`command[1]` needs the parameter `p`, which was not given");
        let nul = command(json!({"q": "", "p": "sec\0ret"}), json!(["x", "{{ p }}"])).unwrap_err();
        assert!(nul.contains("parameter `p` holds a NUL") && !nul.contains("sec"), "{nul}");
        let odd = command(json!({"p": "secret"}), json!(["x", "{{ p | int }}"])).unwrap_err();
        assert!(odd.contains("`command[1]` cannot be rendered") && !odd.contains("secret"), "{odd}");
    }
}
