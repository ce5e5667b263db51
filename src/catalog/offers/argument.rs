//! [`Argument`]: a text argument of a prompt or of a resource address, with its allowed or suggested
//! values. It must not know where it is used.

use serde_json::{Value, json};

/// Maximum number of values in one completion (MCP, server/utilities/completion).
const MAX_COMPLETIONS: usize = 100;

/// A text argument that a client supplies.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// Its meaning.
    pub description: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Its default value.
    pub default: Option<String>,
    /// The values that it accepts.
    pub values: Values,
    /// The tool whose parameter defines those values, if any.
    pub tool: Option<String>,
}

/// The values that an argument accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Any value.
    #[default]
    Any,
    /// Any value; these are suggested.
    Suggested(Vec<String>),
    /// Only these values.
    Only(Vec<String>),
}

/// Values that match what a user has typed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Up to a hundred matches, the best first.
    pub values: Vec<String>,
    /// Total number of matches.
    pub total: usize,
}

impl Argument {
    /// Checks a value.
    ///
    /// # Errors
    /// If the value is not allowed; the text begins with the argument's name.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match &self.values {
            Values::Only(values) if !values.iter().any(|allowed| allowed == value) => {
                let allowed: Vec<_> =
                    values.iter().take(MAX_COMPLETIONS).map(|value| format!("{value:?}")).collect();
                Err(format!("`{}` must be one of {}", self.name, allowed.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the JSON Schema of the argument for a form.
    pub fn schema(&self) -> Value {
        let mut schema = json!({"type": "string"});
        for (name, text) in [("title", &self.title), ("description", &self.description)] {
            if let Some(text) = text {
                schema[name] = Value::from(text.as_str());
            }
        }
        if let Values::Only(values) = &self.values {
            schema["enum"] = json!(values);
        }
        schema
    }

    /// Returns the completions of the text typed so far.
    pub fn complete(&self, typed: &str) -> Completion {
        match &self.values {
            Values::Any => Completion::default(),
            Values::Suggested(values) | Values::Only(values) => {
                Completion::find(values.iter().map(String::as_str), typed)
            }
        }
    }
}

impl Completion {
    /// Selects the values that match the typed text: first those that begin with it, then those that
    /// contain it, each in the given order. Case is ignored.
    pub fn find<'a>(values: impl Iterator<Item = &'a str>, typed: &str) -> Self {
        let typed = typed.to_lowercase();
        let (mut prefix_matches, mut other_matches) = (Vec::new(), Vec::new());
        for value in values {
            match value.to_lowercase().find(&typed) {
                Some(0) => prefix_matches.push(value),
                Some(_) => other_matches.push(value),
                None => {}
            }
        }
        let total = prefix_matches.len() + other_matches.len();
        Self {
            values: prefix_matches
                .into_iter()
                .chain(other_matches)
                .take(MAX_COMPLETIONS)
                .map(str::to_owned)
                .collect(),
            total,
        }
    }

    /// Returns true if there are more matches than `values` contains.
    pub fn has_more(&self) -> bool {
        self.total > self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(values: Values) -> Argument {
        let name = "env".to_owned();
        Argument { name, title: None, description: None, required: true, default: None, values, tool: None }
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn completion_ranks_prefix_matches_first() {
        let values = texts(&["preproduction", "production", "staging", "Probe"]);
        for argument in [argument(Values::Suggested(values.clone())), argument(Values::Only(values.clone()))]
        {
            assert_eq!(argument.complete("pro").values, ["production", "Probe", "preproduction"]);
            assert_eq!(argument.complete("").values, values);
            assert_eq!(argument.complete("x"), Completion::default());
        }
        assert_eq!(argument(Values::Any).complete("p"), Completion::default());
    }

    /// Of more than 100 values, the first 100 and the total are returned.
    #[test]
    fn completion_returns_hundred_and_total() {
        let values: Vec<String> = (0..250).map(|n| format!("v{n:03}")).collect();
        let all = argument(Values::Suggested(values)).complete("v");
        assert_eq!((all.values.len(), all.total, all.has_more()), (100, 250, true));
        let few = Completion::find(["a", "b"].into_iter(), "a");
        assert_eq!((few.total, few.has_more()), (1, false));
    }

    /// An argument with fixed values takes no other; suggested values do not restrict it.
    #[test]
    fn value_outside_list_is_refused() {
        let only = argument(Values::Only(texts(&["staging", "production"])));
        assert_eq!(only.check("staging"), Ok(()));
        assert_eq!(only.check("prod"), Err("`env` must be one of \"staging\", \"production\"".to_owned()));
        assert_eq!(argument(Values::Suggested(texts(&["a"]))).check("b"), Ok(()));
    }
}
