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
    /// All that templates see.
    told: Json,
    context: Value,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(arguments: &'a Map<String, Json>, dir: &JobDir, caller: Option<&str>) -> Self {
        let mut ours = Map::new();
        for name in job_dir::NAMES {
            ours.insert(name.to_owned(), dir.told(name).to_string_lossy().into());
        }
        ours.insert("arguments".to_owned(), json!(arguments));
        if let Some(caller) = caller {
            ours.insert("caller".to_owned(), caller.into());
        }
        let mut told = arguments.clone();
        told.insert(OURS.to_owned(), ours.into());
        let told = Json::from(told);
        let context = Value::from(Serde(&told));
        Self { templates: Templates::new(), arguments, told, context }
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

    /// A whole command line. No caller makes an option of an argument, unless `dashes` lets them.
    pub(crate) fn command(&self, arguments: &[Argument], dashes: bool) -> Result<Vec<String>> {
        let mut command = Vec::with_capacity(arguments.len());
        let mut options_over = false;
        for (i, argument) in arguments.iter().enumerate() {
            match argument {
                Argument::One(template) => {
                    let field = format!("command[{i}]");
                    let word = self.word(&field, template)?;
                    if !options_over && !dashes {
                        self.no_option(&field, template, &word)?;
                    }
                    options_over = i > 0 && self.ends_options(template, options_over);
                    command.push(word);
                }
                Argument::Optional(group) => {
                    command.extend(self.optional(i, group, options_over, dashes)?);
                    // Whether it is left out or not: what stands in it may be a program of its own.
                    let over = |over, template: &String| self.ends_options(template, over);
                    options_over &= group.iter().fold(options_over, over);
                }
            }
        }
        Ok(command)
    }

    /// Arguments that are left out together. What follows an option in its group may be that option's value, or the option may take
    /// none: nobody but the program knows.
    fn optional(
        &self,
        i: usize,
        group: &[String],
        mut options_over: bool,
        dashes: bool,
    ) -> Result<Vec<String>> {
        let mut words = Vec::with_capacity(group.len());
        for (j, template) in group.iter().enumerate() {
            if !self.missing(template).is_empty() {
                return Ok(Vec::new());
            }
            let field = format!("command[{i}][{j}]");
            let word = self.word(&field, template)?;
            if !options_over && !dashes {
                self.no_option(&field, template, &word)?;
            }
            options_over = self.ends_options(template, options_over);
            words.push(word);
        }
        let complete = words.iter().all(|word| !word.is_empty());
        Ok(if complete { words } else { Vec::new() })
    }

    /// True if no program takes what comes behind this argument for an option: it is `--`, or a value of the caller's that stands
    /// behind one. A word of the config's can be the name of a program that `--` was not meant for (`env -- tar`).
    fn ends_options(&self, template: &str, over: bool) -> bool {
        template == "--" || (over && self.names_of_callers(template).next().is_some())
    }

    /// The parameters that a template names.
    fn names_of_callers(&self, template: &str) -> impl Iterator<Item = String> {
        let names = self.templates.names(template).unwrap_or_default().into_iter();
        let heads = names.map(|name| name.split('.').next().unwrap_or_default().to_owned());
        heads.filter(|head| head != OURS)
    }

    /// A word whose first dash is a caller's could be taken for an option that nobody offered. Whose it is shows when the
    /// callers' texts are rendered without their dashes. A number is what the tool's schema lets through.
    fn no_option(&self, field: &str, template: &str, word: &str) -> Result<()> {
        if !word.starts_with('-') || template.starts_with('-') {
            return Ok(());
        }
        let context = Value::from(Serde(&without_dashes(&self.told)));
        if self.templates.render(template, &context).is_ok_and(|ours| ours.starts_with('-')) {
            return Ok(());
        }
        let theirs = |name: &String| self.arguments.get(name.split('.').next().unwrap_or_default()).is_some();
        let names = self.templates.names(template).unwrap_or_default();
        let whose = match names.iter().find(|name| theirs(name)) {
            Some(name) => format!("the parameter `{name}`"),
            None => format!("`{field}`"),
        };
        Err(Error::rejected(format!(
            "{whose} begins with a dash, so that the program could take it for an option: in the config's `command`, \
             `--option={{{{ value }}}}` in one argument or `\"--\"` right before it lets it through, where the program knows \
             that, or `allow_leading_dash`"
        )))
    }

    /// The parameters that a template names and the caller did not give (or gave as null).
    fn missing(&self, template: &str) -> Vec<String> {
        let absent = |head: &String| self.arguments.get(head).is_none_or(Json::is_null);
        self.names_of_callers(template).filter(absent).collect()
    }
}

