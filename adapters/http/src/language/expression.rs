//! [`Expression`]: reads a value out of a reply. A missing member of a reply is undefined, not an error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value as Json;

use super::filters;
use super::scope::Scope;
use super::text::plain_text;

/// Most instructions that one evaluation may take.
const FUEL: u64 = 10_000;

/// Longest source of an expression, in bytes. MiniJinja compiles a chain of operators by recursion: 16 KiB of
/// `n+n+n` overflow the stack of a thread.
const MAX_SOURCE: usize = 2 * 1024;

/// Environment of replies: a member that a reply lacks is undefined, however deep.
static LENIENT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(UndefinedBehavior::Chainable));

/// Environment of requests: an undefined value that is used is an error.
static STRICT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(UndefinedBehavior::SemiStrict));

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    filters::add(&mut environment);
    environment
}

/// A compiled expression, such as `body.state`.
#[derive(Clone)]
pub(crate) struct Expression {
    source: Arc<str>,
    compiled: Arc<minijinja::Expression<'static, 'static>>,
}

impl Expression {
    /// Compiles an expression that reads a reply.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        Self::compile(&LENIENT, source)
    }

    /// Compiles an expression of a template.
    pub(super) fn parse_strict(source: &str) -> Result<Self, String> {
        Self::compile(&STRICT, source)
    }

    fn compile(environment: &'static Environment<'static>, source: &str) -> Result<Self, String> {
        if source.len() > MAX_SOURCE {
            return Err(format!("it has {} bytes, the limit is {MAX_SOURCE}", source.len()));
        }
        if source.contains("{{") {
            return Err("an expression has no braces: write `body.x`, not `{{ body.x }}`".to_owned());
        }
        let compiled = environment.compile_expression_owned(source.to_owned()).map_err(|e| message(&e))?;
        let compiled = Self { source: source.into(), compiled: Arc::new(compiled) };
        if let Some(name) = filters::unknown(environment, source) {
            return Err(format!("the filter `{name}` is unknown"));
        }
        Ok(compiled)
    }

    /// Evaluates the expression. Undefined is `None`.
    ///
    /// # Errors
    /// Why it has no value. The message contains no value of the scope.
    pub(crate) fn eval(&self, scope: &Scope) -> Result<Option<Json>, String> {
        let value = self.raw(scope)?;
        if value.is_undefined() {
            return Ok(None);
        }
        serde_json::to_value(Serde(&value).0)
            .map(Some)
            .map_err(|_| format!("`{}`: its value cannot be written as JSON", self.source))
    }

    /// Returns the value if it is neither undefined nor null.
    pub(crate) fn some(&self, scope: &Scope) -> Result<Option<Json>, String> {
        Ok(self.eval(scope)?.filter(|value| !value.is_null()))
    }

    /// Returns the value as text. Undefined, null and an empty text are `None`.
    pub(crate) fn text(&self, scope: &Scope) -> Result<Option<String>, String> {
        Ok(self.some(scope)?.map(|value| plain_text(&value)).filter(|text| !text.is_empty()))
    }

    /// Returns whether the value is true, as `if` sees it.
    pub(crate) fn is_true(&self, scope: &Scope) -> Result<bool, String> {
        self.raw(scope).map(|value| value.is_true())
    }

    pub(super) fn raw(&self, scope: &Scope) -> Result<Value, String> {
        self.compiled.eval(scope.value()).map_err(|e| format!("`{}`: {}", self.source, message(&e)))
    }

    /// Returns the text of the expression.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the names that the expression uses, with their attributes, such as `more.tasks.body`.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.compiled.undeclared_variables(true).into_iter().collect()
    }
}

/// Returns the message of an error without values that it may quote.
fn message(error: &minijinja::Error) -> String {
    use minijinja::ErrorKind;
    let quotes_source = matches!(
        error.kind(),
        ErrorKind::SyntaxError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownMethod
    );
    match error.detail().filter(|_| quotes_source) {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        Self::parse(&source)
            .map_err(|e| de::Error::custom(format!("the expression `{source}` is not valid: {e}")))
    }
}

impl JsonSchema for Expression {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Expression".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
