//! [`Argument`]: what a prompt takes, or the address of a resource: text, with the values that it can have or that are
//! suggested. It must not know where it is used.

use serde_json::{Value, json};

/// The most values that one completion has (MCP, server/utilities/completion).
const MOST: usize = 100;

/// Something that a client gives as text.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// What it means.
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
    /// Its value where none is given.
    pub default: Option<String>,
    /// Which values it can have.
    pub values: Values,
    /// The tool whose parameter has those values, if they are taken from one.
    pub tool: Option<String>,
}

/// Which values an argument can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Any.
    #[default]
    Any,
    /// Any; these are suggested.
    Suggested(Vec<String>),
    /// These and no others.
    Only(Vec<String>),
}

/// Values that fit what a user has typed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Up to a hundred of them, the nearest first.
    pub values: Vec<String>,
    /// How many there are.
    pub total: usize,
}

impl Argument {
    /// Says what is wrong with a value.
    ///
    /// # Errors
    /// The words, beginning with the argument's name.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match &self.values {
            Values::Only(values) if !values.iter().any(|known| known == value) => {
                let known: Vec<_> = values.iter().take(MOST).map(|value| format!("{value:?}")).collect();
                Err(format!("`{}` is none of its values: {}", self.name, known.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// What a form asks for: a JSON Schema.
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

    /// What could be meant by what was typed so far.
    pub fn complete(&self, typed: &str) -> Completion {
        match &self.values {
            Values::Any => Completion::default(),
            Values::Suggested(values) | Values::Only(values) => {
                Completion::of(values.iter().map(String::as_str), typed)
            }
        }
    }
}

impl Completion {
    /// Those of some values that fit what was typed: first those that begin like it, then those that have it
    /// elsewhere, each in the order given. Case does not matter.
    pub fn of<'a>(values: impl Iterator<Item = &'a str>, typed: &str) -> Self {
        let typed = typed.to_lowercase();
        let (mut first, mut then) = (Vec::new(), Vec::new());
        for value in values {
            match value.to_lowercase().find(&typed) {
                Some(0) => first.push(value),
                Some(_) => then.push(value),
                None => {}
            }
        }
        let total = first.len() + then.len();
        Self { values: first.into_iter().chain(then).take(MOST).map(str::to_owned).collect(), total }
    }

    /// True if there are more than it has.
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
    fn what_begins_like_it_comes_first() {
        let values = texts(&["preproduction", "production", "staging", "Probe"]);
        for argument in [argument(Values::Suggested(values.clone())), argument(Values::Only(values.clone()))]
        {
            assert_eq!(argument.complete("pro").values, ["production", "Probe", "preproduction"]);
            assert_eq!(argument.complete("").values, values);
            assert_eq!(argument.complete("x"), Completion::default());
        }
        assert_eq!(argument(Values::Any).complete("p"), Completion::default());
    }

    #[test]
    fn of_many_there_are_a_hundred_and_their_number() {
        let values: Vec<String> = (0..250).map(|n| format!("v{n:03}")).collect();
        let all = argument(Values::Suggested(values)).complete("v");
        assert_eq!((all.values.len(), all.total, all.has_more()), (100, 250, true));
        let few = Completion::of(["a", "b"].into_iter(), "a");
        assert_eq!((few.total, few.has_more()), (1, false));
    }

    #[test]
    fn a_value_that_is_none_of_them_is_refused() {
        let only = argument(Values::Only(texts(&["staging", "production"])));
        assert_eq!(only.check("staging"), Ok(()));
        assert_eq!(
            only.check("prod"),
            Err("`env` is none of its values: \"staging\", \"production\"".to_owned())
        );
        assert_eq!(argument(Values::Suggested(texts(&["a"]))).check("b"), Ok(()));
    }
}
