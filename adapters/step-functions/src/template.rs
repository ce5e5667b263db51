//! Templates: what they may mean and how they render. It must not know which field a template came from.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};

/// The name under which templates find what the server tells a job.
pub(crate) const OURS: &str = "taskbridge";

/// The one way in which templates are read here: strict, and without escaping.
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

    /// What a template stands for: text, or where it is nothing but one expression, the value of that. `None` if that
    /// value is not there.
    pub(crate) fn value(&self, template: &str, context: &Value) -> Result<Option<serde_json::Value>, String> {
        let Some(expression) = sole_expression(template) else {
            return self
                .0
                .render_str(template, context)
                .map(|text| Some(text.into()))
                .map_err(|e| safely(&e));
        };
        let expression = self.0.compile_expression(expression).map_err(|e| safely(&e))?;
        let value = expression.eval(context).map_err(|e| safely(&e))?;
        if value.is_undefined() {
            return Ok(None);
        }
        serde_json::to_value(&value).map(Some).map_err(|_| "its value cannot be written as JSON".to_owned())
    }
}

/// What stands between `{{` and `}}`, where nothing else does.
fn sole_expression(template: &str) -> Option<&str> {
    let inner = template.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    let inner = inner.strip_suffix('-').unwrap_or(inner);
    (!inner.contains("{{") && !inner.contains("}}") && !inner.contains("{%")).then(|| inner.trim())
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

/// Why a template could not be rendered, without the details that can quote values: an argument can be a secret.
fn safely(error: &Error) -> String {
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => in_words(error),
        kind => kind.to_string(),
    }
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
    use serde_json::{Value as Json, json};

    fn value(template: &str) -> Result<Option<Json>, String> {
        let context =
            json!({"s": "a'b\n<&>", "n": 3, "f": 1.5, "b": true, "z": null, "l": [1, "x"], "o": {"k": "<"}});
        Templates::new().value(template, &Value::from(Serde(&context)))
    }

    #[test]
    fn a_sole_expression_keeps_its_type() {
        for (template, expected) in [
            ("{{ n }}", json!(3)),
            (" {{- f -}} ", json!(1.5)),
            ("{{b}}", json!(true)),
            ("{{ z }}", json!(null)),
            ("{{ l }}", json!([1, "x"])),
            ("{{ o }}", json!({"k": "<"})),
            ("{{ s }}", json!("a'b\n<&>")),
            ("{{ n + 1 }}", json!(4)),
            ("{{ x | default(7) }}", json!(7)),
        ] {
            assert_eq!(value(template), Ok(Some(expected)), "{template}");
        }
        assert_eq!(value("{{ x }}"), Ok(None));
    }

    #[test]
    fn everything_else_is_text() {
        for (template, expected) in [
            ("n={{ n }} {{ f }} {{ b }} {{ z }}", "n=3 1.5 true null"),
            ("{{ n }}{{ n }}", "33"),
            ("{{ l }} {{ o }}", r#"[1,"x"] {"k":"<"}"#),
            ("{% if x is defined %}x{% endif %}", ""),
            ("plain", "plain"),
        ] {
            assert_eq!(value(template), Ok(Some(json!(expected))), "{template}");
        }
    }

    #[test]
    fn what_is_missing_in_text_is_an_error_that_quotes_no_value() {
        assert!(value("x={{ x }}").is_err_and(|e| e.contains("undefined")));
        assert!(value("{{ s | nonsense }}").is_err_and(|e| e.contains("nonsense")));
        assert!(value("{{ s | int }}").is_err_and(|e| !e.contains("a'b")));
        assert!(value("{{ open").is_err());
    }
}
