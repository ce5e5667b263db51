//! [`Form`]: the fields of a question, and the conversion of typed text into an answer. It is pure:
//! [`super::ask`] asks.

use serde_json::{Map, Value};

use crate::arguments::{compile, parse_value};
use crate::shape::{Kind, Shape, value_text};

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
    pub(super) is_list: bool,
    shape: Shape<'a>,
}

impl<'a> Form<'a> {
    /// Parses a requested schema.
    pub(super) fn read(schema: &'a Value) -> Self {
        let root = Shape::root(schema);
        let fields = root.properties().map(|(name, shape)| {
            let items = shape.items().filter(|_| shape.kinds().contains(&Kind::List));
            let choices = match items {
                Some(items) => items.choices(),
                None => shape.choices(),
            };
            let with_title = |(value, title): (&'a Value, Option<&str>)| {
                (value, title.map_or_else(|| value_text(value), str::to_owned))
            };
            Field {
                name,
                title: shape.text("title").unwrap_or(name),
                description: shape.text("description"),
                required: root.requires(name),
                default: shape.get("default"),
                choices: choices.unwrap_or_default().into_iter().map(with_title).collect(),
                is_list: items.is_some(),
                shape,
            }
        });
        // A parsed schema does not keep its order: required fields come first, then optional ones, each by
        // name.
        let (required, optional): (Vec<_>, Vec<_>) = fields.partition(|field| field.required);
        Self { schema, fields: required.into_iter().chain(optional).collect() }
    }

    /// Returns why an answer does not match the schema as a whole.
    pub(super) fn problem(&self, answer: &Map<String, Value>) -> Option<String> {
        let answer = Value::Object(answer.clone());
        let validator = compile(self.schema)?;
        validator.iter_errors(&answer).next().map(|error| error.to_string())
    }
}

impl Field<'_> {
    /// Describes the accepted values.
    pub(super) fn describe(&self) -> String {
        match (self.choices.is_empty(), self.is_list) {
            (true, _) if self.is_boolean() => "yes or no".to_owned(),
            (true, _) => self.shape.describe(),
            (false, true) => "numbers or names, separated by commas".to_owned(),
            (false, false) => "a number or a name".to_owned(),
        }
    }

    /// Returns the default as text for the prompt: the titles of choices, and yes or no for a boolean.
    pub(super) fn default_text(&self) -> Option<String> {
        let display = |value: &Value| {
            let choice = self.choices.iter().find(|(choice, _)| *choice == value);
            choice.map_or_else(|| value_text(value), |(_, title)| title.clone())
        };
        match self.default? {
            Value::Bool(true) => Some("yes".to_owned()),
            Value::Bool(false) => Some("no".to_owned()),
            Value::Array(values) if self.is_list => {
                Some(values.iter().map(display).collect::<Vec<_>>().join(", "))
            }
            value => Some(display(value)),
        }
    }

    /// Returns true for a boolean field.
    fn is_boolean(&self) -> bool {
        self.shape.kinds() == [Kind::Boolean] && self.choices.is_empty()
    }

    /// Parses a typed value; `None` if the field is omitted.
    ///
    /// # Errors
    /// If the value is invalid.
    pub(super) fn parse(&self, entry: &str) -> Result<Option<Value>, String> {
        let entry = entry.trim();
        if entry.is_empty() {
            return match (self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("an answer is required".to_owned()),
            };
        }
        let value = if self.choices.is_empty() {
            self.parse_free(entry)
        } else if self.is_list {
            self.parse_list(entry)?
        } else {
            Some(self.find_choice(entry)?)
        };
        let is_valid =
            |value: &Value| compile(self.schema()).is_none_or(|validator| validator.is_valid(value));
        match value.filter(is_valid) {
            Some(value) => Ok(Some(value)),
            None if self.is_boolean() => Err(format!("{entry:?} is neither yes nor no")),
            None => Err(format!("{entry:?} is invalid: expected {}", self.shape.describe())),
        }
    }

    fn schema(&self) -> &Value {
        self.shape.as_json()
    }

    fn parse_free(&self, entry: &str) -> Option<Value> {
        match entry.to_ascii_lowercase().as_str() {
            "y" if self.is_boolean() => Some(Value::Bool(true)),
            "n" if self.is_boolean() => Some(Value::Bool(false)),
            _ => parse_value(entry, self.shape),
        }
    }

    fn parse_list(&self, entry: &str) -> Result<Option<Value>, String> {
        let mut values = Vec::new();
        for part in entry.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "none") {
            let value = self.find_choice(part)?;
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(Some(Value::Array(values)))
    }

    /// Returns the choice with this number, value or title.
    fn find_choice(&self, entry: &str) -> Result<Value, String> {
        let same = |text: &str| text.eq_ignore_ascii_case(entry);
        let exact = self.choices.iter().find(|(value, _)| value_text(value) == entry);
        let by_name = || self.choices.iter().find(|(value, title)| same(&value_text(value)) || same(title));
        let by_number =
            || entry.parse::<usize>().ok().and_then(|number| self.choices.get(number.checked_sub(1)?));
        match exact.or_else(by_name).or_else(by_number) {
            Some((value, _)) => Ok((*value).clone()),
            None => Err(format!("{entry:?} is not one of the {} choices", self.choices.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(schema: Value, required: bool, entry: &str) -> Result<Option<Value>, String> {
        let required = if required { json!(["it"]) } else { json!([]) };
        let schema = json!({"type": "object", "properties": {"it": schema}, "required": required});
        Form::read(&schema).fields[0].parse(entry)
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
            assert_eq!(parse(schema.clone(), true, entry), Ok(Some(value)), "{schema} {entry}");
        }
    }

    #[test]
    fn invalid_form_entry_is_explained() {
        for (schema, entry, problem) in [
            (json!({"type": "string"}), "", "an answer is required"),
            (
                json!({"type": "string", "minLength": 3}),
                "ab",
                "\"ab\" is invalid: expected text of at least 3 characters",
            ),
            (json!({"type": "string", "format": "email"}), "ab", "\"ab\" is invalid: expected text (email)"),
            (
                json!({"type": "integer", "maximum": 5}),
                "6",
                "\"6\" is invalid: expected whole number of at most 5",
            ),
            (json!({"type": "boolean"}), "maybe", "\"maybe\" is neither yes nor no"),
            (json!({"type": "string", "enum": ["a", "b"]}), "3", "\"3\" is not one of the 2 choices"),
            (json!({"type": "string", "enum": ["a", "b"]}), "0", "\"0\" is not one of the 2 choices"),
            (
                json!({"type": "array", "minItems": 2, "items": {"type": "string", "enum": ["a", "b"]}}),
                "a",
                "\"a\" is invalid: expected list of at least 2 entries of one of a, b",
            ),
        ] {
            assert_eq!(parse(schema.clone(), true, entry), Err(problem.to_owned()), "{schema}");
        }
    }

    /// An empty entry of an optional field without a default leaves the field out.
    #[test]
    fn empty_entry_uses_default() {
        assert_eq!(parse(json!({"type": "integer", "default": 3}), true, ""), Ok(Some(json!(3))));
        assert_eq!(parse(json!({"type": "integer"}), false, " "), Ok(None));
        let schema = json!({"type": "object", "properties": {"it": {
            "type": "string", "default": "b", "oneOf": [{"const": "b", "title": "Blue"}]}}});
        assert_eq!(Form::read(&schema).fields[0].default_text().as_deref(), Some("Blue"));
    }
}
