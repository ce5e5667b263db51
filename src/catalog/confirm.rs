//! [`Confirm`]: what is asked before a job starts. It must not show what is sensitive: the config refuses a message
//! that names such a parameter.

use std::collections::BTreeSet;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value, json};
use taskbridge_sdk::Question;

use super::ConfirmDefault;

/// The consent that a tool wants before its jobs start.
#[derive(Debug)]
pub struct Confirm {
    message: String,
    names: BTreeSet<String>,
    /// What happens where nobody can be asked.
    pub default: ConfirmDefault,
}

impl Confirm {
    /// Consent asked in these words: a template that may name parameters, as in `Delete {{ path }}?`.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub fn new(message: String, default: ConfirmDefault) -> Result<Self, String> {
        if message.trim().is_empty() {
            return Err("it is empty: say what is asked, such as \"Really delete {{ path }}?\"".to_owned());
        }
        let names = {
            let environment = environment();
            let template = environment.template_from_str(&message).map_err(|error| in_words(&error))?;
            template.undeclared_variables(false).into_iter().collect()
        };
        Ok(Self { message, names, default })
    }

    /// The parameters that the message names.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The question for these arguments. Its form has no fields: to accept it is to consent, so that a client shows
    /// a message and two buttons.
    pub(super) fn question(&self, arguments: &Map<String, Value>) -> Question {
        let named: Map<String, Value> = self
            .names
            .iter()
            .filter_map(|name| arguments.get(name).map(|value| (name.clone(), value.clone())))
            .collect();
        // A template that fails on these very arguments must not start a job unasked: it is shown as it stands.
        let message =
            environment().render_str(&self.message, Serde(&named)).unwrap_or_else(|_| self.message.clone());
        Question::form("confirm", message, json!({"type": "object", "properties": {}}))
    }
}

pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // A parameter that was not given is shown as nothing.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment
}

fn in_words(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_what_is_consented_to() {
        let confirm =
            Confirm::new("Delete {{ path }}{{ extra }}?".to_owned(), ConfirmDefault::Refuse).unwrap();
        assert_eq!(confirm.names().iter().map(String::as_str).collect::<Vec<_>>(), ["extra", "path"]);
        let arguments = Map::from_iter([("path".to_owned(), json!("/tmp/<a>"))]);
        let question = confirm.question(&arguments);
        assert_eq!(question.message, "Delete /tmp/<a>?");
        assert_eq!(question.ask.form(), Some(&json!({"type": "object", "properties": {}})));
    }

    #[test]
    fn a_message_that_is_empty_or_broken_is_refused() {
        assert!(Confirm::new(" ".to_owned(), ConfirmDefault::Refuse).unwrap_err().contains("it is empty"));
        assert!(
            Confirm::new("{{ a".to_owned(), ConfirmDefault::Refuse).unwrap_err().contains("syntax error")
        );
    }
}
