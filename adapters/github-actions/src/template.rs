//! Templates of a target, rendered with a tool's arguments. It says by field and parameter why that fails, never by value,
//! because an argument can be a secret.

use minijinja::value::Serde;
use minijinja::{Environment, Error as JinjaError, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde_json::Value as Json;
use taskbridge_sdk::{Error, JobSpec, Result};

/// What a template stands for, as text; `None` if it is nothing but a parameter that was not given.
pub(crate) fn render(job: &JobSpec, field: &str, template: &str) -> Result<Option<String>> {
    let sole = sole_name(template);
    if sole.is_some_and(|name| job.arguments.get(name).is_none_or(Json::is_null)) {
        return Ok(None);
    }
    let rendered = environment().render_str(template, Value::from(Serde(&job.arguments)));
    rendered.map(Some).map_err(|error| {
        let unknown = names(template).unwrap_or_default();
        let missing = unknown.into_iter().find(|name| job.arguments.get(name.as_str()).is_none());
        Error::rejected(match missing {
            Some(name) => format!("`{field}` needs the parameter `{name}`, which was not given"),
            None => format!("`{field}` cannot be rendered: {}", error.kind()),
        })
    })
}

/// The parameters that a template names, or what is wrong with it.
pub(crate) fn names(template: &str) -> std::result::Result<Vec<String>, String> {
    let environment = environment();
    let parsed = environment.template_from_str(template).map_err(|e| in_words(&e))?;
    let mut names: Vec<String> = parsed.undeclared_variables(false).into_iter().collect();
    names.sort();
    Ok(names)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(write_value);
    environment
}

/// Text as it is, everything else as JSON, which is how GitHub's inputs want it.
fn write_value(
    out: &mut Output<'_>,
    _: &mut State<'_, '_>,
    value: &Value,
) -> std::result::Result<(), JinjaError> {
    if let Some(text) = value.as_str() {
        return Ok(out.write_str(text)?);
    }
    // An `if` without `else` renders nothing; every other undefined value was refused before this.
    if value.is_undefined() {
        return Ok(());
    }
    let json = serde_json::to_string(value).map_err(|e| {
        JinjaError::new(ErrorKind::BadSerialization, "a value cannot be written as JSON").with_source(e)
    })?;
    Ok(out.write_str(&json)?)
}

/// The parameter, where a template is nothing but `{{ parameter }}`.
fn sole_name(template: &str) -> Option<&str> {
    let name = template.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

fn in_words(error: &JinjaError) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use taskbridge_sdk::suite::job;

    fn rendered(template: &str) -> std::result::Result<Option<String>, String> {
        let job = job(json!({}), json!({"n": 3, "s": "a'<b>", "b": true, "z": null}));
        render(&job, "inputs.x", template).map_err(|e| e.to_string())
    }

    #[test]
    fn a_template_becomes_text_and_what_was_not_given_is_left_out() {
        for (template, expected) in [
            ("{{ s }}", Some("a'<b>")),
            ("v{{ n }}-{{ b }}", Some("v3-true")),
            ("plain", Some("plain")),
            ("{{ x }}", None),
            ("{{ z }}", None),
            ("{{ x | default('y') }}", Some("y")),
        ] {
            assert_eq!(rendered(template), Ok(expected.map(str::to_owned)), "{template}");
        }
        let missing = rendered("v{{ x }}").unwrap_err();
        assert_eq!(missing, "`inputs.x` needs the parameter `x`, which was not given");
        assert!(rendered("{{ s | nonsense }}").is_err_and(|e| !e.contains("a'<b>")));
    }
}
