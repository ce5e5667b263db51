//! [`Form`]: the fields of a question, and the conversion of typed text into an answer. It is pure:
//! [`super::ask`] asks.

use serde_json::{Map, Value};

use super::arguments::{compiled, typed};
use super::shape::{Kind, Shape, plain};

/// The form of a question.
#[derive(Debug)]
pub(super) struct Form<'a> {
    schema: &'a Value,
    pub(super) fields: Vec<Field<'a>>,
}

/// One field of a form.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) description: Option<&'a str>,
    pub(super) required: bool,
    pub(super) default: Option<&'a Value>,
    /// The choices, with the text shown for each.
    pub(super) choices: Vec<(&'a Value, String)>,
    /// True for a list: several values are allowed.
    pub(super) many: bool,
    shape: Shape<'a>,
}

impl<'a> Form<'a> {
    /// Parses a requested schema.
    pub(super) fn read(schema: &'a Value) -> Self {
        let root = Shape::of(schema);
        let fields = root.properties().map(|(name, shape)| {
            let items = shape.items().filter(|_| shape.kinds().contains(&Kind::List));
            let choices = match items {
                Some(items) => items.choices(),
                None => shape.choices(),
            };
            let shown = |(value, title): (&'a Value, Option<&str>)| {
                (value, title.map_or_else(|| plain(value), str::to_owned))
            };
            Field {
                name,
                title: shape.text("title").unwrap_or(name),
                description: shape.text("description"),
                required: root.requires(name),
                default: shape.get("default"),
                choices: choices.unwrap_or_default().into_iter().map(shown).collect(),
                many: items.is_some(),
                shape,
            }
        });
        // A parsed schema does not keep its order: required fields come first, then optional ones, each by
        // name.
        let (must, may): (Vec<_>, Vec<_>) = fields.partition(|field| field.required);
        Self { schema, fields: must.into_iter().chain(may).collect() }
    }

    /// Returns why an answer does not match the schema as a whole.
    pub(super) fn problem(&self, answer: &Map<String, Value>) -> Option<String> {
        let answer = Value::Object(answer.clone());
        let validator = compiled(self.schema)?;
        validator.iter_errors(&answer).next().map(|error| error.to_string())
    }
}

