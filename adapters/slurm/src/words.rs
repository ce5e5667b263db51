//! The arguments of a script: what a template gives is exactly one of them, whatever it holds, and no caller makes an option of it.
//! It must not know where they are written.

use taskbridge_sdk::{Error, Result};

use crate::config::Argument;
use crate::quote::line_word;
use crate::template::{Context, OURS, Templates, head};

/// The script's arguments.
pub(crate) fn words(args: &[Argument], templates: &Templates, context: &Context) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut options_over = false;
    for (at, argument) in args.iter().enumerate() {
        match argument {
            Argument::One(template) => {
                let field = format!("args[{at}]");
                let word = templates.render(&field, template, context)?;
                if !options_over {
                    no_option(&field, template, &word, templates, context)?;
                }
                options_over = ends_options(templates, template, options_over);
                words.push(word);
            }
            Argument::Optional(group) => {
                if !group.iter().any(|template| templates.lacks(template, context)) {
                    words.extend(together(at, group, options_over, templates, context)?);
                }
                // Whether it is left out or not: what stands in it may be a program of its own.
                let over = |over, template: &String| ends_options(templates, template, over);
                options_over &= group.iter().fold(options_over, over);
            }
        }
    }
    Ok(words)
}

/// Arguments that are left out together. What follows an option in its group may be that option's value, or the option may take none:
/// nobody but the script knows.
fn together(
    at: usize,
    group: &[String],
    mut options_over: bool,
    templates: &Templates,
    context: &Context,
) -> Result<Vec<String>> {
    let mut words = Vec::with_capacity(group.len());
    for (inner, template) in group.iter().enumerate() {
        let field = format!("args[{at}][{inner}]");
        let word = templates.render(&field, template, context)?;
        if !options_over {
            no_option(&field, template, &word, templates, context)?;
        }
        options_over = ends_options(templates, template, options_over);
        words.push(word);
    }
    let complete = words.iter().all(|word| !word.is_empty());
    Ok(if complete { words } else { Vec::new() })
}

/// True if no program takes what comes behind this argument for an option: it is `--`, or a value of the caller's that stands behind
/// one. A word of the config's can be the name of a program that `--` was not meant for.
fn ends_options(templates: &Templates, template: &str, over: bool) -> bool {
    template == "--" || (over && whose(templates, template).is_some())
}

/// The first name in a template that stands for something of the caller's.
fn whose(templates: &Templates, template: &str) -> Option<String> {
    let names = templates.names(template).unwrap_or_default();
    names.into_iter().find(|name| head(name) != OURS || !name.starts_with("taskbridge.job"))
}

/// A word whose first dash is a caller's could be taken for an option that nobody offered. Whose it is shows when the callers' texts
/// are rendered without their dashes. A number is what the tool's schema lets through.
fn no_option(
    field: &str,
    template: &str,
    word: &str,
    templates: &Templates,
    context: &Context,
) -> Result<()> {
    if !word.starts_with('-') || template.starts_with('-') {
        return Ok(());
    }
    let without = templates.render(field, template, &context.without(&['-']));
    if without.is_ok_and(|ours| ours.starts_with('-')) {
        return Ok(());
    }
    let whose = match whose(templates, template).as_deref().map(head).filter(|head| *head != OURS) {
        Some(name) => format!("the parameter `{name}`, in `{field}`,"),
        None => format!("`{field}`"),
    };
    Err(Error::rejected(format!(
        "{whose} begins with a dash, so that the script could take it for an option: in the config's `args`, \
         `--option={{{{ value }}}}` in one argument or `\"--\"` right before it lets it through, where the script knows that"
    )))
}

/// The line by which bash has them as its own arguments.
pub(crate) fn set(words: &[String]) -> String {
    let mut line = "set --".to_owned();
    for word in words {
        line.push(' ');
        line.push_str(&line_word(word));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn arguments(given: &Value, args: &Value) -> Result<Vec<String>, String> {
        let args: Vec<Argument> = serde_json::from_value(args.clone()).unwrap();
        let ours = json!({"job": "/jobs/tb-a", "element": given["p"], "index": 0});
        let context = Context::new(given.as_object().unwrap(), ours);
        words(&args, &Templates::new(), &context).map_err(|e| e.to_string())
    }

    #[test]
    fn no_argument_of_a_caller_becomes_an_option_of_the_script() {
        for value in ["-rf", "--output=/etc/passwd", "-", "--"] {
            let given = json!({"p": value, "o": {"p": value, value: "x"}, "l": [value], "empty": ""});
            for args in [
                json!(["{{ p }}"]),
                json!(["{{ p | trim }}"]),
                json!(["{{ o.p }}"]),
                json!(["{{ o['p'] }}"]),
                json!(["{% for name in o %}{% if name != 'p' %}{{ name }}{% endif %}{% endfor %}"]),
                json!(["{{ l | join(' ') }}"]),
                json!(["{{ taskbridge.element }}"]),
                json!(["{% if p %}{{ p }}{% endif %}"]),
                json!(["{{ empty }}-{{ p }}"]),
                json!(["{{ p }}", "--"]),
                json!([["{{ p }}"]]),
                json!([["--into=x", "{{ p }}"]]),
                json!([["-v", "{{ p }}"]]),
                json!([["--file", "x", "{{ p }}"]]),
                json!(["--", "tar", "{{ p }}"]),
                json!(["--", ["{{ taskbridge.job }}/run"], "{{ p }}"]),
                json!([["--", "tar", "{{ p }}"]]),
            ] {
                let error = arguments(&given, &args).unwrap_err();
                assert!(error.contains("begins with a dash") && !error.contains("passwd"), "{args}: {error}");
            }
            for args in [
                json!(["--", "{{ p }}"]),
                json!(["--", "{{ p }}x", ["{{ o.p }}"]]),
                json!(["--", "{{ taskbridge.element }}", "{{ p }}"]),
                json!([["-r", "--", "{{ p }}"]]),
                json!(["tar", "--", "{{ p }}"]),
                json!(["--file={{ p }}"]),
                json!(["./{{ p }}"]),
                json!([["--file={{ p }}"]]),
            ] {
                let found = arguments(&given, &args).unwrap();
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
        ] {
            assert!(arguments(&given, &json!(["x", template])).is_ok(), "{template}");
        }
        let error = arguments(&json!({"p": "-x"}), &json!([["-v", "{{ p }}"]])).unwrap_err();
        assert!(error.starts_with("the parameter `p`, in `args[0][1]`, begins"), "{error}");
    }

    #[test]
    fn a_group_is_left_out_when_a_part_is_absent_or_empty() {
        let args = json!(["a", ["-d", "{{ d }}"], ["{{ '-v' if v }}"]]);
        assert_eq!(arguments(&json!({"d": -2, "v": true}), &args).unwrap(), ["a", "-d", "-2", "-v"]);
        for given in [json!({"v": false}), json!({"d": null, "v": false}), json!({"d": "", "v": false})] {
            assert_eq!(arguments(&given, &args).unwrap(), ["a"]);
        }
    }
}
