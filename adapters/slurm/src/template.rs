//! Templates of a target, rendered with a tool's arguments. It says by field and parameter why that fails, never by value, because
//! an argument can be a secret.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error as JinjaError, Output, State, UndefinedBehavior, Value};
use serde_json::{Map, Value as Json};
use taskbridge_sdk::{Error, Result};

/// The name under which templates find what the server tells a job.
pub(crate) const OURS: &str = "taskbridge";

/// The one way in which templates are read here: strict, and without escaping.
pub(crate) struct Templates(Environment<'static>);

/// What templates see.
#[derive(Debug)]
pub(crate) struct Context {
    names: Map<String, Json>,
    value: Value,
}

impl Context {
    pub(crate) fn new(arguments: &Map<String, Json>, ours: Json) -> Self {
        let mut names = arguments.clone();
        names.insert(OURS.to_owned(), ours);
        Self::of(names)
    }

    fn of(names: Map<String, Json>) -> Self {
        let value = Value::from(Serde(&names));
        Self { names, value }
    }

    /// The same, but that callers' texts hold none of these characters and none of them is empty. What a template gives with this as
    /// well is the config's doing, and not a caller's.
    pub(crate) fn without(&self, characters: &[char]) -> Self {
        let masked = self.names.iter().map(|(name, value)| {
            let value = match value {
                Json::Object(ours) if name == OURS => ours
                    .iter()
                    .map(|(name, value)| match name.as_str() {
                        "job" => (name.clone(), value.clone()),
                        _ => (name.clone(), mask(value, characters)),
                    })
                    .collect(),
                value => mask(value, characters),
            };
            (name.clone(), value)
        });
        Self::of(masked.collect())
    }

    fn has(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|value| !value.is_null())
    }
}

impl Templates {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_formatter(write_value);
        let syntax = SyntaxConfig::builder()
            .keep_trailing_newline(true)
            .build()
            .expect("the default delimiters are valid");
        environment.set_syntax(syntax);
        Self(environment)
    }

    /// The names that a template takes from outside itself, with their attributes: `path`, `taskbridge.job`.
    pub(crate) fn names(&self, template: &str) -> std::result::Result<BTreeSet<String>, String> {
        let template = self.0.template_from_str(template).map_err(|e| in_words(&e))?;
        let mut names: BTreeSet<String> = template.undeclared_variables(true).into_iter().collect();
        for (global, _) in self.0.globals() {
            names.remove(global);
        }
        Ok(names)
    }

    /// What a template stands for, as text.
    pub(crate) fn render(&self, field: &str, template: &str, context: &Context) -> Result<String> {
        let rendered = self.0.render_str(template, &context.value).map_err(|error| {
            let names = self.names(template).unwrap_or_default();
            let missing = names.iter().map(|name| head(name)).find(|name| !context.has(name));
            Error::rejected(match missing {
                Some(name) => format!("`{field}` needs the parameter `{name}`, which was not given"),
                None => format!("`{field}` cannot be rendered: {}", error.kind()),
            })
        })?;
        match rendered.contains('\0') {
            true => Err(Error::rejected(format!(
                "`{field}` holds a NUL character, which no program can be given"
            ))),
            false => Ok(rendered),
        }
    }

    /// The same; `None` if it is nothing but a parameter that was not given.
    pub(crate) fn render_given(
        &self,
        field: &str,
        template: &str,
        context: &Context,
    ) -> Result<Option<String>> {
        match sole_name(template) {
            Some(name) if !context.has(name) => Ok(None),
            _ => self.render(field, template, context).map(Some),
        }
    }

    /// True if it names a parameter that was not given.
    pub(crate) fn lacks(&self, template: &str, context: &Context) -> bool {
        self.names(template).is_ok_and(|names| names.iter().any(|name| !context.has(head(name))))
    }
}

/// A value whose texts have another character in place of each of these.
fn mask(value: &Json, characters: &[char]) -> Json {
    const OTHER: &str = "\u{fffd}";
    match value {
        Json::String(text) if text.is_empty() => OTHER.into(),
        Json::String(text) => text.replace(characters, OTHER).into(),
        Json::Array(items) => items.iter().map(|item| mask(item, characters)).collect(),
        Json::Object(members) => {
            // What a template can ask for by its name keeps it.
            let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let is_name = |name: &str| name.chars().all(plain) && !name.starts_with('-');
            let name = |name: &str| match is_name(name) {
                true => name.to_owned(),
                false => name.replace(characters, OTHER),
            };
            members.iter().map(|(key, value)| (name(key), mask(value, characters))).collect()
        }
        other => other.clone(),
    }
}

/// The parameter that a name with attributes belongs to.
pub(crate) fn head(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The parameter, where a template is nothing but `{{ parameter }}`.
pub(crate) fn sole_name(template: &str) -> Option<&str> {
    let name = template.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// Text as it is, everything else as JSON.
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
        JinjaError::new(minijinja::ErrorKind::BadSerialization, "a value cannot be written as JSON")
            .with_source(e)
    })?;
    Ok(out.write_str(&json)?)
}

fn in_words(error: &JinjaError) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_becomes_text() {
        let Json::Object(arguments) = json!({"s": "a'b $(c)\n", "n": 3, "l": [1, "x"], "z": null}) else {
            panic!()
        };
        let context = Context::new(&arguments, json!({"job": "/j"}));
        let templates = Templates::new();
        let given =
            |template: &str| templates.render_given("f", template, &context).map_err(|e| e.to_string());
        for (template, wanted) in [
            ("{{ s }}", Some("a'b $(c)\n")),
            ("{{ n }}:{{ l }} {{ taskbridge.job }}", Some("3:[1,\"x\"] /j")),
            ("{{ x }}", None),
            ("{{ z }}", None),
            ("{{ x | default('y') }}", Some("y")),
        ] {
            assert_eq!(given(template), Ok(wanted.map(str::to_owned)), "{template}");
        }
        assert_eq!(given("v{{ x }}").unwrap_err(), "`f` needs the parameter `x`, which was not given");
        assert!(given("{{ '\\u0000' }}").is_err_and(|e| e.contains("NUL")));
        assert!(
            templates.lacks("{{ x }}", &context) && !templates.lacks("{{ taskbridge.job }}{{ n }}", &context)
        );
    }
}
