//! [`Templates`]: renders the templates of a target with a tool's arguments. Its errors name the field and
//! the parameter, never a value, because an argument can be a secret. It must not know which field a template
//! came from, or what its text is for.

use std::collections::BTreeSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Output, State, UndefinedBehavior, Value};
use serde_json::{Map, Value as Json};

use crate::{Error, Problem, Result};

/// Parser and renderer of templates. An undefined variable is an error. It does not escape: an adapter that
/// writes the result for a shell must quote it.
#[derive(Debug)]
pub struct Templates(Environment<'static>);

/// Variables of a template: a tool's arguments by name, and the server's additions under
/// [`Templates::NAMESPACE`].
#[derive(Debug)]
pub struct TemplateContext {
    arguments: Map<String, Json>,
    server_values: Map<String, Json>,
    caller_values: Map<String, Json>,
    value: Value,
}

impl TemplateContext {
    /// Creates a context. `server_values`, such as the job's folder, and `caller_values` become the
    /// attributes of [`Templates::NAMESPACE`]. Each is an object, or null for none.
    pub fn new(arguments: &Map<String, Json>, server_values: Json, caller_values: Json) -> Self {
        let members = |value| match value {
            Json::Object(members) => members,
            _ => Map::new(),
        };
        Self::of(arguments.clone(), members(server_values), members(caller_values))
    }

    fn of(
        arguments: Map<String, Json>,
        server_values: Map<String, Json>,
        caller_values: Map<String, Json>,
    ) -> Self {
        let mut names = arguments.clone();
        if !(server_values.is_empty() && caller_values.is_empty()) {
            let namespace: Map<_, _> =
                server_values.clone().into_iter().chain(caller_values.clone()).collect();
            names.insert(Templates::NAMESPACE.to_owned(), namespace.into());
        }
        let value = Value::from(Serde(&names));
        Self { arguments, server_values, caller_values, value }
    }

    /// Returns a context in which these characters are replaced in all texts of callers, and in which no such
    /// text is empty. One of these characters that a template still renders then comes from the config, not
    /// from a caller.
    #[must_use]
    pub fn with_masked(&self, characters: &[char]) -> Self {
        let masked = |members: &Map<String, Json>| {
            members.iter().map(|(name, value)| (name.clone(), mask(value, characters))).collect()
        };
        Self::of(masked(&self.arguments), self.server_values.clone(), masked(&self.caller_values))
    }

    /// Returns false if the template consists only of a parameter that is absent or null.
    pub fn has_value(&self, template: &str) -> bool {
        sole_name(template).is_none_or(|name| self.has_parameter(name))
    }

    /// Returns true if a name in a template, such as `path` or `taskbridge.caller`, refers to a value of the
    /// caller.
    pub(super) fn is_caller_value(&self, name: &str) -> bool {
        match name.split_once('.') {
            Some((Templates::NAMESPACE, rest)) => self.caller_values.contains_key(root_name(rest)),
            _ => name != Templates::NAMESPACE,
        }
    }

    fn has_parameter(&self, name: &str) -> bool {
        name == Templates::NAMESPACE || self.arguments.get(name).is_some_and(|value| !value.is_null())
    }
}

impl Templates {
    /// Name under which templates find the values that the server adds to the arguments.
    pub const NAMESPACE: &str = "taskbridge";

    /// Creates a renderer. One is enough for all templates of a job.
    #[expect(clippy::new_without_default, reason = "there is nothing about it that could be a default")]
    pub fn new() -> Self {
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

    /// Returns the external names that a template uses, with their attributes: `path`, `taskbridge.job`.
    ///
    /// # Errors
    /// Returns a message if the template is not valid.
    pub fn names(&self, template: &str) -> Result<BTreeSet<String>, String> {
        let template = self.0.template_from_str(template).map_err(|e| error_message(&e))?;
        let mut names: BTreeSet<String> = template.undeclared_variables(true).into_iter().collect();
        for (global, _) in self.0.globals() {
            names.remove(global);
        }
        Ok(names)
    }

    /// Returns a problem if a tool with templates has a parameter with the name [`Templates::NAMESPACE`].
    pub fn reserved_name_problem(parameters: &[&str]) -> Option<Problem> {
        let message = format!(
            "a parameter cannot have the name `{}`: templates use it for values of the server",
            Self::NAMESPACE
        );
        parameters.contains(&Self::NAMESPACE).then(|| Problem { field: String::new(), message })
    }

    /// Returns all errors in a template of a tool with these parameters. `attributes` lists those of
    /// [`Templates::NAMESPACE`]; it is empty if there are none.
    pub fn check(&self, template: &str, parameters: &[&str], attributes: &[&str]) -> Vec<String> {
        let names = match self.names(template) {
            Ok(names) => names,
            Err(message) => return vec![message],
        };
        let unknown = |name: &String| {
            let (head, rest) = name.split_once('.').unwrap_or((name, ""));
            if head == Self::NAMESPACE && !attributes.is_empty() {
                let is_known = attributes.contains(&root_name(rest));
                return (!is_known).then(|| {
                    format!("`{name}` is unknown: `{head}` has `{}` here", attributes.join("`, `"))
                });
            }
            (!parameters.contains(&head)).then(|| unknown_parameter(head, parameters))
        };
        names.iter().filter_map(unknown).collect()
    }

    /// Renders a template as text.
    ///
    /// # Errors
    /// Returns `Rejected` if the template cannot be rendered with these arguments.
    pub fn render_text(&self, field: &str, template: &str, context: &TemplateContext) -> Result<String> {
        let rendered = self.0.render_str(template, &context.value);
        rendered.map_err(|error| self.render_error(field, template, context, &error))
    }

    /// Renders a template as text that the operating system accepts as an argument, a variable or a path.
    ///
    /// # Errors
    /// As for [`Templates::render_text`]. Also returns `Rejected` if the text contains a NUL character.
    pub fn render_argument(&self, field: &str, template: &str, context: &TemplateContext) -> Result<String> {
        let text = self.render_text(field, template, context)?;
        if !text.contains('\0') {
            return Ok(text);
        }
        let contains_nul = |name: &&str| {
            context.arguments.get(*name).and_then(Json::as_str).is_some_and(|text| text.contains('\0'))
        };
        let names = self.names(template).unwrap_or_default();
        let origin = match names.iter().map(|name| root_name(name)).find(contains_nul) {
            Some(name) => format!("the parameter `{name}`, in `{field}`,"),
            None => format!("`{field}`"),
        };
        Err(Error::rejected(format!("{origin} contains a NUL character, which no program accepts")))
    }

    /// Renders a template as text or, if it consists of a single expression, returns the value of that
    /// expression. Returns `None` if the value is undefined.
    ///
    /// # Errors
    /// As for [`Templates::render_text`]. Also returns `Rejected` if the value cannot be represented as JSON.
    pub fn render_value(
        &self,
        field: &str,
        template: &str,
        context: &TemplateContext,
    ) -> Result<Option<Json>> {
        let Some(expression) = sole_expression(template) else {
            return self.render_text(field, template, context).map(|text| Some(text.into()));
        };
        let evaluated = self.0.compile_expression(expression).and_then(|it| it.eval(&context.value));
        let value = evaluated.map_err(|error| self.render_error(field, template, context, &error))?;
        if value.is_undefined() {
            return Ok(None);
        }
        let json_error = |_| Error::rejected(format!("`{field}`: its value cannot be written as JSON"));
        serde_json::to_value(&value).map(Some).map_err(json_error)
    }

    /// Returns true if a template names a parameter that is absent or null.
    pub fn has_missing_parameter(&self, template: &str, context: &TemplateContext) -> bool {
        self.names(template)
            .is_ok_and(|names| names.iter().any(|name| !context.has_parameter(root_name(name))))
    }

    /// Returns an error for a template that could not be rendered, without details that can quote values.
    fn render_error(
        &self,
        field: &str,
        template: &str,
        context: &TemplateContext,
        error: &minijinja::Error,
    ) -> Error {
        let names = self.names(template).unwrap_or_default();
        Error::rejected(
            match names.iter().map(|name| root_name(name)).find(|name| !context.has_parameter(name)) {
                Some(name) => format!("`{field}` needs the parameter `{name}`, which is missing"),
                None => format!("`{field}` cannot be rendered: {}", safe_message(error)),
            },
        )
    }
}

/// Returns the error message for a parameter that a tool does not have.
pub fn unknown_parameter(name: &str, parameters: &[&str]) -> String {
    match parameters {
        [] => format!("`{name}` is unknown: the tool has no parameters"),
        _ => format!("`{name}` is unknown: the tool's parameters are `{}`", parameters.join("`, `")),
    }
}

/// Replaces each of these characters in all texts of a value, and replaces empty texts.
fn mask(value: &Json, characters: &[char]) -> Json {
    const REPLACEMENT: &str = "\u{fffd}";
    match value {
        Json::String(text) if text.is_empty() => REPLACEMENT.into(),
        Json::String(text) => text.replace(characters, REPLACEMENT).into(),
        Json::Array(items) => items.iter().map(|item| mask(item, characters)).collect(),
        Json::Object(members) => {
            // Keeps member names that a template can refer to by name.
            let is_name_char = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let is_name = |name: &str| name.chars().all(is_name_char) && !name.starts_with('-');
            let name = |name: &str| match is_name(name) {
                true => name.to_owned(),
                false => name.replace(characters, REPLACEMENT),
            };
            members.iter().map(|(key, value)| (name(key), mask(value, characters))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the part of a name before its attributes.
pub(super) fn root_name(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Returns the parameter if a template consists only of `{{ parameter }}`.
fn sole_name(template: &str) -> Option<&str> {
    let name = sole_expression(template)?;
    let is_name_char = |c: char| c.is_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name_char)).then_some(name)
}

/// Returns the expression if a template consists only of one `{{ expression }}`.
fn sole_expression(template: &str) -> Option<&str> {
    let inner = template.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    let inner = inner.strip_suffix('-').unwrap_or(inner);
    (!inner.contains("{{") && !inner.contains("}}") && !inner.contains("{%")).then(|| inner.trim())
}

/// Writes text unchanged, and everything else as JSON.
fn write_value(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    if let Some(text) = value.as_str() {
        return Ok(out.write_str(text)?);
    }
    // An `if` without `else` renders nothing. Every other undefined value was rejected earlier.
    if value.is_undefined() {
        return Ok(());
    }
    let json = serde_json::to_string(value).map_err(|e| {
        minijinja::Error::new(ErrorKind::BadSerialization, "a value cannot be written as JSON").with_source(e)
    })?;
    Ok(out.write_str(&json)?)
}

fn safe_message(error: &minijinja::Error) -> String {
    match error.kind() {
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            error_message(error)
        }
        kind => kind.to_string(),
    }
}

/// Returns the error message without the generated name of the template.
fn error_message(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context() -> TemplateContext {
        let arguments = json!({
            "s": "a'b\n<&> $(c)", "n": 3, "f": 1.5, "b": true, "z": null, "l": [1, "x"], "o": {"k": "<"},
        });
        let server_values = json!({"job": "/jobs/tb-a"});
        TemplateContext::new(
            arguments.as_object().unwrap(),
            server_values,
            json!({"caller": "ann", "arguments": {"a-b": [1]}}),
        )
    }

    fn text(template: &str) -> Result<String, String> {
        Templates::new().render_argument("f", template, &context()).map_err(|e| e.to_string())
    }

    fn value(template: &str) -> Result<Option<Json>, String> {
        Templates::new().render_value("f", template, &context()).map_err(|e| e.to_string())
    }

    /// A text is rendered as it is, and other values as JSON.
    #[test]
    fn template_renders_text_unquoted() {
        for (template, expected) in [
            ("{{ s }}", "a'b\n<&> $(c)"),
            ("n={{ n }} {{ f }} {{ b }} {{ z }}", "n=3 1.5 true null"),
            ("{{ l }} {{ o }}", r#"[1,"x"] {"k":"<"}"#),
            (
                "{{ taskbridge.job }} {{ taskbridge.caller }} {{ taskbridge.arguments }}",
                "/jobs/tb-a ann {\"a-b\":[1]}",
            ),
            ("{{ x | default('y') }}", "y"),
            ("{% if x is defined %}x{% endif %}", ""),
            ("{{ '-v' if not b }}", ""),
            ("{{ l | join(',') }}", "1,x"),
            ("kept newline\n", "kept newline\n"),
        ] {
            assert_eq!(text(template).as_deref(), Ok(expected), "{template}");
        }
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
            ("{{ s }}", json!("a'b\n<&> $(c)")),
            ("{{ n + 1 }}", json!(4)),
            ("{{ x | default(7) }}", json!(7)),
            ("{{ n }}{{ n }}", json!("33")),
            ("plain", json!("plain")),
        ] {
            assert_eq!(value(template), Ok(Some(expected)), "{template}");
        }
        assert_eq!(value("{{ x }}"), Ok(None));
    }

    /// The error names the field and the parameter, and does not contain the value.
    #[test]
    fn template_error_names_field_and_parameter() {
        for refused in [text("v{{ x }}"), value("v{{ x }}").map(|_| String::new())] {
            assert_eq!(refused.unwrap_err(), "`f` needs the parameter `x`, which is missing");
        }
        for (template, part) in [
            ("{{ o.missing }}", "`f` cannot be rendered: undefined value"),
            ("{{ s | nonsense }}", "nonsense"),
            ("{{ s | int }}", "`f` cannot be rendered"),
            ("{{ open", "syntax error"),
            ("{{ '\\u0000' }}", "`f` contains a NUL character"),
        ] {
            assert!(text(template).is_err_and(|e| e.contains(part) && !e.contains("a'b")), "{template}");
        }
        let context = TemplateContext::new(
            &Map::from_iter([("p".to_owned(), json!("sec\0ret"))]),
            json!({}),
            json!({}),
        );
        let nul = Templates::new().render_argument("f", "{{ p }}", &context).unwrap_err().to_string();
        assert_eq!(nul, "the parameter `p`, in `f`, contains a NUL character, which no program accepts");
        assert!(Templates::new().render_text("f", "{{ p }}", &context).is_ok());
    }

    /// A template whose parameter is missing or null can be dropped.
    #[test]
    fn missing_parameter_drops_its_template() {
        let (templates, context) = (Templates::new(), context());
        for (template, has_value, has_missing) in [
            ("{{ s }}", true, false),
            ("{{ x }}", false, true),
            ("{{ z }}", false, true),
            ("v{{ x }}", true, true),
            ("{{ taskbridge.job }}{{ n }}", true, false),
        ] {
            assert_eq!(
                (context.has_value(template), templates.has_missing_parameter(template, &context)),
                (has_value, has_missing),
                "{template}"
            );
        }
    }

    #[test]
    fn template_names_exclude_local_variables() {
        let names = |t| Templates::new().names(t).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(names("{% for a in items %}{{ a }}{% endfor %}"), ["items"]);
        assert_eq!(
            names("{{ taskbridge.artifacts }}/{{ name | default('x') }}"),
            ["name", "taskbridge.artifacts"]
        );
        assert_eq!(names("{{ range(3) }}{{ taskbridge.arguments['a-b'] }}"), ["taskbridge.arguments"]);
    }

    /// The message about an unknown name lists the names that exist.
    #[test]
    fn invalid_template_suggests_known_names() {
        for (template, parameters, attributes, expected) in [
            ("{{ path.x }}{{ taskbridge.job }}", &["path"][..], &["job"][..], &[][..]),
            (
                "{{ pat }}",
                &["path", "depth"],
                &[],
                &["`pat` is unknown: the tool's parameters are `path`, `depth`"],
            ),
            ("{{ pat }}", &[], &[], &["`pat` is unknown: the tool has no parameters"]),
            (
                "{{ taskbridge.jop }}",
                &[],
                &["job", "x"],
                &["`taskbridge.jop` is unknown: `taskbridge` has `job`, `x` here"],
            ),
            ("{{ taskbridge }}", &["taskbridge"], &[], &[]),
        ] {
            assert_eq!(Templates::new().check(template, parameters, attributes), expected, "{template}");
        }
        assert!(Templates::new().check("{{ open", &[], &[])[0].contains("syntax error"));
    }
}