/// The same values, with a character that no option begins with for each dash in their texts.
fn without_dashes(value: &Json) -> Json {
    match value {
        Json::String(text) => text.replace('-', "\u{fffd}").into(),
        Json::Array(items) => items.iter().map(without_dashes).collect(),
        Json::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), without_dashes(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(arguments: Json, templates: Json) -> Result<Vec<String>, String> {
        let templates: Vec<Argument> = serde_json::from_value(templates).unwrap();
        let arguments = arguments.as_object().unwrap();
        let renderer = Renderer::new(arguments, &JobDir::new("/jobs/tb-x"), None);
        renderer.command(&templates, false).map_err(|e| e.to_string())
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

    #[test]
    fn no_value_of_a_caller_becomes_an_option() {
        for value in ["-rf", "--output=/etc/passwd", "-", "--"] {
            for templates in [
                json!(["rm", "{{ p }}"]),
                json!(["rm", "-r", "{{ p }}"]),
                json!(["rm", "{{ p }}", "--"]),
                json!(["rm", "{{ p | trim }}"]),
                json!(["rm", "{{ taskbridge.arguments.p }}"]),
                json!(["rm", "{% if p %}{{ p }}{% endif %}"]),
                json!(["rm", ["{{ p }}"]]),
                json!(["rm", ["--into=x", "{{ p }}"]]),
                json!(["curl", ["-v", "{{ p }}"]]),
                json!(["curl", ["--file", "{{ p }}"]]),
                json!(["env", "--", "tar", "{{ p }}"]),
                json!(["env", "--", "tar", ["{{ p }}"]]),
                json!(["env", "--", ["{{ taskbridge.artifacts }}/run"], "{{ p }}"]),
                json!(["env", ["--", "tar", "{{ p }}"]]),
                json!(["{{ p }}"]),
            ] {
                let error = command(json!({"p": value}), templates.clone()).unwrap_err();
                assert!(
                    error.contains("begins with a dash") && !error.contains("passwd"),
                    "{templates}: {error}"
                );
            }
            for templates in [
                json!(["rm", "--", "{{ p }}"]),
                json!(["rm", "--", "{{ p }}x", ["{{ p }}"]]),
                json!(["rm", ["-r", "--", "{{ p }}"]]),
                json!(["env", "--", "tar", "--", "{{ p }}"]),
                json!(["rm", "--file={{ p }}"]),
                json!(["rm", "./{{ p }}"]),
                json!(["rm", ["--file={{ p }}"]]),
            ] {
                let found = command(json!({"p": value}), templates.clone()).unwrap();
                assert!(found.iter().any(|word| word.ends_with(value)), "{templates}: {found:?}");
            }
        }
        let list = json!(["x", "{{ l | join(' ') }}"]);
        assert!(command(json!({"l": ["-a", "b"]}), list.clone()).is_err());
        assert!(command(json!({"l": ["a", "-b"]}), list).is_ok());
        for (template, arguments) in [
            ("{{ '-v' if p }}", json!({"p": "-x"})),
            ("{{ '--mode=' ~ p }}", json!({"p": "-x"})),
            ("{{ p }}", json!({"p": -3})),
            ("{{ p }}", json!({"p": "\u{2010}x"})),
        ] {
            assert!(command(arguments, json!(["x", template])).is_ok(), "{template}");
        }
        let templates: Vec<Argument> =
            vec![Argument::One("x".to_owned()), Argument::One("{{ p }}".to_owned())];
        let arguments = Map::from_iter([("p".to_owned(), json!("-x"))]);
        let renderer = Renderer::new(&arguments, &JobDir::new("/jobs/tb-x"), None);
        assert_eq!(renderer.command(&templates, true).unwrap(), ["x", "-x"]);
    }
}
