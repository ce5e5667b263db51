//! Renders the arguments of a program. A template becomes exactly one argument, whatever it contains, unless
//! its group is omitted. Unless `allow_dashes` is set, the text of a caller cannot turn an argument into an
//! option. This module must not know what the program is, or where its arguments are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::template::root_name;
use crate::{Error, Result, TemplateContext, Templates};

/// Part of a command line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a template (a string) or an array of templates that belong together")]
pub enum CommandArgument {
    /// A template for exactly one argument.
    One(String),
    /// Templates for arguments that are omitted together.
    Optional(Vec<String>),
}

impl CommandArgument {
    /// Returns every template of these arguments, with the path of its field.
    pub fn templates<'a>(field: &'a str, arguments: &'a [Self]) -> impl Iterator<Item = (String, &'a str)> {
        arguments.iter().enumerate().flat_map(move |(at, argument)| match argument {
            Self::One(template) => vec![(format!("{field}[{at}]"), template.as_str())],
            Self::Optional(group) => {
                let inner = group.iter().enumerate();
                inner.map(|(i, template)| (format!("{field}[{at}][{i}]"), template.as_str())).collect()
            }
        })
    }
}

impl Templates {
    /// Renders the arguments of a program. A group is omitted if it names a parameter that is absent or null,
    /// or if one of its arguments renders empty. With `allow_dashes`, a caller's text may begin an argument
    /// with a dash anywhere; without it, only after `--`.
    ///
    /// # Errors
    /// Returns `Rejected` if a template cannot be rendered with the caller's arguments, or if the program
    /// could take an argument for an option.
    pub fn render_arguments(
        &self,
        field: &str,
        arguments: &[CommandArgument],
        context: &TemplateContext,
        allow_dashes: bool,
    ) -> Result<Vec<String>> {
        let command_line = CommandLine { list_field: field, templates: self, context, allow_dashes };
        let mut args = Vec::with_capacity(arguments.len());
        let mut options_ended = false;
        for (at, argument) in arguments.iter().enumerate() {
            let field = format!("{field}[{at}]");
            match argument {
                CommandArgument::One(template) => {
                    args.push(command_line.render(&field, template, options_ended)?);
                    options_ended = command_line.ends_options(template, options_ended);
                }
                CommandArgument::Optional(group) => {
                    if !group.iter().any(|template| self.has_missing_parameter(template, context)) {
                        args.extend(command_line.render_group(&field, group, options_ended)?);
                    }
                    // A group can only end the effect of an earlier `--`, even if it is omitted: it may
                    // contain the name of another program. A `--` in a group has no effect after the group.
                    let still_ended = |ended, template: &String| command_line.ends_options(template, ended);
                    options_ended &= group.iter().fold(options_ended, still_ended);
                }
            }
        }
        Ok(args)
    }
}

/// Settings for rendering the arguments of one command line.
struct CommandLine<'a> {
    /// Field that contains the arguments.
    list_field: &'a str,
    templates: &'a Templates,
    context: &'a TemplateContext,
    allow_dashes: bool,
}

