//! [`Expression`]: reads a token reply. It is checked when the backend connects, and compiled at each use:
//! once for each token.

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use taskbridge_sdk::one_line;

use crate::config::auth::Invalid;

/// Bound on the work of one expression, in instructions.
const FUEL: u64 = 10_000;

/// An expression over `body`, the reply in JSON.
pub(super) struct Expression(String);

impl Expression {
    /// Checks an expression.
    ///
    /// # Errors
    /// The text is not an expression.
    pub(super) fn new(field: &str, source: &str) -> Result<Self, Invalid> {
        match environment().compile_expression(source) {
            Ok(_) => Ok(Self(source.to_owned())),
            Err(error) => {
                let why = one_line(&error.to_string());
                Err(Invalid::new(field, format!("{source:?} is not an expression: {why}")))
            }
        }
    }

    /// Returns its value as text. `None` if it is undefined, empty, or no text or number.
    pub(super) fn text(&self, body: &serde_json::Value) -> Option<String> {
        let environment = environment();
        let value = environment
            .compile_expression(&self.0)
            .ok()?
            .eval(context! { body => Value::from(Serde(body)) })
            .ok()?;
        match value.as_str() {
            Some(text) => Some(text.to_owned()).filter(|text| !text.is_empty()),
            None => value.is_number().then(|| value.to_string()),
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(FUEL));
    environment
}
