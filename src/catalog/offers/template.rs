//! [`Template`]: text with variables, as the config writes it. Values of clients are inserted verbatim and
//! never parsed as a template. It must not know what the text is for.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

/// A validated template.
#[derive(Debug)]
pub struct Template {
    text: String,
    names: BTreeSet<String>,
}

impl Template {
    /// Parses a template, such as `Delete {{ path }}?`.
    ///
    /// # Errors
    /// If the template is invalid; the text explains why.
    pub fn new(text: String) -> Result<Self, String> {
        let environment = environment();
        let names = {
            let template = environment.template_from_str(&text).map_err(|error| error_message(&error))?;
            let globals: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
            let names = template.undeclared_variables(false).into_iter();
            names.filter(|name| !globals.contains(name.as_str())).collect::<BTreeSet<String>>()
        };
        // An unknown filter is detected only on rendering.
        let empty_values: BTreeMap<&str, &str> = names.iter().map(|name| (name.as_str(), "")).collect();
        if let Err(error) = environment.render_str(&text, Serde(&empty_values))
            && matches!(
                error.kind(),
                ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction
            )
        {
            return Err(error_message(&error));
        }
        Ok(Self { text, names })
    }

    /// Returns the names of its variables.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Returns the text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Renders the text with these values; an absent value renders as empty text.
    ///
    /// # Errors
    /// If it cannot be rendered with these values.
    pub fn render(&self, values: &impl Serialize) -> Result<String, String> {
        environment().render_str(&self.text, Serde(values)).map_err(|error| error_message(&error))
    }
}

pub(in crate::catalog) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // Absent values render as empty text.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment
}

fn error_message(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A value that contains template syntax is inserted as it is.
    #[test]
    fn template_values_are_not_escaped() {
        let template =
            Template::new("{{ a }}{% if b %} and {{ b }}{% endif %}{{ range(2) | join }}".to_owned())
                .unwrap();
        assert_eq!(template.names().iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(template.render(&json!({"a": "<{{ b }}>"})).unwrap(), "<{{ b }}>01");
        assert_eq!(template.render(&json!({"a": "x", "b": "y"})).unwrap(), "x and y01");
    }

    /// Syntax errors and unknown filters are found when the config is read.
    #[test]
    fn template_errors_are_found_early() {
        assert!(Template::new("{{ a".to_owned()).unwrap_err().contains("syntax error"));
        assert!(Template::new("{{ a | shuot }}".to_owned()).unwrap_err().contains("shuot"));
        assert!(Template::new("{{ shout(a) }}".to_owned()).is_ok_and(|t| t.names().contains("shout")));
    }
}