impl CommandLine<'_> {
    /// Renders arguments that are omitted together: none if one of them is empty. An argument after an option
    /// is checked for a dash too, because only the program knows whether that option takes a value.
    fn render_group(&self, field: &str, group: &[String], mut options_ended: bool) -> Result<Vec<String>> {
        let mut args = Vec::with_capacity(group.len());
        for (at, template) in group.iter().enumerate() {
            args.push(self.render(&format!("{field}[{at}]"), template, options_ended)?);
            options_ended = self.ends_options(template, options_ended);
        }
        let complete = args.iter().all(|word| !word.is_empty());
        Ok(if complete { args } else { Vec::new() })
    }

    /// Returns true if no program takes later arguments for options: the template is `--`, or a value of the
    /// caller after `--`. A word from the config can be the name of another program, to which the `--` does
    /// not apply (`env -- tar`).
    fn ends_options(&self, template: &str, options_ended: bool) -> bool {
        template == "--" || (options_ended && self.caller_value_name(template).is_some())
    }

    /// Returns a name in a template that refers to a value of the caller, if there is one.
    fn caller_value_name(&self, template: &str) -> Option<String> {
        let names = self.templates.names(template).unwrap_or_default();
        names.into_iter().find(|name| self.context.is_caller_value(name))
    }

    /// Renders one argument. If its first dash comes from a caller, the program could take it for an option
    /// that the config does not offer. To find the origin of the dash, the template is rendered again without
    /// the dashes in the callers' texts. A negative JSON number is not a text and stays allowed, because the
    /// tool's schema decides on it.
    fn render(&self, field: &str, template: &str, options_ended: bool) -> Result<String> {
        let argument = self.templates.render_argument(field, template, self.context)?;
        if self.allow_dashes || options_ended || !argument.starts_with('-') || template.starts_with('-') {
            return Ok(argument);
        }
        let masked = self.templates.render_argument(field, template, &self.context.with_masked(&['-']));
        if masked.is_ok_and(|text| text.starts_with('-')) {
            return Ok(argument);
        }
        let origin = match self
            .caller_value_name(template)
            .as_deref()
            .map(root_name)
            .filter(|head| *head != Templates::NAMESPACE)
        {
            Some(name) => format!("the parameter `{name}`, in `{field}`,"),
            None => format!("`{field}`"),
        };
        Err(Error::rejected(format!(
            "{origin} begins with a dash, so the program could treat it as an option: in the config's `{}`, write \
             `--option={{{{ value }}}}` as one argument, or put `\"--\"` before it if the program supports that",
            self.list_field
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn render(given: &Value, args: &Value, dashes: bool) -> Result<Vec<String>, String> {
        let args: Vec<CommandArgument> = serde_json::from_value(args.clone()).unwrap();
        let passed_on = json!({"element": given["p"], "index": 0, "arguments": given});
        let context =
            TemplateContext::new(given.as_object().unwrap(), json!({"job": "/jobs/tb-a"}), passed_on);
        Templates::new().render_arguments("args", &args, &context, dashes).map_err(|e| e.to_string())
    }

    /// A template stays one argument, even if its value is empty or has spaces and quotes.
    #[test]
    fn template_is_exactly_one_argument() {
        let odd = "a b'\"\n$(id) `x` ; -rf *";
        let args = json!(["x", "{{ p }}", "-{{ p }}"]);
        assert_eq!(render(&json!({"p": odd}), &args, false).unwrap(), ["x", odd, &format!("-{odd}")]);
        assert_eq!(render(&json!({"p": ""}), &args, false).unwrap(), ["x", "", "-"]);
    }

    /// A group is dropped when a part of it is absent, null or empty.
    #[test]
    fn argument_group_is_dropped_when_empty() {
        let args = json!(["a", ["-d", "{{ d }}"], ["{{ '-v' if v }}"]]);
        assert_eq!(render(&json!({"d": -2, "v": true}), &args, false).unwrap(), ["a", "-d", "-2", "-v"]);
        for given in [json!({"v": false}), json!({"d": null, "v": false}), json!({"d": "", "v": false})] {
            assert_eq!(render(&given, &args, false).unwrap(), ["a"]);
        }
    }

    /// Each template is listed with the path of its field.
    #[test]
    fn argument_templates_know_their_field() {
        let args: Vec<CommandArgument> = serde_json::from_value(json!(["a", ["b", "c"]])).unwrap();
        let found: Vec<_> = CommandArgument::templates("args", &args).collect();
        let expected = [("args[0]", "a"), ("args[1][0]", "b"), ("args[1][1]", "c")];
        assert_eq!(found, expected.map(|(field, template)| (field.to_owned(), template)));
    }

    /// A value that begins with a dash is refused unless the config's own text precedes it.
    #[test]
    fn caller_value_never_becomes_option() {
        for value in ["-rf", "--output=/etc/passwd", "-", "--"] {
            let given = json!({"p": value, "o": {"p": value, value: "x"}, "l": [value], "empty": ""});
            for args in [
                json!(["{{ p }}"]),
                json!(["rm", "{{ p }}"]),
                json!(["rm", "-r", "{{ p }}"]),
                json!(["{{ p | trim }}"]),
                json!(["{{ o.p }}"]),
                json!(["{{ o['p'] }}"]),
                json!(["{% for name in o %}{% if name != 'p' %}{{ name }}{% endif %}{% endfor %}"]),
                json!(["{{ l | join(' ') }}"]),
                json!(["{{ taskbridge.element }}"]),
                json!(["{{ taskbridge.arguments.p }}"]),
                json!(["{% if p %}{{ p }}{% endif %}"]),
                json!(["{{ empty }}-{{ p }}"]),
                json!(["{{ p }}", "--"]),
                json!([["{{ p }}"]]),
                json!([["--into=x", "{{ p }}"]]),
                json!([["-v", "{{ p }}"]]),
                json!([["--file", "x", "{{ p }}"]]),
                json!(["--", "tar", "{{ p }}"]),
                json!(["env", "--", "tar", ["{{ p }}"]]),
                json!(["--", ["{{ taskbridge.job }}/run"], "{{ p }}"]),
                json!([["--", "tar", "{{ p }}"]]),
            ] {
                let error = render(&given, &args, false).unwrap_err();
                assert!(error.contains("begins with a dash") && !error.contains("passwd"), "{args}: {error}");
                assert!(render(&given, &args, true).is_ok(), "{args}");
            }
            for args in [
                json!(["--", "{{ p }}"]),
                json!(["--", "{{ p }}x", ["{{ o.p }}"]]),
                json!(["--", "{{ taskbridge.element }}", "{{ p }}"]),
                json!([["-r", "--", "{{ p }}"]]),
                json!(["env", "--", "tar", "--", "{{ p }}"]),
                json!(["--file={{ p }}"]),
                json!(["./{{ p }}"]),
                json!([["--file={{ p }}"]]),
            ] {
                let found = render(&given, &args, false).unwrap();
                assert!(found.iter().any(|word| word.ends_with(value)), "{args}: {found:?}");
            }
        }
        for (template, given) in [
            ("{{ '-v' if p }}", json!({"p": "-x"})),
            ("{{ '-v' if p else '-q' }}", json!({"p": ""})),
            ("{{ '--mode=' ~ p }}", json!({"p": "-x"})),
            ("{{ '-n' if o['dry-run'] }}", json!({"p": 0, "o": {"dry-run": true}})),
            ("{{ p }}", json!({"p": -3})),
            ("{{ taskbridge.element }}", json!({"p": -0.5})),
            ("{{ p }}", json!({"p": "\u{2010}x"})),
            ("{{ l | join(' ') }}", json!({"p": 0, "l": ["a", "-b"]})),
        ] {
            assert!(render(&given, &json!(["x", template]), false).is_ok(), "{template}");
        }
        let error = render(&json!({"p": "-x"}), &json!([["-v", "{{ p }}"]]), false).unwrap_err();
        assert!(error.starts_with("the parameter `p`, in `args[0][1]`, begins"), "{error}");
        assert!(error.contains("in the config's `args`"), "{error}");
    }
}
