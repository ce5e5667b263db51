//! Templates: what they may mean and how they render. It must not know which field a template came from.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};

/// The name under which templates find what the server tells a job.
pub(crate) const OURS: &str = "taskbridge";

/// The one way in which templates are read here: strict, and without escaping, since no shell ever reads the result.
pub(crate) struct Templates(Environment<'static>);

impl Templates {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(write_value);
        let syntax = SyntaxConfig::builder()
            .keep_trailing_newline(true)
            .build()
            .expect("the default delimiters are valid");
        environment.set_syntax(syntax);
        Self(environment)
    }

    /// The names that a template takes from outside itself, with their attributes: `path`, `taskbridge.job`.
    pub(crate) fn names(&self, template: &str) -> Result<BTreeSet<String>, String> {
        let template = self.0.template_from_str(template).map_err(|e| in_words(&e))?;
        let mut names: BTreeSet<String> = template.undeclared_variables(true).into_iter().collect();
        for (global, _) in self.0.globals() {
            names.remove(global);
        }
        Ok(names)
    }

    pub(crate) fn render(&self, template: &str, context: &Value) -> Result<String, String> {
        self.0.render_str(template, context).map_err(|e| match e.kind() {
            ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => in_words(&e),
            // Other details can quote values, and an argument can be a secret.
            kind => kind.to_string(),
        })
    }
}

/// Text as it is, everything else as JSON.
fn write_value(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        return Ok(out.write_str(text)?);
    }
    // An `if` without `else` renders nothing; every other undefined value was refused before this.
    if value.is_undefined() {
        return Ok(());
    }
    let json = serde_json::to_string(value).map_err(|e| {
        Error::new(ErrorKind::BadSerialization, "a value cannot be written as JSON").with_source(e)
    })?;
    Ok(out.write_str(&json)?)
}

/// What went wrong, without the template's made-up name.
fn in_words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;
    use serde_json::json;

    fn render(template: &str) -> Result<String, String> {
        let context = json!({"s": "a'b $(c)\n<&>", "n": 3, "f": 1.5, "b": true, "z": null, "l": [1, "x"], "o": {"k": "<"}});
        Templates::new().render(template, &Value::from(Serde(&context)))
    }

    #[test]
    fn text_is_rendered_as_it_is_and_the_rest_as_json() {
        for (template, expected) in [
            ("{{ s }}", "a'b $(c)\n<&>"),
            ("n={{ n }} {{ f }} {{ b }} {{ z }}", "n=3 1.5 true null"),
            ("{{ l }} {{ o }}", r#"[1,"x"] {"k":"<"}"#),
            ("{{ '-v' if b }}", "-v"),
            ("{{ '-v' if not b }}", ""),
            ("{{ x | default('none') }}", "none"),
            ("{% if x is defined %}x{% endif %}", ""),
            ("kept newline\n", "kept newline\n"),
            ("{{ l | join(',') }}", "1,x"),
        ] {
            assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_is_missing_is_an_error() {
        assert!(render("{{ x }}").is_err_and(|e| e.contains("undefined")));
        assert!(render("{{ o.missing }}").is_err());
        assert!(render("{{ s | nonsense }}").is_err_and(|e| e.contains("nonsense")));
    }

    #[test]
    fn names_are_those_from_outside() {
        let names = |t| Templates::new().names(t).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(names("{% for a in items %}{{ a }}{% endfor %}"), ["items"]);
        assert_eq!(
            names("{{ taskbridge.artifacts }}/{{ name | default('x') }}"),
            ["name", "taskbridge.artifacts"]
        );
        assert_eq!(names("{{ range(3) }}{{ taskbridge.arguments['a-b'] }}"), ["taskbridge.arguments"]);
        assert!(Templates::new().names("{{ open").is_err_and(|e| e.contains("syntax error")));
    }
}