impl Field<'_> {
    /// Describes the accepted values.
    pub(super) fn words(&self) -> String {
        match (self.choices.is_empty(), self.many) {
            (true, _) if self.is_yes_or_no() => "yes or no".to_owned(),
            (true, _) => self.shape.words(),
            (false, true) => "numbers or names, separated by commas".to_owned(),
            (false, false) => "a number or a name".to_owned(),
        }
    }

    /// Returns the default as text for the prompt: the titles of choices, and yes or no for a boolean.
    pub(super) fn default_words(&self) -> Option<String> {
        let shown = |value: &Value| {
            let choice = self.choices.iter().find(|(choice, _)| *choice == value);
            choice.map_or_else(|| plain(value), |(_, title)| title.clone())
        };
        match self.default? {
            Value::Bool(true) => Some("yes".to_owned()),
            Value::Bool(false) => Some("no".to_owned()),
            Value::Array(values) if self.many => {
                Some(values.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            value => Some(shown(value)),
        }
    }

    /// Returns true for a boolean field.
    fn is_yes_or_no(&self) -> bool {
        self.shape.kinds() == [Kind::Boolean] && self.choices.is_empty()
    }

    /// Parses a typed value; `None` if the field is omitted.
    ///
    /// # Errors
    /// If the value is invalid.
    pub(super) fn take(&self, entry: &str) -> Result<Option<Value>, String> {
        let entry = entry.trim();
        if entry.is_empty() {
            return match (self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("an answer is needed here".to_owned()),
            };
        }
        let value = if self.choices.is_empty() {
            self.free(entry)
        } else if self.many {
            self.several(entry)?
        } else {
            Some(self.choice(entry)?)
        };
        let fits = |value: &Value| compiled(self.schema()).is_none_or(|validator| validator.is_valid(value));
        match value.filter(fits) {
            Some(value) => Ok(Some(value)),
            None if self.is_yes_or_no() => Err(format!("{entry:?} is neither yes nor no")),
            None => Err(format!("{entry:?} does not fit: expected {}", self.shape.words())),
        }
    }

    fn schema(&self) -> &Value {
        self.shape.whole()
    }

    fn free(&self, entry: &str) -> Option<Value> {
        match entry.to_ascii_lowercase().as_str() {
            "y" if self.is_yes_or_no() => Some(Value::Bool(true)),
            "n" if self.is_yes_or_no() => Some(Value::Bool(false)),
            _ => typed(entry, self.shape),
        }
    }

    fn several(&self, entry: &str) -> Result<Option<Value>, String> {
        let mut chosen = Vec::new();
        for part in entry.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "none") {
            let value = self.choice(part)?;
            if !chosen.contains(&value) {
                chosen.push(value);
            }
        }
        Ok(Some(Value::Array(chosen)))
    }

    /// Returns the choice with this number, value or title.
    fn choice(&self, entry: &str) -> Result<Value, String> {
        let same = |text: &str| text.eq_ignore_ascii_case(entry);
        let exact = self.choices.iter().find(|(value, _)| plain(value) == entry);
        let named = || self.choices.iter().find(|(value, title)| same(&plain(value)) || same(title));
        let numbered =
            || entry.parse::<usize>().ok().and_then(|number| self.choices.get(number.checked_sub(1)?));
        match exact.or_else(named).or_else(numbered) {
            Some((value, _)) => Ok((*value).clone()),
            None => Err(format!("{entry:?} is none of the {} choices", self.choices.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(schema: Value, required: bool, entry: &str) -> Result<Option<Value>, String> {
        let required = if required { json!(["it"]) } else { json!([]) };
        let schema = json!({"type": "object", "properties": {"it": schema}, "required": required});
        Form::read(&schema).fields[0].take(entry)
    }

    /// Each type of field reads its value from one line of text.
    #[test]
    fn form_fields_accept_their_types() {
        let titled = json!({"type": "string", "oneOf": [
            {"const": "blue", "title": "Blue/green"}, {"const": "roll", "title": "Rolling"}]});
        let legacy = json!({"type": "string", "enum": ["eu", "us"], "enumNames": ["Europe", "America"]});
        let many = json!({"type": "array", "items": {"anyOf": [
            {"const": "api", "title": "The API"}, {"const": "web", "title": "The site"}]}});
        let plain_many = json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}});
        for (schema, entry, value) in [
            (json!({"type": "string"}), " ana ", json!("ana")),
            (json!({"type": "integer"}), "7", json!(7)),
            (json!({"type": "number"}), "0.5", json!(0.5)),
            (json!({"type": "boolean"}), "y", json!(true)),
            (json!({"type": "boolean"}), "No", json!(false)),
            (titled.clone(), "2", json!("roll")),
            (titled.clone(), "rolling", json!("roll")),
            (titled, "blue", json!("blue")),
            (legacy, "europe", json!("eu")),
            (many.clone(), "1, 2, 1", json!(["api", "web"])),
            (many.clone(), "the site", json!(["web"])),
            (many, "none", json!([])),
            (plain_many, "b", json!(["b"])),
        ] {
            assert_eq!(take(schema.clone(), true, entry), Ok(Some(value)), "{schema} {entry}");
        }
    }

    #[test]
    fn invalid_form_entry_is_explained() {
        for (schema, entry, problem) in [
            (json!({"type": "string"}), "", "an answer is needed here"),
            (
                json!({"type": "string", "minLength": 3}),
                "ab",
                "\"ab\" does not fit: expected text of at least 3 characters",
            ),
            (
                json!({"type": "string", "format": "email"}),
                "ab",
                "\"ab\" does not fit: expected text (email)",
            ),
            (
                json!({"type": "integer", "maximum": 5}),
                "6",
                "\"6\" does not fit: expected whole number of at most 5",
            ),
            (json!({"type": "boolean"}), "maybe", "\"maybe\" is neither yes nor no"),
            (json!({"type": "string", "enum": ["a", "b"]}), "3", "\"3\" is none of the 2 choices"),
            (json!({"type": "string", "enum": ["a", "b"]}), "0", "\"0\" is none of the 2 choices"),
            (
                json!({"type": "array", "minItems": 2, "items": {"type": "string", "enum": ["a", "b"]}}),
                "a",
                "\"a\" does not fit: expected list of at least 2 entries of one of a, b",
            ),
        ] {
            assert_eq!(take(schema.clone(), true, entry), Err(problem.to_owned()), "{schema}");
        }
    }

    /// An empty entry of an optional field without a default leaves the field out.
    #[test]
    fn empty_entry_uses_default() {
        assert_eq!(take(json!({"type": "integer", "default": 3}), true, ""), Ok(Some(json!(3))));
        assert_eq!(take(json!({"type": "integer"}), false, " "), Ok(None));
        let schema = json!({"type": "object", "properties": {"it": {
            "type": "string", "default": "b", "oneOf": [{"const": "b", "title": "Blue"}]}}});
        assert_eq!(Form::read(&schema).fields[0].default_words().as_deref(), Some("Blue"));
    }
}
