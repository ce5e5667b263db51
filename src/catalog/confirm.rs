//! [`Confirm`]: the consent question before a job starts. It must not show sensitive values: the config
//! rejects a message that names a sensitive parameter.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use taskbridge_sdk::Question;

use super::{ConfirmDefault, Template};

/// The consent that a tool requires before its jobs start.
#[derive(Debug)]
pub struct Confirm {
    message: Template,
    /// The behaviour if the client cannot be asked.
    pub default: ConfirmDefault,
}

impl Confirm {
    /// Creates a consent question from a template that may name parameters, as in `Delete {{ path }}?`.
    ///
    /// # Errors
    /// If the template is empty or invalid.
    pub fn new(message: String, default: ConfirmDefault) -> Result<Self, String> {
        if message.trim().is_empty() {
            return Err("no text: write a question, such as \"Really delete {{ path }}?\"".to_owned());
        }
        Ok(Self { message: Template::new(message)?, default })
    }

    /// Returns the parameters that the message names.
    pub fn names(&self) -> &BTreeSet<String> {
        self.message.names()
    }

    /// Builds the question for these arguments. Its form has no fields, so that a client shows a message
    /// and two buttons: to accept it is to consent.
    pub(super) fn question(&self, arguments: &Map<String, Value>) -> Question {
        let values: Map<String, Value> = self
            .names()
            .iter()
            .filter_map(|name| arguments.get(name).map(|value| (name.clone(), value.clone())))
            .collect();
        // A template that fails on these arguments must not start a job without consent: the raw template
        // is shown.
        let message = self.message.render(&values).unwrap_or_else(|_| self.message.text().to_owned());
        Question::form("confirm", message, json!({"type": "object", "properties": {}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The question of a confirmation shows the arguments unescaped, and has an empty form.
    #[test]
    fn confirmation_message_names_its_arguments() {
        let confirm =
            Confirm::new("Delete {{ path }}{{ extra }}?".to_owned(), ConfirmDefault::Refuse).unwrap();
        assert_eq!(confirm.names().iter().map(String::as_str).collect::<Vec<_>>(), ["extra", "path"]);
        let arguments = Map::from_iter([("path".to_owned(), json!("/tmp/<a>"))]);
        let question = confirm.question(&arguments);
        assert_eq!(question.message, "Delete /tmp/<a>?");
        assert_eq!(question.ask.form(), Some(&json!({"type": "object", "properties": {}})));
    }

    /// An empty message or a template with a syntax error is a config error.
    #[test]
    fn invalid_confirmation_message_is_refused() {
        assert!(Confirm::new(" ".to_owned(), ConfirmDefault::Refuse).unwrap_err().contains("no text"));
        assert!(
            Confirm::new("{{ a".to_owned(), ConfirmDefault::Refuse).unwrap_err().contains("syntax error")
        );
    }
}
